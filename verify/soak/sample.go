package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// The phases of a run.
const (
	phaseStart  = "start"
	phaseWarm   = "warm"
	phaseBefore = "before"
	phaseLoad   = "load"
	phaseAfter  = "after"
	phaseClosed = "closed"
)

// sample is what was there at one moment. A field of the server is -1 if it did not answer.
type sample struct {
	seconds     float64
	phase       string
	goroutines  int64
	heap        int64 // bytes in use after a collection
	server      int64 // bytes that the server uses
	keys        int64
	connections int64
	done        int64 // operations so far, and of them those that failed
	failed      int64
	lost        int64 // leases lost so far
	faults      int64 // injected so far
}

var columns = []string{
	"seconds", "phase", "goroutines", "heap", "server", "keys", "connections", "done", "failed", "lost", "faults",
}

func (s sample) row() []string {
	row := []string{strconv.FormatFloat(s.seconds, 'f', 1, 64), s.phase}
	for _, n := range []int64{
		s.goroutines, s.heap, s.server, s.keys, s.connections, s.done, s.failed, s.lost, s.faults,
	} {
		row = append(row, strconv.FormatInt(n, 10))
	}
	return row
}

// recorder writes samples to a file as they come, and keeps them.
type recorder struct {
	out  *csv.Writer
	kept []sample
}

func newRecorder(w io.Writer) (*recorder, error) {
	r := &recorder{out: csv.NewWriter(w)}
	if err := r.out.Write(columns); err != nil {
		return nil, err
	}
	r.out.Flush()
	return r, r.out.Error()
}

func (r *recorder) add(s sample) error {
	r.kept = append(r.kept, s)
	if err := r.out.Write(s.row()); err != nil {
		return err
	}
	r.out.Flush()
	return r.out.Error()
}

// of returns the samples of a phase.
func of(all []sample, phase string) (list []sample) {
	for _, s := range all {
		if s.phase == phase {
			list = append(list, s)
		}
	}
	return list
}

// gauge is one thing that must return to where it began. It may exceed that by a part and by
// an amount: the runtime and the server keep what they will use again. The client library opens
// connections when it is busy and keeps them, and each has goroutines and buffers, also in the
// proxy: perConnection is allowed for each that is open at the end and was not at the begin.
// When all are closed, nothing is allowed for them.
type gauge struct {
	name          string
	value         func(s sample) int64
	part          float64
	amount        int64
	perConnection int64
}

var gauges = []gauge{
	{"goroutines", func(s sample) int64 { return s.goroutines }, 0, 4, 4},
	{"heap, bytes", func(s sample) int64 { return s.heap }, 0.1, 1 << 20, 384 << 10},
	{"server memory, bytes", func(s sample) int64 { return s.server }, 0.1, 1 << 20, 0},
	{"keys", func(s sample) int64 { return s.keys }, 0, 0, 0},
}

// compared is a gauge at the begin and at the end of a run.
type compared struct {
	name          string
	before, after int64
	returned      bool
}

// compare compares two phases by the lowest value in each: what is in use for a moment is not
// left behind.
func compare(all []sample, begin, end string) (list []compared, err error) {
	from, to := of(all, begin), of(all, end)
	first, _ := lowest(from, func(s sample) int64 { return s.connections })
	last, _ := lowest(to, func(s sample) int64 { return s.connections })
	more := max(last-first, 0)
	for _, g := range gauges {
		before, known := lowest(from, g.value)
		after, there := lowest(to, g.value)
		if !known || !there {
			return nil, fmt.Errorf("%s: no sample of the phase %s or %s", g.name, begin, end)
		}
		limit := before + int64(g.part*float64(before)) + g.amount + more*g.perConnection
		list = append(list, compared{g.name, before, after, after <= limit})
	}
	return list, nil
}

func lowest(list []sample, value func(s sample) int64) (int64, bool) {
	var values []int64
	for _, s := range list {
		if v := value(s); v >= 0 {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	return slices.Min(values), true
}
