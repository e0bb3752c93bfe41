package main

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func run(before, after sample) []sample {
	before.phase, after.phase = phaseBefore, phaseAfter
	busy := sample{phase: phaseLoad, goroutines: 500, heap: 90 << 20, server: 80 << 20, keys: 9000}
	away := after
	away.server, away.keys = -1, -1
	passing := after
	passing.goroutines += 50
	return []sample{before, busy, passing, away, after}
}

// What is left behind at the end fails a run, and what was in use for a moment does not.
func TestARunFailsIfSomethingIsLeftBehind(t *testing.T) {
	before := sample{goroutines: 40, heap: 4 << 20, server: 2 << 20, keys: 4, connections: 10}
	for name, c := range map[string]struct {
		change func(s *sample)
		left   string
	}{
		"nothing":    {func(*sample) {}, ""},
		"a little":   {func(s *sample) { s.goroutines, s.heap, s.server = 44, 5<<20, 3<<20 }, ""},
		"less":       {func(s *sample) { s.goroutines, s.keys = 3, 0 }, ""},
		"goroutines": {func(s *sample) { s.goroutines = 45 }, "goroutines"},
		"heap":       {func(s *sample) { s.heap = 6 << 20 }, "heap, bytes"},
		"memory":     {func(s *sample) { s.server = 4 << 20 }, "server memory, bytes"},
		"connections": {func(s *sample) {
			s.connections, s.goroutines, s.heap = 30, 40+4+80, 4<<20+1<<20+20*384<<10
		}, ""},
		"more than connections": {func(s *sample) { s.connections, s.goroutines = 30, 40+4+81 }, "goroutines"},
		"keys of connections":   {func(s *sample) { s.connections, s.keys = 30, 5 }, "keys"},
		"a key":                 {func(s *sample) { s.keys = 5 }, "keys"},
	} {
		after := before
		c.change(&after)
		list, err := compare(run(before, after), phaseBefore, phaseAfter)
		assert.MustTrue(t, err == nil && len(list) == len(gauges), "%s: %v, %v", name, list, err)
		var left []string
		for _, g := range list {
			if !g.returned {
				left = append(left, g.name)
			}
		}
		assert.Equal(t, strings.Join(left, "; "), c.left, "%s: left behind", name)
	}
	assert.True(t, assert.Err(compare(run(before, before), phaseBefore, phaseClosed)) != nil,
		"a phase without samples was compared")
}

func TestSamplesAreRecorded(t *testing.T) {
	var out strings.Builder
	r, err := newRecorder(&out)
	assert.Must(t, err)
	assert.Must(t, r.add(sample{seconds: 5, phase: phaseLoad, goroutines: 7, server: -1, faults: 2}))
	want := strings.Join(columns, ",") + "\n5.0,load,7,0,-1,0,0,0,0,0,2\n"
	assert.Equal(t, out.String(), want, "recorded")
}
