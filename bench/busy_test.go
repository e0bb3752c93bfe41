package bench

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var busyLife = flag.Duration("busy", 0, "how long a lease of BenchmarkBusy lives, such as 30s; 0: it is not measured")

// BenchmarkBusy lets a lease live in a process with one processor and 200 goroutines that use it up, and in turns with
// it a key that a loop extends: PEXPIRE every third of the same TTL, over the same kind of client. Both are there
// before the process is busy. An op is a turn of each. lost is the part of the turns in which the lease was lost,
// pexpire-lost that in which the key had expired.
func BenchmarkBusy(b *testing.B) {
	for _, k := range append(slices.Clip(kits), kit{"rueidis-watch", openWatched}) {
		for _, ttl := range []time.Duration{3 * time.Second, 5 * time.Second, 8 * time.Second, 12 * time.Second} {
			if *busyLife > 0 {
				b.Run(fmt.Sprintf("%s/%v", k.name, ttl), func(b *testing.B) { benchBusy(b, k, ttl) })
			}
		}
	}
}

func benchBusy(b *testing.B, k kit, ttl time.Duration) {
	r := &rig{kit: k, server: redistest.Start(b)}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var lost [2]float64
	for b.Loop() {
		for i, keep := range []keeper{keepLease, keepKey} {
			if !r.beBusy(b, keep, ttl) {
				lost[i]++
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(lost[0]/float64(b.N), "lost")
	b.ReportMetric(lost[1]/float64(b.N), "pexpire-lost")
}

// A keeper acquires something for ttl. live returns when ctx ends, or false when it is lost.
type keeper func(b *testing.B, p *party, ttl time.Duration) (live func(ctx context.Context) bool, end func())

// beBusy keeps something beside busy goroutines, and reports whether it was kept.
func (r *rig) beBusy(b *testing.B, keep keeper, ttl time.Duration) bool {
	p, err := r.kit.open(r.server.Addr())
	check(b, err)
	defer p.close()
	live, end := keep(b, p, ttl)
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), *busyLife)
	defer cancel()
	kept := make(chan bool, 1)
	go func() { kept <- live(ctx) }()
	runtime.Gosched() // it waits before the others begin
	var idle atomic.Bool
	defer idle.Store(true)
	for range 200 {
		go func() {
			for !idle.Load() {
			}
		}()
	}
	return <-kept
}

// keepLease holds a lock.
func keepLease(b *testing.B, p *party, ttl time.Duration) (live func(context.Context) bool, end func()) {
	c, err := holdfast.New(p.store, holdfast.Config{TTL: ttl})
	check(b, err)
	lease, err := c.Mutex("busy").Lock(context.Background())
	check(b, err)
	live = func(ctx context.Context) bool {
		select {
		case <-lease.Context().Done():
			return false
		case <-ctx.Done():
			return true
		}
	}
	return live, func() { check(b, c.Close(context.Background())) }
}

// keepKey sets a key and extends it in a loop.
func keepKey(b *testing.B, p *party, ttl time.Duration) (live func(context.Context) bool, end func()) {
	const key, token = "busy", "x"
	set, err := p.raw.Set(context.Background(), key, token, ttl)
	if check(b, err); !set {
		b.Fatal("the key is there already")
	}
	live = func(ctx context.Context) bool {
		tick, last := time.NewTicker(ttl/3), time.Now()
		defer tick.Stop()
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-tick.C:
				asked := time.Now()
				kept, err := p.raw.Extend(context.Background(), key, ttl)
				switch {
				case err == nil && kept:
					last = asked
				case err == nil, time.Since(last) > ttl:
					return false
				}
			}
		}
		return true
	}
	return live, func() { check(b, p.raw.Unset(context.Background(), key, token)) }
}
