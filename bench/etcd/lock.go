package main

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/holdfast-go/holdfast/bench/crew"
)

// side is etcd's mutex. Each member of a crowd has its own session, because two
// goroutines of one session would both hold the lock.
type side struct{ client *clientv3.Client }

func open(name, addr string) (crew.Client, error) {
	if name != "etcd" {
		return nil, fmt.Errorf("this program has no side called %q", name)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}})
	return side{c}, err
}

func (s side) Enter(ctx context.Context, kind, name string) (crew.Enter, error) {
	if kind != "" {
		return nil, errors.New("this side has only a mutex")
	}
	// A session must outlive the job that opens it.
	session, err := concurrency.NewSession(s.client, concurrency.WithTTL(30),
		concurrency.WithContext(context.WithoutCancel(ctx)))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		mu := concurrency.NewMutex(session, name)
		if err := mu.Lock(ctx); err != nil {
			return 0, nil, err
		}
		return uint64(mu.Header().GetRevision()), mu.Unlock, nil
	}, nil
}

func (s side) Close() { _ = s.client.Close() }
