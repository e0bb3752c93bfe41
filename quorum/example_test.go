package quorum_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
)

// A program would use adapters of independent servers instead of memstores.
func Example() {
	ctx := context.Background()
	nodes := []store.Store{memstore.New(), memstore.New(), memstore.New()}
	s, err := quorum.New(nodes, quorum.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	client, err := holdfast.New(s, holdfast.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)

	err = client.Mutex("ledger").Do(ctx, func(context.Context) error {
		_, err := client.Mutex("ledger").TryLock(ctx)
		fmt.Println("taken on a majority:", errors.Is(err, holdfast.ErrHeld))
		return nil
	})
	fmt.Println(err)

	_, err = client.Semaphore("pool", 8).Acquire(ctx, 1)
	fmt.Println("permits are refused:", errors.Is(err, quorum.ErrUnsupported))
	// Output:
	// taken on a majority: true
	// <nil>
	// permits are refused: true
}

func ExampleNew() {
	two := []store.Store{memstore.New(), memstore.New()}
	_, err := quorum.New(two, quorum.Config{})
	fmt.Println(err)
	// Output:
	// quorum: invalid configuration: a quorum of 2 nodes tolerates no failure: use 3 or 5 independent servers
}

// For a health check: which servers answer, and which count for new locks.
func ExampleStore_Nodes() {
	ctx := context.Background()
	nodes := []store.Store{memstore.New(), memstore.New(), memstore.New()}
	s, _ := quorum.New(nodes, quorum.Config{})
	defer s.Close()
	client, _ := holdfast.New(s, holdfast.Config{})
	defer client.Close(ctx)
	lease, _ := client.Mutex("ledger").Lock(ctx)
	defer lease.Release(ctx)
	count := 0
	for _, n := range s.Nodes() {
		if n.Answers && n.Counts {
			count++
		}
	}
	fmt.Println("locks can be acquired:", count >= 2)
	// Output: locks can be acquired: true
}

// For an operator's tool, which acquires no lock.
func ExampleStore_ReadNodes() {
	nodes := []store.Store{memstore.New(), memstore.New(), memstore.New()}
	s, _ := quorum.New(nodes, quorum.Config{})
	defer s.Close()
	infos, err := s.ReadNodes(context.Background(), "holdfast")
	if err != nil {
		fmt.Println(err)
	}
	for i, n := range infos {
		fmt.Println(i, n.Answers, n.Counts)
	}
	// Output:
	// 0 true true
	// 1 true true
	// 2 true true
}

// Close the clients first: they release what they hold.
func ExampleStore_Close() {
	ctx := context.Background()
	nodes := []store.Store{memstore.New(), memstore.New(), memstore.New()}
	s, err := quorum.New(nodes, quorum.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := holdfast.New(s, holdfast.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	lease, err := client.Mutex("ledger").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.Close(ctx), errors.Is(lease.Err(), holdfast.ErrClosed))
	s.Close()
	// Output: <nil> true
}

func ExampleLazy() {
	connect := func() (store.Store, error) { // with a library that connects when its client is made
		return memstore.New(), nil
	}
	s, err := quorum.New([]store.Store{
		quorum.Lazy(connect), quorum.Lazy(connect), quorum.Lazy(connect),
	}, quorum.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	client, err := holdfast.New(s, holdfast.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	err = client.Mutex("invoice/42").Do(context.Background(), func(context.Context) error {
		fmt.Println("held on a majority")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: held on a majority
}

// Two of three servers are down. [holdfast.Hint] returns the same sentence.
func ExampleNoMajorityError_Hint() {
	down := func() (store.Store, error) { return nil, errors.New("connection refused") }
	nodes := []store.Store{memstore.New(), quorum.Lazy(down), quorum.Lazy(down)}
	s, err := quorum.New(nodes, quorum.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	client, err := holdfast.New(s, holdfast.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	_, err = client.Mutex("invoice/42").TryLock(context.Background())
	var few *quorum.NoMajorityError
	if errors.As(err, &few) {
		fmt.Println(few.Hint())
	}
	// Output: check the servers that the error names: a majority must be running and answering
}
