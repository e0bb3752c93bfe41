package goredis_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
)

var (
	write   = action("redis.call('SET', KEYS[1], 'x') return 'done'")
	publish = action("redis.call('PUBLISH', 'channel', 'x') return 'done'")
	crash   = action("local x = nil return x.y")
	custom  = action("return redis.error_reply('BADARG no such mode')")
	bare    = action("return {err = 'no code'}")
)

func TestServerErrors(t *testing.T) {
	server := redistest.Start(t, tests)
	guarded := redistest.Start(t, tests, redistest.Password("secret"))
	full := redistest.Start(t, tests, redistest.Args("--maxmemory", "1"))
	replica := redistest.Start(t, tests, redistest.ReplicaOf(server))
	server.Do(t, "SADD", "set", "x")
	server.Do(t, "ACL", "SETUSER", "ann", "on", ">pw", "~mine", "resetchannels",
		"+evalsha", "+eval", "+get", "+hello")
	server.Do(t, "ACL", "SETUSER", "bob", "on", ">pw", "~*", "+get", "+hello")
	as := func(user, password string) func(*redis.Options) {
		return func(o *redis.Options) { o.Username, o.Password = user, password }
	}

	for _, test := range []struct {
		name   string
		addr   string
		login  func(*redis.Options)
		action *script.Script
		key    string
		code   string
		says   string
	}{
		{"WrongType", server.Addr(), nil, read, "set", "WRONGTYPE", "wrong kind of value"},
		{"Crash", server.Addr(), nil, crash, "x", "ERR", "attempt to index"},
		{"CustomCode", server.Addr(), nil, custom, "x", "BADARG", "BADARG no such mode"},
		{"NoCode", server.Addr(), nil, bare, "x", "ERR", "no code"},
		{"NoPermission", server.Addr(), as("bob", "pw"), read, "x", "NOPERM", "evalsha"},
		{"NoPermissionForKey", server.Addr(), as("ann", "pw"), read, "other", "NOPERM", "key"},
		{"NoPermissionInScript", server.Addr(), as("ann", "pw"), write, "mine", "NOPERM", "script"},
		{"NoPermissionToPublish", server.Addr(), as("ann", "pw"), publish, "mine", "NOPERM", "script"},
		{"NoAuth", guarded.Addr(), nil, read, "x", "NOAUTH", "Authentication required"},
		{"WrongPass", guarded.Addr(), as("", "guess"), read, "x", "WRONGPASS", "invalid"},
		{"OutOfMemory", full.Addr(), nil, write, "x", "OOM", "maxmemory"},
		{"ReadOnly", replica.Addr(), nil, write, "x", "READONLY", "read only replica"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, _ := open(t, test.addr, test.login)
			_, err := s.Run(t.Context(), test.action, []string{test.key}, nil)
			var refused *holdfast.ServerError
			if !errors.As(err, &refused) {
				t.Fatalf("got %v", err)
			}
			if refused.Code != test.code || !strings.Contains(refused.Message, test.says) {
				t.Errorf("got %+v", refused)
			}
		})
	}
}

func TestRefusedConnectionNamesTheServer(t *testing.T) {
	addr := redistest.ClosedAddr(t)
	s, _ := open(t, addr, nil)
	_, err := s.Run(t.Context(), read, []string{"x"}, nil)
	var refused *holdfast.ServerError
	if err == nil || errors.As(err, &refused) || !strings.Contains(err.Error(), addr) {
		t.Errorf("Run: %v", err)
	}
	if _, err := s.Listen(t.Context(), "channel", holdfast.Listener{}); err == nil ||
		!strings.Contains(err.Error(), addr) {
		t.Errorf("Listen: %v", err)
	}
	if _, err := s.Server(t.Context()); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("Server: %v", err)
	}
}

func TestNilIsNoAnswer(t *testing.T) {
	s, _ := open(t, redistest.Start(t, tests).Addr(), nil)
	_, err := s.Run(t.Context(), read, []string{"x"}, nil)
	var refused *holdfast.ServerError
	if err == nil || errors.As(err, &refused) {
		t.Errorf("got %v", err)
	}
}
