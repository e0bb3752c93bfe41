// Package kubernetes is a program with client-go's leader election, before and after it moves. `make
// test-kubernetes` compiles it against client-go, and runs both electors.
package kubernetes

import (
	"context"
	"time"

	clientgo "k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integrate/leaderelection"
)

// Before runs the callbacks while a lock of Kubernetes makes this process the leader.
func Before(ctx context.Context, lock resourcelock.Interface, callbacks clientgo.LeaderCallbacks) error {
	elector, err := clientgo.NewLeaderElector(clientgo.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks:       callbacks,
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	return nil
}

// After runs them while an election of Holdfast does.
func After(
	ctx context.Context, election *holdfast.Election, identity string, callbacks leaderelection.LeaderCallbacks,
) error {
	elector, err := leaderelection.New(leaderelection.Config{
		Election: election, Identity: identity, Callbacks: callbacks,
	})
	if err != nil {
		return err
	}
	return elector.Run(ctx)
}
