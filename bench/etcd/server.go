package main

import (
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// serve starts a server of one member with etcd's own defaults, which write
// every change to the disk before they answer.
func serve(dir string) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel = dir, "fatal"
	anywhere := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{anywhere}, []url.URL{anywhere}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{anywhere}, []url.URL{anywhere}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	s, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.Server.ReadyNotify():
		return s, nil
	case err := <-s.Err():
		return nil, err
	case <-time.After(time.Minute):
		s.Close()
		return nil, fmt.Errorf("the server in %s was not ready within a minute", dir)
	}
}
