package kubernetes

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integrate/leaderelection"
	"github.com/holdfast-go/holdfast/memstore"
)

// What a program may ask an elector, of both packages. Only Run differs: ours returns an error.
type elector interface {
	GetLeader() string
	IsLeader() bool
}

var (
	_ elector = (*clientgo.LeaderElector)(nil)
	_ elector = (*leaderelection.LeaderElector)(nil)

	// The callbacks convert in both directions: they have the same fields.
	_ = leaderelection.LeaderCallbacks(clientgo.LeaderCallbacks{})
	_ = clientgo.LeaderCallbacks(leaderelection.LeaderCallbacks{})
)

// Both electors call the same callbacks: the leader, the start, the stop after the work has ended.
func TestBothElectorsCallTheSameCallbacks(t *testing.T) {
	client, err := holdfast.New(memstore.New(), holdfast.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	for name, run := range map[string]func(ctx context.Context, callbacks clientgo.LeaderCallbacks) error{
		"client-go": func(ctx context.Context, callbacks clientgo.LeaderCallbacks) error {
			return Before(ctx, &lock{}, callbacks)
		},
		"holdfast": func(ctx context.Context, callbacks clientgo.LeaderCallbacks) error {
			return After(ctx, client.Election("controller"), "pod-1", leaderelection.LeaderCallbacks(callbacks))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var mu sync.Mutex
			var called []string
			note := func(what string) {
				mu.Lock()
				defer mu.Unlock()
				called = append(called, what)
			}
			known, worked := make(chan struct{}), make(chan struct{})
			err := run(ctx, clientgo.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					defer close(worked)
					<-known
					note("started")
					stop()
					<-ctx.Done()
				},
				OnStoppedLeading: func() {
					<-worked // client-go does not wait for the work
					note("stopped")
				},
				OnNewLeader: func(identity string) {
					note("leader " + identity)
					close(known)
				},
			})
			if err != nil {
				t.Error(err)
			}
			if want := []string{"leader pod-1", "started", "stopped"}; !slices.Equal(called, want) {
				t.Errorf("called %q, want %q", called, want)
			}
		})
	}
}

// lock is a lock of client-go in memory.
type lock struct {
	mu     sync.Mutex
	record *resourcelock.LeaderElectionRecord
}

var missing = apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "controller")

func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record == nil {
		return nil, nil, missing
	}
	same := *l.record
	raw, err := json.Marshal(same)
	return &same, raw, err
}

func (l *lock) Create(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(context.Background(), record)
}

func (l *lock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record = &record
	return nil
}

func (*lock) RecordEvent(string) {}

func (*lock) Identity() string { return "pod-1" }

func (*lock) Describe() string { return "controller" }
