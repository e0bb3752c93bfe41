package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/proto"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// server is what a world's requests arrive at.
type server interface {
	Run(ctx context.Context, action *script.Script, keys, args []string) (string, error)
	Listen(ctx context.Context, channel string, l store.Listener) (func(), error)
	Dump(key string) map[string]string
	TTL(key string) time.Duration
	Keys() []string
	Flush()
	SetClock(clock func() time.Time)
}

// memory is the actions as memstore does them.
func memory(*testing.T) server {
	naming.Lock() // it draws from the source that naming guards
	defer naming.Unlock()
	return memstore.New()
}

// scripts is the actions as their scripts do them, run by miniredis, which is in
// this process and lives in virtual time as well.
func scripts(t *testing.T) server {
	t.Helper()
	m := miniredis.NewMiniRedis()
	conn, err := m.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return &scripted{m: m, conn: proto.NewClient(conn)}
}

// scripted belongs to the scheduler, but for the ends of subscriptions.
type scripted struct {
	m     *miniredis.Miniredis
	conn  *proto.Client
	clock func() time.Time
	was   time.Time // the last time that the server was told
}

func (s *scripted) SetClock(clock func() time.Time) { s.clock, s.was = clock, clock() }

// tick tells the server the time. Keys live until a millisecond of its clock: when
// that is set back they live longer.
func (s *scripted) tick() {
	now := s.clock()
	s.m.SetTime(now)
	s.m.FastForward(time.Duration(now.UnixMilli()-s.was.UnixMilli()) * time.Millisecond)
	s.was = now
}

func (s *scripted) Run(_ context.Context, action *script.Script, keys, args []string) (string, error) {
	if action == script.CheckACL {
		return "permitted", nil // miniredis knows no rights
	}
	s.tick()
	// miniredis knows no declarations, and refuses no writes.
	words := slices.Concat([]string{"EVAL", action.Body(), fmt.Sprint(len(keys))}, keys, args)
	raw, err := s.conn.Do(words...)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(raw, "-") {
		return "", &holdfast.ServerError{Code: "ERR", Message: strings.TrimSpace(raw[1:])}
	}
	return proto.ReadString(raw)
}

// Listen subscribes. What is published is passed on by a goroutine, as on a
// connection.
func (s *scripted) Listen(_ context.Context, channel string, l store.Listener) (func(), error) {
	sub := s.m.NewSubscriber()
	sub.Subscribe(channel)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case m := <-sub.Messages():
				l.Message(m.Message)
			case <-done:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		sub.Unsubscribe(channel)
		close(done)
		<-ended
	}), nil
}

func (s *scripted) Dump(key string) map[string]string {
	s.tick()
	fields, _ := s.m.HKeys(key) // the error is that there is no such key
	if len(fields) == 0 {
		return nil
	}
	all := make(map[string]string, len(fields))
	for _, f := range fields {
		all[f] = s.m.HGet(key, f)
	}
	return all
}

func (s *scripted) TTL(key string) time.Duration {
	s.tick()
	switch life := s.m.TTL(key); {
	case life > 0:
		return life
	case s.m.Exists(key):
		return -1
	}
	return -2
}

func (s *scripted) Keys() []string {
	s.tick()
	return s.m.Keys()
}

func (s *scripted) Flush() { s.m.FlushAll() }
