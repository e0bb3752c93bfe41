package sql_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/tests/sql"
	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/report"
	"github.com/holdfast-go/holdfast/verify/suite"
	"github.com/holdfast-go/holdfast/verify/workload"
)

// asClient is the argument that makes the test binary a client of the suite.
const asClient = "client"

func TestMain(m *testing.M) {
	logging.Disable() // connections are cut on purpose
	if !slices.Contains(os.Args, asClient) {
		os.Exit(m.Run())
	}
	if err := workload.Client(os.Stdin, os.Stdout, sql.Registers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestARowRefusesAnOlderToken(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	second := open(t, dir) // as another process does
	want := func(r workload.Register, token uint64, value int64) {
		t.Helper()
		got, err := r.Read(token)
		assert.True(t, got == value && err == nil, "read by token %d: %d, %v; want %d", token, got, err, value)
	}
	want(first.Fenced, 1, 0)
	assert.NoError(t, first.Fenced.Write(1, 10))
	want(second.Fenced, 2, 10)
	assert.Is(t, first.Fenced.Write(1, 11), workload.ErrStale)
	assert.Is(t, assert.Err(first.Fenced.Read(1)), workload.ErrStale)
	want(second.Fenced, math.MaxInt64, 10) // the highest token there is fits in
	assert.NoError(t, errors.Join(second.Plain.Write(2, 20), first.Plain.Write(1, 21)))
	want(second.Plain, 2, 21)
	fenced, plain, err := workload.Resource(sql.Registers).Final(dir)
	assert.True(t, fenced == 10 && plain == 21 && err == nil, "at the end: %d, %d, %v", fenced, plain, err)
}

func open(t *testing.T, dir string) workload.Registers {
	t.Helper()
	r, err := sql.Registers(dir)
	assert.Must(t, err)
	t.Cleanup(func() {
		assert.NoError(t, r.Close())
	})
	return r
}

// Clients that read, think and write rows under a lock lose nothing where the
// database checks tokens, though they are stopped before they write, are killed,
// and lose their answers; where it does not, they do.
func TestNoUpdateOfAFencedRowIsLost(t *testing.T) {
	var doc *report.Document
	for seconds := time.Duration(10); seconds <= 40; seconds *= 2 { // a busy machine may need more than ten
		out, err := suite.Run(t.Context(), suite.Options{
			Topology: fault.Standalone, Duration: seconds * time.Second, TTL: time.Second, Clients: 4, Seed: 1,
			Works: []string{workload.Update}, Faults: []string{"stop-writer", "kill", "reply-lost"},
			Argv: []string{os.Args[0], asClient}, Resource: sql.Registers,
		})
		assert.Must(t, err)
		doc = report.Make(out)
		t.Log(doc.Text())
		assert.MustTrue(t, doc.OK || doc.Thin(), "%d promises were broken", doc.Violations)
		l := out.Rounds[0].Run.Losses()
		assert.MustTrue(t, l.Known && l.Fenced == 0, "%+v: writes under the lock were lost", l)
		if doc.OK && l.Taken >= 20 && l.Refused != 0 && l.Plain != 0 {
			return
		}
	}
	t.Errorf("too few writes, or none was refused, or none was lost without fencing: %s", doc.Text())
}
