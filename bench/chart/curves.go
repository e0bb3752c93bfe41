package main

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/bench/figures"
)

// panel is one small plot of a sheet: a cost over a size, a line for each operation. Both
// scales are logarithmic, so a cost that does not depend on the size is a level line.
type panel struct {
	title, unit string
	lines       []line
}

// line is one metric of one curve of BenchmarkCurves.
type line struct{ curve, metric, label string }

// at is a measured point of a line.
type at struct {
	size  int
	value float64
}

// panels are the plots of docs/scaling.md, on one sheet.
var panels = []panel{
	{"Waiters in the queue of one lock", "server µs", []line{
		{"waiters", "join-µs", "join"}, {"waiters", "turn-µs", "turn"}, {"waiters", "poll-µs", "poll"},
		{"waiters", "renew-µs", "renew"}, {"waiters", "leave-µs", "leave"},
	}},
	{"Locks on the server", "server µs", []line{
		{"locks", "acquire-µs", "acquire"}, {"locks", "release-µs", "release"}, {"locks", "new-µs", "new name"},
	}},
	{"Readers of one lock", "server µs", []line{
		{"readers", "enter-µs", "enter"}, {"readers", "leave-µs", "leave"}, {"readers", "renew-µs", "renew"},
		{"readers", "sweep-µs", "sweep"},
	}},
	{"Permits in use of one semaphore", "server µs", []line{
		{"permits", "enter-µs", "enter"}, {"permits", "leave-µs", "leave"}, {"permits", "renew-µs", "renew"},
		{"permits", "sweep-µs", "sweep"},
	}},
	{"Leases held, for each renewal", "µs of a renewal", []line{
		{"leases", "renew-µs", "script"}, {"held", "server-µs", "server, all"}, {"held", "client-µs", "client"},
	}},
	{"Members of a multi-lock, for each member", "server µs", []line{
		{"members", "acquire-µs", "acquire"}, {"members", "renew-µs", "renew"}, {"members", "release-µs", "release"},
	}},
	{"Clients, all of them waiting for one lock", "processor µs of the server", []line{
		{"clients", "turn-µs", "turn"}, {"clients", "pair-µs", "pair of others"},
	}},
	{"Servers of a quorum, for each server", "processor µs of a pair", []line{
		{"servers", "pair-µs", "server"}, {"servers", "client-µs", "client"},
	}},
	{"Shards of a Cluster", "processor µs of a pair", []line{{"shards", "pair-µs", "pair"}}},
	{"Memory, for each lock", "bytes", []line{
		{"locks", "B/record", "server, record"}, {"held", "B/lease", "client, lease"},
	}},
}

// points are the measured points of a line, by size. Of several runs it takes the lowest value:
// other load on the machine can only add to a cost.
func points(f *figures.Figures, l line) (list []at) {
	for _, name := range f.Names() {
		rest, ok := strings.CutPrefix(name, "Curves/"+l.curve+"/")
		size, err := strconv.Atoi(rest)
		if !ok || err != nil {
			continue
		}
		if values := f.Samples[name][l.metric]; len(values) > 0 && slices.Min(values) > 0 {
			list = append(list, at{size, slices.Min(values)})
		}
	}
	slices.SortFunc(list, func(a, b at) int { return cmp.Compare(a.size, b.size) })
	return list
}

// perDecade is by what a cost is multiplied when the size is ten times as large, over the
// whole line: 1 is level, 10 is in proportion to the size.
func perDecade(list []at) float64 {
	first, last := list[0], list[len(list)-1]
	if first.size == last.size {
		return 1
	}
	decades := math.Log10(float64(last.size) / float64(first.size))
	return math.Pow(last.value/first.value, 1/decades)
}

const (
	panelWide, panelTall = 430, 220
	panelLeft            = 48
	panelRight           = 122
	panelTop             = 42
	panelBottom          = 34
)

// curveStyle has the colours for light and for dark pages.
const curveStyle = `<style>
.back{fill:#fff}.text{fill:#1f2328}.dim{fill:#59636e}.grid{stroke:#d1d9e0}
.s0{stroke:#0969da}.s1{stroke:#bc4c00}.s2{stroke:#1a7f37}.s3{stroke:#8250df}.s4{stroke:#bf3989}
.f0{fill:#0969da}.f1{fill:#bc4c00}.f2{fill:#1a7f37}.f3{fill:#8250df}.f4{fill:#bf3989}
@media (prefers-color-scheme:dark){
.back{fill:#0d1117}.text{fill:#e6edf3}.dim{fill:#9198a1}.grid{stroke:#3d444d}
.s0{stroke:#58a6ff}.s1{stroke:#f0883e}.s2{stroke:#3fb950}.s3{stroke:#bc8cff}.s4{stroke:#ff7bc0}
.f0{fill:#58a6ff}.f1{fill:#f0883e}.f2{fill:#3fb950}.f3{fill:#bc8cff}.f4{fill:#ff7bc0}}
</style>
`

// drawSheet returns an SVG of panels, two in a row.
func drawSheet(f *figures.Figures, panels []panel) (string, error) {
	var b strings.Builder
	rows := (len(panels) + 1) / 2
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" `+
		`font-family="system-ui,sans-serif" font-size="11">`+"\n", 2*panelWide, rows*panelTall)
	b.WriteString(curveStyle)
	fmt.Fprintf(&b, `<rect class="back" width="%d" height="%d" rx="6"/>`+"\n", 2*panelWide, rows*panelTall)
	for i, p := range panels {
		if err := p.draw(&b, f, float64(i%2*panelWide), float64(i/2*panelTall)); err != nil {
			return "", err
		}
	}
	b.WriteString("</svg>\n")
	return b.String(), nil
}

// frame is where a panel puts its values.
type frame struct {
	left, top, wide, tall float64
	xLow, xHigh           float64
	scale                 scale
}

func (r frame) x(size int) float64 {
	return r.left + r.wide*math.Log(float64(size)/r.xLow)/math.Log(r.xHigh/r.xLow)
}

func (r frame) y(v float64) float64 {
	return r.top + r.tall*(1-math.Log(max(v, r.scale.low)/r.scale.low)/math.Log(r.scale.high/r.scale.low))
}

func (p panel) draw(b *strings.Builder, f *figures.Figures, x, y float64) error {
	drawn := make([][]at, len(p.lines))
	sizes := make(map[int]bool)
	var values []float64
	for i, l := range p.lines {
		drawn[i] = points(f, l)
		for _, point := range drawn[i] {
			sizes[point.size] = true
			values = append(values, point.value)
		}
	}
	if len(sizes) < 2 {
		return fmt.Errorf("panel %q: nobody measured it at two sizes", p.title)
	}
	ticks := slices.Sorted(maps.Keys(sizes))
	r := frame{
		left: x + panelLeft, top: y + panelTop,
		wide: panelWide - panelLeft - panelRight, tall: panelTall - panelTop - panelBottom,
		xLow: float64(ticks[0]), xHigh: float64(ticks[len(ticks)-1]),
		scale: plot{}.scale([]mark{{values: values}}),
	}
	if r.scale.high/r.scale.low < 100 { // noise must not look like a slope
		r.scale.high = 100 * r.scale.low
	}
	classed(b, x+14, y+18, "start", "text", p.title, ` font-size="13" font-weight="600"`)
	classed(b, x+14, y+33, "start", "dim", p.unit, "")
	for _, tick := range r.scale.ticks() {
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n",
			r.left, r.y(tick), r.left+r.wide, r.y(tick))
		classed(b, r.left-6, r.y(tick)+4, "end", "dim", short(tick), "")
	}
	for _, size := range ticks {
		classed(b, r.x(size), r.top+r.tall+16, "middle", "dim", short(float64(size)), "")
	}
	p.drawLines(b, r, drawn)
	return nil
}

// drawLines draws the lines, each with its label at its end.
func (p panel) drawLines(b *strings.Builder, r frame, drawn [][]at) {
	type label struct {
		y    float64
		line int
	}
	var labels []label
	for i, list := range drawn {
		if len(list) == 0 {
			continue
		}
		var path []string
		for _, point := range list {
			path = append(path, fmt.Sprintf("%.1f,%.1f", r.x(point.size), r.y(point.value)))
		}
		fmt.Fprintf(b, `<polyline class="s%d" points="%s" fill="none" stroke-width="2"/>`+"\n",
			i, strings.Join(path, " "))
		for _, point := range list {
			fmt.Fprintf(b, `<circle class="f%d" cx="%.1f" cy="%.1f" r="3"><title>%s, %s: %s</title></circle>`+"\n",
				i, r.x(point.size), r.y(point.value), html.EscapeString(p.lines[i].label), short(float64(point.size)),
				number(point.value))
		}
		labels = append(labels, label{r.y(list[len(list)-1].value), i})
	}
	slices.SortFunc(labels, func(a, b label) int { return cmp.Compare(a.y, b.y) })
	const apart = 13
	lowest := r.top + r.tall
	for i := len(labels) - 1; i >= 0; i-- { // from below: each above the one before
		labels[i].y = min(labels[i].y, lowest)
		lowest = labels[i].y - apart
	}
	for i := 1; i < len(labels); i++ { // and those that this has pushed too far come down again
		labels[i].y = max(labels[i].y, labels[i-1].y+apart)
	}
	for _, l := range labels {
		last := drawn[l.line][len(drawn[l.line])-1]
		what := p.lines[l.line].label + " " + number(last.value)
		fmt.Fprintf(b, `<text class="f%d" x="%.1f" y="%.1f">%s</text>`+"\n",
			l.line, r.left+r.wide+8, l.y+4, html.EscapeString(what))
	}
}

func classed(b *strings.Builder, x, y float64, anchor, class, what, more string) {
	fmt.Fprintf(b, `<text class="%s" x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`+"\n",
		class, x, y, anchor, more, html.EscapeString(what))
}

// short is a size in few letters.
func short(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%gM", n/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%gk", n/1e3)
	}
	return fmt.Sprintf("%g", n)
}

// bends is a table of the lines that bend: the cost at both ends, and how it grows. Below it is a list of the level
// ones, with their cost at the largest size: an item for what grows.
func bends(f *figures.Figures) string {
	var b strings.Builder
	var grown []string // in the order of the panels
	level := make(map[string][]string)
	b.WriteString("| over | operation | from … to | cost | × for ten times the size | commands of the script |\n")
	b.WriteString("|---|---|---|---|---|---|\n")
	for _, p := range panels {
		unit, _, _ := strings.Cut(p.unit, " of ")
		for _, l := range p.lines {
			list := points(f, l)
			if len(list) < 2 {
				continue
			}
			first, last := list[0], list[len(list)-1]
			grows := perDecade(list)
			if math.Abs(grows-1) <= 0.1 {
				if level[l.curve] == nil {
					grown = append(grown, l.curve)
				}
				level[l.curve] = append(level[l.curve], fmt.Sprintf("%s %s %s", l.label, number(last.value), unit))
				continue
			}
			fmt.Fprintf(&b, "| %s | %s | %s … %s | %s … %s %s | %.2f | %s |\n", l.curve, l.label,
				short(float64(first.size)), short(float64(last.size)), number(first.value), number(last.value), unit,
				grows, callsOf(f, l))
		}
	}
	b.WriteString("\nLevel, within a tenth for ten times the size:\n\n")
	for _, curve := range grown {
		b.WriteString("- " + curve + ": " + strings.Join(level[curve], "; ") + "\n")
	}
	return b.String()
}

// callsOf is how many commands the script of a line calls, at both ends.
func callsOf(f *figures.Figures, l line) string {
	if name, ok := strings.CutSuffix(l.metric, "-µs"); ok {
		if c := points(f, line{l.curve, name + "-calls", ""}); len(c) > 1 {
			return number(c[0].value) + " … " + number(c[len(c)-1].value)
		}
	}
	return "–"
}
