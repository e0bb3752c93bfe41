package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/bench/figures"
)

// cell is one column of a table: a metric of a workload.
type cell struct{ head, workload, metric string }

// table has a row for each side, or for each of rows.
type table struct {
	benchmark string // before the workload; rows follow it
	rows      []string
	cells     []cell
}

// tables, by the name of their marks.
var tables = map[string]table{
	"uncontended": {cells: []cell{
		{"pair: p50 ms", "pair", "p50-ms"}, {"x-p50", "pair", "x-p50"},
		{"allocations", "pair", "mallocs/turn"},
		{"64 goroutines: pairs/s", "own-64", "acq/s"}, {"x-rate", "own-64", "x-rate"},
		{"server µs/pair", "own-64", "server-µs/turn"},
	}},
	"contended": {cells: []cell{
		{"1×16: acq/s", "fight-1x16", "acq/s"}, {"x-rate", "fight-1x16", "x-rate"},
		{"Jain", "fight-1x16", "jain"},
		{"worst ms", "fight-1x16", "worst-wait-ms"}, {"4×4: acq/s", "fight-4x4", "acq/s"},
		{"x-rate", "fight-4x4", "x-rate"}, {"Jain", "fight-4x4", "jain"},
		{"worst ms", "fight-4x4", "worst-wait-ms"},
		{"starved", "fight-4x4", "starved"},
	}},
	"sections": {cells: []cell{
		{"1 ms: acq/s", "section-1ms", "acq/s"}, {"x-rate", "section-1ms", "x-rate"},
		{"Jain", "section-1ms", "jain"},
		{"worst ms", "section-1ms", "worst-wait-ms"}, {"10 ms: acq/s", "section-10ms", "acq/s"},
		{"x-rate", "section-10ms", "x-rate"}, {"Jain", "section-10ms", "jain"},
		{"worst ms", "section-10ms", "worst-wait-ms"},
	}},
	"hand-overs": {cells: []cell{
		{"1 waiter: p50 ms", "hand-over-1", "p50-ms"},
		{"p99 ms", "hand-over-1", "p99-ms"}, {"x-p50", "hand-over-1", "x-p50"},
		{"50 waiters: p50 ms", "hand-over-50", "p50-ms"}, {"p99 ms", "hand-over-50", "p99-ms"},
		{"x-p50", "hand-over-50", "x-p50"}, {"Jain", "hand-over-50", "jain"},
		{"100 idle: commands/s", "idle-100", "commands/s"},
	}},
	"locks": {cells: []cell{
		{"1 lock: acq/s", "locks-1", "acq/s"}, {"x-rate", "locks-1", "x-rate"},
		{"100: acq/s", "locks-100", "acq/s"},
		{"x-rate", "locks-100", "x-rate"}, {"10,000: acq/s", "locks-10000", "acq/s"},
		{"x-rate", "locks-10000", "x-rate"},
		{"server µs/turn", "locks-10000", "server-µs/turn"},
	}},
	"lines": {cells: []cell{
		{"10: acq/s", "line-10", "acq/s"}, {"Jain", "line-10", "jain"},
		{"100: acq/s", "line-100", "acq/s"},
		{"Jain", "line-100", "jain"}, {"1,000: acq/s", "line-1000", "acq/s"},
		{"Jain", "line-1000", "jain"},
		{"worst ms", "line-1000", "worst-wait-ms"}, {"starved", "line-1000", "starved"},
	}},
	"kinds": {benchmark: "Kinds", rows: []string{"write", "read", "reads-95", "sem-8", "all-3", "election", "every"},
		cells: []cell{
			{"go-redis: x-mutex-p50", "goredis", "x-mutex-p50"},
			{"allocations", "goredis", "allocs/op"},
			{"rueidis: x-mutex-p50", "rueidis", "x-mutex-p50"},
			{"allocations", "rueidis", "allocs/op"},
		}},
	"shared": {benchmark: "KindsShared", rows: []string{"read", "reads-95", "sem-8"}, cells: []cell{
		{"go-redis: acq/s", "goredis", "acq/s"}, {"times the mutex", "goredis", "x-rate"},
		{"rueidis: acq/s", "rueidis", "acq/s"}, {"times the mutex", "rueidis", "x-rate"},
	}},
	"cost": {benchmark: "ServerCost", rows: []string{"mutex", "write", "read", "sem-8", "all-3", "election"},
		cells: []cell{
			{"acquire µs", "", "take-µs"}, {"× raw", "", "take-x-raw"},
			{"bytes in, out", "", "take-in-B"}, {"", "", "take-out-B"},
			{"release µs", "", "give-µs"}, {"× raw", "", "give-x-raw"},
			{"bytes in, out", "", "give-in-B"}, {"", "", "give-out-B"},
			{"requests", "", "take-requests"}, {"", "", "give-requests"},
		}},
	"turn": {benchmark: "ServerCostOfHandOver", rows: []string{""}, cells: []cell{
		{"µs", "", "turn-µs"}, {"requests", "", "turn-requests"},
		{"bytes in", "", "turn-in-B"}, {"bytes out", "", "turn-out-B"},
	}},
	"held": {benchmark: "ScaleHeld", rows: []string{"1000", "10000", "100000"}, cells: []cell{
		{"B/lease", "", "B/lease"}, {"goroutines", "", "goroutines"}, {"renewals/s", "", "renewals/s"},
		{"commands/s", "", "commands/s"}, {"client µs/renewal", "", "client-µs/renewal"},
		{"server µs/renewal", "", "server-µs/renewal"}, {"client % of a core", "", "client-cpu-%"},
		{"server %", "", "server-cpu-%"},
	}},
	"waiters": {benchmark: "ScaleWaiters", rows: []string{"10", "100", "1000", "10000"}, cells: []cell{
		{"turns/s", "", "turns/s"}, {"server µs/turn", "", "turn-µs"},
		{"requests/turn", "", "turn-requests"},
	}},
	"primaries": {benchmark: "ScalePrimaries", rows: []string{"1", "2", "3"}, cells: []cell{
		{"pairs/s", "", "pairs/s"}, {"µs of all servers for a pair", "", "servers-µs/pair"},
	}},
}

// fill replaces the text between the marks of page.
func fill(page string, f *figures.Figures) (string, error) {
	var b strings.Builder
	for rest := page; ; {
		before, after, found := strings.Cut(rest, "<!-- ")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, after, ok := strings.Cut(after, " -->")
		_, after, ended := strings.Cut(after, "<!-- end -->")
		if !ok || !ended {
			return "", fmt.Errorf("the mark %q has no end", name)
		}
		var content string
		if compute, ok := computed[name]; ok {
			content = compute(f)
		} else {
			t, known := tables[name]
			if !known {
				return "", fmt.Errorf("there is no table %q", name)
			}
			content = t.text(f)
		}
		fmt.Fprintf(&b, "<!-- %s -->\n%s<!-- end -->", name, content)
		rest = after
	}
}

// text is the table, without the rows that were not measured.
func (t table) text(f *figures.Figures) string {
	var b strings.Builder
	b.WriteString("| |")
	for _, c := range t.cells {
		b.WriteString(" " + c.head + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(t.cells)) + "\n")
	rows := t.rows
	if t.benchmark == "" {
		for _, s := range sides {
			rows = append(rows, s.name)
		}
	}
	for _, row := range rows {
		line, some := "| "+row+" |", false
		for _, c := range t.cells {
			v := value(f, t.of(row, c), c.metric)
			if v < 0 {
				line += " – |"
				continue
			}
			line, some = line+" "+number(v)+" |", true
		}
		if some {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func (t table) of(row string, c cell) string {
	if t.benchmark == "" {
		return "Versus/" + c.workload + "/" + row
	}
	parts := slices.DeleteFunc([]string{t.benchmark, row, c.workload}, func(s string) bool { return s == "" })
	return strings.Join(parts, "/")
}

// about is the environment of the runs.
func about(f *figures.Figures) string {
	var b strings.Builder
	for _, key := range []string{"cpu", "cores", "go", "server", "modules"} {
		if values := f.About[key]; len(values) > 0 {
			b.WriteString("- " + key + ": " + strings.Join(values, "; ") + "\n")
		}
	}
	var loads []float64
	for _, load := range f.About["load"] {
		minute, _, _ := strings.Cut(load, " ")
		if v, err := strconv.ParseFloat(minute, 64); err == nil {
			loads = append(loads, v)
		}
	}
	if len(loads) > 0 {
		fmt.Fprintf(&b, "- load of the last minute, before each of %d parts: %.2f to %.2f\n",
			len(loads), slices.Min(loads), slices.Max(loads))
	}
	return b.String()
}
