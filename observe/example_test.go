package observe_test

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/observe"
)

// grants counts grants.
type grants int

func (g *grants) Observe(e observe.Event) {
	if e.Kind == observe.EventGrant {
		*g++
	}
}

func ExampleObserver() {
	ctx := context.Background()
	var count grants
	client, _ := holdfast.New(memstore.New(), holdfast.Config{Observer: &count})
	for range 3 {
		_ = client.Mutex("report").Do(ctx, func(context.Context) error { return nil })
	}
	fmt.Println(count)
	// Output: 3
}
