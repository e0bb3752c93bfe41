package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/bench/figures"
)

// computed are the tables of docs/scaling.md that are no plain tables, by their marks.
var computed = map[string]func(f *figures.Figures) string{
	"about": about, "curves": bends, "servers": serversTable, "threads": threadsTable, "latency": latencyTable,
	"storm": stormTable,
}

// lowest is the lowest value of a metric: other load can only add to it. It is no number if nobody measured it.
func lowest(f *figures.Figures, benchmark, metric string) float64 {
	if values := f.Samples[benchmark][metric]; len(values) > 0 {
		return slices.Min(values)
	}
	return math.NaN()
}

// least is lowest as text.
func least(f *figures.Figures, benchmark, metric string) string {
	if v := lowest(f, benchmark, metric); !math.IsNaN(v) {
		return number(v)
	}
	return "–"
}

// serverNames are the servers that BenchmarkServers has measured.
func serverNames(f *figures.Figures) (names []string) {
	for _, name := range f.Names() {
		if rest, ok := strings.CutPrefix(name, "Servers/"); ok {
			if server, _, _ := strings.Cut(rest, "/"); !slices.Contains(names, server) {
				names = append(names, server)
			}
		}
	}
	return names
}

func serversTable(f *figures.Figures) string {
	var b strings.Builder
	ops := []string{"acquire", "release", "join", "turn", "renew"}
	b.WriteString("| server µs | raw: set | raw: release | " + strings.Join(ops, " | ") +
		" | a pair, × raw |\n")
	b.WriteString("|---|" + strings.Repeat("---|", 3+len(ops)) + "\n")
	for _, server := range serverNames(f) {
		evalsha := "Servers/" + server + "/evalsha"
		cells := []string{server, least(f, evalsha, "raw-set-µs"), least(f, evalsha, "raw-release-µs")}
		for _, op := range ops {
			cells = append(cells, least(f, evalsha, op+"-µs"))
		}
		cost := func(take, give string) float64 { return lowest(f, evalsha, take) + lowest(f, evalsha, give) }
		cells = append(cells, number(cost("acquire-µs", "release-µs")/cost("raw-set-µs", "raw-release-µs")))
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return b.String()
}

func threadsTable(f *figures.Figures) string {
	var b strings.Builder
	b.WriteString("| I/O threads: | 1: pairs/s | × raw | processor µs | 2: pairs/s | × raw | processor µs " +
		"| 4: pairs/s | × raw | processor µs |\n|---|" + strings.Repeat("---|", 9) + "\n")
	for _, server := range serverNames(f) {
		cells := []string{server}
		for _, threads := range []string{"1", "2", "4"} {
			name := "Servers/" + server + "/io-" + threads
			rate := "–"
			if values := f.Samples[name]["pairs/s"]; len(values) > 0 {
				rate = number(slices.Max(values))
			}
			ratio, measured := f.Median(name, "x-raw-rate")
			if !measured {
				ratio = math.NaN()
			}
			cells = append(cells, rate, number(ratio), least(f, name, "processor-µs"))
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return b.String()
}

// latencyTable has the medians beside the peers, and in brackets Holdfast's divided by theirs.
func latencyTable(f *figures.Figures) string {
	var b strings.Builder
	columns := [][2]string{{"1ms", "pair"}, {"10ms", "pair"}, {"1ms", "hand-over-1"}, {"10ms", "hand-over-1"}}
	b.WriteString("| p50 in ms (Holdfast's, divided by it) |")
	for _, c := range columns {
		b.WriteString(" " + strings.TrimSuffix(c[1], "-1") + ", " + c[0] + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, s := range sides {
		row, some := "| "+s.name+" |", false
		for _, c := range columns {
			name := "Far/" + c[0] + "/" + c[1] + "/" + s.name
			p50, measured := f.Median(name, "p50-ms")
			if !measured {
				row += " – |"
				continue
			}
			some = true
			row += " " + number(p50)
			if x, ok := f.Median(name, "x-p50"); ok {
				row += " (" + number(x) + ")"
			}
			row += " |"
		}
		if some {
			b.WriteString(row + "\n")
		}
	}
	return b.String()
}

// stormTable has the renewal storms, and what pause of a TTL of 30 s leaves time for one: the
// leases that were due next at its begin have two thirds of the TTL left then.
func stormTable(f *figures.Figures) string {
	const ttl = 30
	var b strings.Builder
	b.WriteString("| leases | all renewed after a pause of the server | … of the process | renewals/s " +
		"| lost | TTL of 30 s: the pause may be |\n|---|---|---|---|---|---|\n")
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		row, worst, lost, rate := "| "+short(float64(n))+" |", 0.0, 0.0, 0.0
		for _, who := range []string{"server", "process"} {
			name := fmt.Sprintf("Storm/%s/%d", who, n)
			values := f.Samples[name]["storm-ms"]
			if len(values) == 0 {
				row += " – |"
				continue
			}
			ms := slices.Min(values)
			row += " " + number(ms) + " ms |"
			worst = max(worst, ms/1000)
			more, _ := f.Median(name, "lost")
			lost += more
			rate = max(rate, slices.Max(f.Samples[name]["renewals/s"]))
		}
		if worst == 0 {
			continue
		}
		pause := "none: too many"
		if left := ttl*2.0/3 - worst; left > 0 {
			pause = number(left) + " s"
		}
		fmt.Fprintf(&b, "%s %s | %s | %s |\n", row, number(rate), number(lost), pause)
	}
	return b.String()
}

// gauges of a soak: the column of the file, the title, and what a unit of it is.
var gauges = []struct {
	column, title string
	unit          float64
}{
	{"goroutines", "goroutines", 1}, {"heap", "heap in use after a collection, MiB", 1 << 20},
	{"server", "memory of the server, MiB", 1 << 20}, {"keys", "keys on the server", 1},
}

// saveSoak draws the samples of a soak beside their file.
func saveSoak(file, title string) error {
	svg, err := drawSoak(file, title)
	if err != nil {
		return err
	}
	//nolint:gosec // for everybody to read
	return os.WriteFile(strings.TrimSuffix(file, filepath.Ext(file))+".svg", []byte(svg), 0o644)
}

// drawSoak draws the samples of a soak: four gauges over its minutes.
func drawSoak(file, title string) (string, error) {
	in, err := os.Open(file)
	if err != nil {
		return "", err
	}
	rows, err := csv.NewReader(in).ReadAll()
	if err = errors.Join(err, in.Close()); err != nil || len(rows) < 3 {
		return "", fmt.Errorf("%s: no samples: %w", file, err)
	}
	at := make(map[string]int)
	header, rows := rows[0], rows[1:]
	for i, name := range header {
		at[name] = i
	}
	const tall, gap = 150, 34
	high := float64(gap + tall*len(gauges) + 10)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" role="img" `+
		`font-family="system-ui,sans-serif" font-size="11">`+"\n", 2*panelWide, high)
	b.WriteString(curveStyle)
	fmt.Fprintf(&b, `<rect class="back" width="%d" height="%.0f" rx="6"/>`+"\n", 2*panelWide, high)
	classed(&b, 14, 22, "start", "text", title, ` font-size="14" font-weight="600"`)
	for i, g := range gauges {
		if !slices.Contains(header, g.column) {
			return "", fmt.Errorf("%s has no column %q: is it a file of make soak?", file, g.column)
		}
		var line []moment
		for _, row := range rows {
			x, err := strconv.ParseFloat(row[at["seconds"]], 64)
			y, wrong := strconv.ParseFloat(row[at[g.column]], 64)
			if err != nil || wrong != nil {
				return "", fmt.Errorf("%s: %q is no sample", file, row)
			}
			line = append(line, moment{x / 60, y / g.unit, row[at["phase"]]})
		}
		overTime(&b, float64(gap+tall*i), tall, g.title, i, line)
	}
	b.WriteString("</svg>\n")
	return b.String(), nil
}

// moment is a value at a minute of a soak. Below zero nobody answered.
type moment struct {
	minute, value float64
	phase         string
}

// overTime draws one gauge, from zero up, with a line where the phase changes.
func overTime(b *strings.Builder, top, tall float64, title string, colour int, line []moment) {
	const left, wide = 56.0, 2*panelWide - 56.0 - 20
	last, most := line[len(line)-1].minute, 0.0
	for _, v := range line {
		most = max(most, v.value)
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	most = math.Ceil(most/step) * step
	high := tall - 52
	x := func(minute float64) float64 { return left + wide*minute/last }
	y := func(v float64) float64 { return top + 22 + high*(1-v/most) }
	classed(b, 14, top+12, "start", "text", title, ` font-weight="600"`)
	for _, v := range []float64{0, most / 2, most} {
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", left, y(v), left+wide, y(v))
		classed(b, left-6, y(v)+4, "end", "dim", number(v), "")
	}
	for minute := 0.0; minute <= last; minute += 10 {
		classed(b, x(minute), top+22+high+14, "middle", "dim", fmt.Sprintf("%.0f min", minute), "")
	}
	var path []string
	phase := ""
	for _, v := range line {
		if v.phase != phase {
			fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke-dasharray="3 3"/>`+"\n",
				x(v.minute), top+14, x(v.minute), y(0))
			if v.phase == "load" {
				classed(b, x(v.minute)+3, y(0)-4, "start", "dim", v.phase, "")
			}
			phase = v.phase
		}
		if v.value >= 0 {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x(v.minute), y(v.value)))
		}
	}
	fmt.Fprintf(b, `<polyline class="s%d" points="%s" fill="none" stroke-width="1.5"/>`+"\n",
		colour, strings.Join(path, " "))
}
