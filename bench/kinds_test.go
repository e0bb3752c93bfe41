package bench

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
)

// BenchmarkKinds compares each kind of lock with the mutex: x-mutex-p50 is the time of a
// pair of that kind, divided by the time of a pair of the mutex in between.
//
//	write, read   RWMutex
//	reads-95      RWMutex, 95 of 100 times for reading
//	sem-8         Semaphore of 8, one permit
//	all-3         three locks at once
//	election      from Campaign to Release
//	every         a run of a job, a new one each time
func BenchmarkKinds(b *testing.B) {
	for _, kind := range kinds {
		b.Run(kind, func(b *testing.B) {
			eachKit(b, func(b *testing.B, r *rig) {
				client := r.party.client(b, holdfast.Config{})
				enter, err := enterKind(client, kind, "kind")
				check(b, err)
				one := func(ctx context.Context) error {
					_, leave, err := enter(ctx)
					if err != nil {
						return err
					}
					return leave(ctx)
				}
				benchPairs(b, one, beside{"x-mutex-p50", lockPair(client.Mutex("mutex"))})
			})
		})
	}
}

// BenchmarkKindsShared is the gain from sharing: 4 processes of 4 goroutines that hold
// one lock for 1 ms each, for each kind that several may hold, compared with the mutex.
// An op is a round of both.
func BenchmarkKindsShared(b *testing.B) {
	for _, kind := range []string{kindRead, kindReads95, kindSem8} {
		b.Run(kind, func(b *testing.B) {
			for _, k := range kits {
				b.Run(k.name, func(b *testing.B) {
					w := workload{procs: 4, job: crew.Job{Kind: kind, Clients: 1, Each: 4, Shift: crew.Shift{
						For: time.Second, Hold: time.Millisecond,
					}}}
					mutex := w
					mutex.job.Kind = ""
					versus(b, [2]*contender{contend(b, w, ours(k)), contend(b, mutex, ours(k))}, 0)
				})
			}
		})
	}
}
