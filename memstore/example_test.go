package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// party is the client of another process.
func party(st *memstore.Store) *holdfast.Client {
	client, err := holdfast.New(st, holdfast.Config{App: "example"})
	if err != nil {
		panic(err)
	}
	return client
}

// A test of your code needs no server: two clients of one store are like two processes
// that share locks.
func Example() {
	ctx := context.Background()
	st := memstore.New()
	a, b := party(st), party(st)
	defer a.Close(ctx)
	defer b.Close(ctx)

	lease, _ := a.Mutex("report").Lock(ctx)
	_, err := b.Mutex("report").TryLock(ctx)
	fmt.Println(errors.Is(err, holdfast.ErrHeld))
	_ = lease.Release(ctx)
	// Output: true
}

func ExampleNew() {
	client, err := holdfast.New(memstore.New(), holdfast.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	fmt.Println(client.Mutex("report").Do(context.Background(), func(context.Context) error { return nil }))
	// Output: <nil>
}

// A holder that is paused for longer than its lease.
func ExampleStore_Advance() {
	ctx := context.Background()
	st := memstore.New()
	a, b := party(st), party(st)
	paused, _ := a.Mutex("report", holdfast.TTL(time.Minute)).Lock(ctx)

	st.Advance(2 * time.Minute)
	next, err := b.Mutex("report").TryLock(ctx)
	fmt.Println("the next has it:", err == nil)
	fmt.Println("the paused one is told:", errors.Is(paused.Release(ctx), holdfast.ErrNotHeld))
	_ = next.Release(ctx)
	// Output:
	// the next has it: true
	// the paused one is told: true
}

func ExampleStore_Clock() {
	st := memstore.New()
	st.Advance(time.Hour)
	fmt.Println(st.Clock()() >= time.Hour)
	// Output: true
}

// The server's clock is set back by an hour: tokens go on rising.
func ExampleStore_SetClock() {
	ctx := context.Background()
	st := memstore.New()
	client := party(st)
	first, _ := client.Mutex("report").Lock(ctx)
	_ = first.Release(ctx)

	st.SetClock(func() time.Time { return time.Now().Add(-time.Hour) })
	second, _ := client.Mutex("report").Lock(ctx)
	fmt.Println(first.Token() < second.Token())
	_ = second.Release(ctx)
	// Output: true
}

// The server refuses acquisitions, as a server without free memory does.
func ExampleStore_FailRequest() {
	st := memstore.New()
	st.FailRequest(func(action string, _ []string) error {
		if action == "acquire" {
			return &store.ServerError{Code: "OOM", Message: "OOM command not allowed when used memory > 'maxmemory'"}
		}
		return nil
	})
	_, err := party(st).Mutex("report").Lock(context.Background())
	var refusal *store.ServerError
	fmt.Println(errors.As(err, &refusal) && refusal.Code == "OOM")
	// Output: true
}

// The lock was granted, and the answer is lost: the client cancels the acquisition.
func ExampleStore_LoseReply() {
	ctx := context.Background()
	st := memstore.New()
	a, b := party(st), party(st)
	st.LoseReply(func(action string, _ []string) error {
		if action == "acquire" {
			return errors.New("connection reset")
		}
		return nil
	})
	_, err := a.Mutex("report").TryLock(ctx)
	fmt.Println("unknown:", errors.Is(err, holdfast.ErrUnknownOutcome))

	st.LoseReply(nil)
	lease, err := b.Mutex("report", holdfast.MaxWait(10*time.Second)).Lock(ctx)
	fmt.Println("free again:", err == nil)
	_ = lease.Release(ctx)
	// Output:
	// unknown: true
	// free again: true
}

func ExampleStore_Stall() {
	st := memstore.New()
	client := party(st)
	resume := st.Stall()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := client.Mutex("report").Lock(ctx)
	fmt.Println("the caller is not kept:", errors.Is(err, context.DeadlineExceeded))

	resume()
	lease, err := client.Mutex("report").Lock(context.Background())
	fmt.Println("and then:", err)
	_ = lease.Release(context.Background())
	// Output:
	// the caller is not kept: true
	// and then: <nil>
}

// The push that grants the lock is lost. The waiter polls by its own timer.
func ExampleStore_DropPushes() {
	ctx := context.Background()
	st := memstore.New()
	a, b := party(st), party(st)
	first, _ := a.Mutex("report", holdfast.TTL(100*time.Millisecond)).Lock(ctx)
	st.DropPushes(1)
	time.AfterFunc(10*time.Millisecond, func() { _ = first.Release(ctx) })

	second, err := b.Mutex("report").Lock(ctx)
	fmt.Println(err)
	_ = second.Release(ctx)
	// Output: <nil>
}

// When a broken subscription is back, every waiter polls.
func ExampleStore_BreakSubscriptions() {
	ctx := context.Background()
	st := memstore.New()
	a, b := party(st), party(st)
	first, _ := a.Mutex("report").Lock(ctx)
	resume := st.BreakSubscriptions()
	time.AfterFunc(10*time.Millisecond, func() {
		_ = first.Release(ctx) // no push arrives
		resume()
	})

	second, err := b.Mutex("report").Lock(ctx)
	fmt.Println(err)
	_ = second.Release(ctx)
	// Output: <nil>
}

// The server restarts without its data: the holder learns it.
func ExampleStore_Flush() {
	ctx := context.Background()
	st := memstore.New()
	lease, _ := party(st).Mutex("report").Lock(ctx)
	st.Flush()
	fmt.Println(errors.Is(lease.Extend(ctx, time.Minute), holdfast.ErrNotHeld))
	// Output: true
}

// Another program's data is at the lock's key. It is left as it is.
func ExampleStore_PlantForeign() {
	st := memstore.New()
	st.PlantForeign("holdfast:{report}")
	_, err := party(st).Mutex("report").Lock(context.Background())
	var refusal *store.ServerError
	fmt.Println(errors.As(err, &refusal) && refusal.Code == "WRONGTYPE")
	// Output: true
}

func ExampleStore_PlantNewerFormat() {
	st := memstore.New()
	st.PlantNewerFormat("holdfast:{report}")
	_, err := party(st).Mutex("report").Lock(context.Background())
	var refusal *store.ServerError
	fmt.Println(errors.As(err, &refusal) && refusal.Code == "FORMAT")
	// Output: true
}

func ExampleStore_PlantRecord() {
	st := memstore.New()
	st.PlantRecord("holdfast:{report}", map[string]string{"lock": "5 0 - +", "birth": "5", "queue": "1 1 abc"})
	_, err := party(st).Mutex("report").Lock(context.Background())
	var refusal *store.ServerError
	fmt.Println(errors.As(err, &refusal) && refusal.Code == "FORMAT")
	// Output: true
}

func ExampleStore_SetAcks() {
	ctx := context.Background()
	st := memstore.New()
	client := party(st)
	_, err := client.Mutex("report", holdfast.WaitReplicas(1, 10*time.Millisecond)).Lock(ctx)
	fmt.Println("no replica:", errors.Is(err, holdfast.ErrNotAcked))

	st.SetAcks(store.Acks{Replicas: 1})
	lease, err := client.Mutex("report", holdfast.WaitReplicas(1, 10*time.Millisecond)).Lock(ctx)
	fmt.Println("one replica:", err)
	_ = lease.Release(ctx)
	// Output:
	// no replica: true
	// one replica: <nil>
}

// A test may read the record itself. Programs use Client.Inspect.
func ExampleStore_Dump() {
	ctx := context.Background()
	st := memstore.New()
	client := party(st)
	lease, _ := client.Mutex("report").Lock(ctx)
	for field := range st.Dump("holdfast:{report}") {
		if field == "lock" {
			fmt.Println("there is a record")
		}
	}
	_ = lease.Release(ctx)
	// Output: there is a record
}

// No key outlives its use.
func ExampleStore_Keys() {
	ctx := context.Background()
	st := memstore.New()
	client := party(st)
	_ = client.Mutex("report").Do(ctx, func(context.Context) error { return nil })
	_ = client.Close(ctx)
	st.Advance(time.Hour)
	fmt.Println(len(st.Keys()))
	// Output: 0
}

func ExampleStore_TTL() {
	ctx := context.Background()
	st := memstore.New()
	lease, _ := party(st).Mutex("report", holdfast.TTL(time.Minute)).Lock(ctx)
	fmt.Println("lease and retention:", st.TTL("holdfast:{report}").Round(time.Minute))
	_ = lease.Release(ctx)
	// Output: lease and retention: 11m0s
}

func ExampleStore_Publish() {
	st := memstore.New()
	fmt.Println(st.Publish("news", "hello")) // nobody subscribes
	heard := make(chan string, 1)
	stop, err := st.Listen(context.Background(), "news", store.Listener{
		Message: func(payload string) { heard <- payload },
		Look:    func(bool) {},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	fmt.Println(st.Publish("news", "hello"), <-heard)
	// Output:
	// 0
	// 1 hello
}

// A holder notices a restart without persistence.
func ExampleStore_Restart() {
	ctx := context.Background()
	st := memstore.New()
	lease, _ := party(st).Mutex("report").Lock(ctx)
	st.Restart()
	err := lease.Extend(ctx, time.Minute)
	fmt.Println(errors.Is(err, holdfast.ErrLost))
	// Output: true
}
