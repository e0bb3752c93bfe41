package leaderelection_test

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integrate/leaderelection"
	"github.com/holdfast-go/holdfast/memstore"
)

func newElector(work func(ctx context.Context)) *leaderelection.LeaderElector {
	client, _ := holdfast.New(memstore.New(), holdfast.Config{})
	elector, _ := leaderelection.New(leaderelection.Config{
		Election: client.Election("controller"), Identity: "pod-1",
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: work},
	})
	return elector
}

func ExampleNew() {
	client, _ := holdfast.New(memstore.New(), holdfast.Config{})
	ctx, stop := context.WithCancel(context.Background())
	elector, err := leaderelection.New(leaderelection.Config{
		Election: client.Election("controller"), Identity: "pod-1",
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				fmt.Println("leads")
				stop() // the program ends
			},
			OnStoppedLeading: func() { fmt.Println("stopped, and nobody else leads yet") },
		},
	})
	if err == nil {
		err = elector.Run(ctx)
	}
	fmt.Println(err)
	// Output:
	// leads
	// stopped, and nobody else leads yet
	// <nil>
}

func ExampleLeaderElector_Run() {
	ctx, stop := context.WithCancel(context.Background())
	err := newElector(func(context.Context) { stop() }).Run(ctx)
	fmt.Println("nobody leads:", err)
	// Output: nobody leads: <nil>
}

func ExampleLeaderElector_IsLeader() {
	ctx, stop := context.WithCancel(context.Background())
	var elector *leaderelection.LeaderElector
	elector = newElector(func(context.Context) {
		fmt.Println(elector.IsLeader())
		stop()
	})
	fmt.Println(elector.IsLeader(), elector.Run(ctx), elector.IsLeader())
	// Output:
	// true
	// false <nil> false
}

func ExampleLeaderElector_GetLeader() {
	elector := newElector(func(context.Context) {})
	fmt.Printf("%q before Run\n", elector.GetLeader())
	// Output: "" before Run
}
