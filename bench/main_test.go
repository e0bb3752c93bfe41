package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// envWorker is set in the environment of worker processes.
const envWorker = "HOLDFAST_BENCH_WORKER"

// units tells benchstat which way is better.
const units = `Unit acq/s better=higher
Unit pairs/s better=higher
Unit jain better=higher
Unit x-raw-rate better=higher
Unit x-best-raw-rate better=higher
Unit x-apart-rate better=higher
Unit x-semaphore-rate better=higher
Unit x-rate better=higher`

func TestMain(m *testing.M) {
	if what := os.Getenv(envWorker); what != "" {
		serve := func() error { return crew.Serve(os.Stdin, os.Stdout, openSide) }
		switch what {
		case hopsWorker:
			serve = func() error { return serveHops(os.Stdin, os.Stdout) }
		case stormWorker:
			serve = func() error { return serveStorm(os.Stdin, os.Stdout) }
		}
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, "bench: worker:", err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run())
	}
	fmt.Println(units)
	fmt.Print(introduce())
	code := m.Run()
	fmt.Print(load())
	os.Exit(code)
}

// rig is a server, and one connected party beside it.
type rig struct {
	kit    kit
	server *redistest.Server
	party  *party
}

// eachKit runs f once for each client library, on a server of its own.
func eachKit(b *testing.B, f func(b *testing.B, r *rig)) {
	for _, k := range kits {
		b.Run(k.name, func(b *testing.B) { f(b, newRig(b, k)) })
	}
}

func newRig(t testing.TB, k kit) *rig {
	t.Helper()
	r := &rig{kit: k, server: redistest.Start(t)}
	r.party = r.join(t)
	return r
}

// join connects one more party.
func (r *rig) join(t testing.TB) *party {
	t.Helper()
	p, err := r.kit.open(r.server.Addr())
	assert.Must(t, err)
	t.Cleanup(p.close)
	return p
}

// client makes a client of p, and closes it before p is.
func (p *party) client(t testing.TB, cfg holdfast.Config) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(p.store, cfg)
	assert.Must(t, err)
	t.Cleanup(func() {
		assert.NoError(t, c.Close(context.Background()))
	})
	return c
}

func check(t testing.TB, err error) {
	t.Helper()
	assert.Must(t, err)
}

// milliseconds is d as a metric.
func milliseconds[D ~int64](d D) float64 { return float64(d) / 1e6 }
