package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/bench/figures"
)

// point is one point on the horizontal axis: a workload, or a size.
type point struct{ name, label string }

// plot is one metric of one benchmark over several points: a dot or a curve for each side. There are no bars,
// because the length of a bar says nothing on a logarithmic scale.
type plot struct {
	name, title, metric string
	benchmark           string // empty: Versus, with a dot or curve for each side
	points              []point
	curve, linear       bool
}

// mark is one value of one side, -1 where there is none.
type mark struct {
	name, colour string
	values       []float64
}

const (
	width, height      = 760, 340
	left, right        = 70, 190
	top, bottom        = 40, 40
	plotWide, plotTall = width - left - right, height - top - bottom
)

// draw returns the plot as an SVG. If there is nothing to draw, it returns an error.
func (p plot) draw(f *figures.Figures) (string, error) {
	marks := p.marks(f)
	if len(marks) == 0 {
		return "", fmt.Errorf("plot %s: nobody measured %s", p.name, p.metric)
	}
	s := p.scale(marks)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n",
		width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	text(&b, left, 22, "start", p.title, `font-size="13" font-weight="bold"`)
	for _, tick := range s.ticks() {
		y := s.y(tick)
		fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/>`+"\n", left, y, left+plotWide, y)
		text(&b, left-6, y+4, "end", number(tick), "")
	}
	for i, at := range p.points {
		text(&b, p.x(i), height-bottom+18, "middle", at.label, "")
	}
	for i, m := range marks {
		y := float64(top + 16*i)
		fmt.Fprintf(&b, `<rect x="%d" y="%.1f" width="10" height="10" fill="%s"/>`+"\n", width-right+14, y, m.colour)
		text(&b, width-right+30, y+9, "start", m.name, "")
		if p.curve {
			p.line(&b, s, m)
		} else {
			p.dots(&b, s, m, i, len(marks))
		}
	}
	b.WriteString("</svg>\n")
	return b.String(), nil
}

func (p plot) marks(f *figures.Figures) []mark {
	var marks []mark
	if p.benchmark != "" {
		m := mark{name: p.benchmark, colour: sides[0].colour}
		for _, at := range p.points {
			m.values = append(m.values, value(f, p.benchmark+"/"+at.name, p.metric))
		}
		return present(append(marks, m))
	}
	for _, s := range sides {
		if s.colour == "" {
			continue
		}
		m := mark{name: s.name, colour: s.colour}
		for _, at := range p.points {
			m.values = append(m.values, value(f, "Versus/"+at.name+"/"+s.name, p.metric))
		}
		marks = append(marks, m)
	}
	return present(marks)
}

// present leaves out what was not measured.
func present(marks []mark) []mark {
	return slices.DeleteFunc(marks, func(m mark) bool {
		return !slices.ContainsFunc(m.values, func(v float64) bool { return v >= 0 })
	})
}

// unexplained are figures that nobody has explained yet, so neither a plot nor a table shows them.
var unexplained = []string{"Versus/hand-over-1/etcd"}

func value(f *figures.Figures, benchmark, metric string) float64 {
	if slices.Contains(unexplained, benchmark) {
		return -1
	}
	if m, ok := f.Median(benchmark, metric); ok {
		return m
	}
	return -1
}

// x is the middle of a point.
func (p plot) x(i int) float64 {
	return left + plotWide*(float64(i)+0.5)/float64(len(p.points))
}

func (p plot) dots(b *strings.Builder, s scale, m mark, i, of int) {
	wide := plotWide / float64(len(p.points)) * 0.85 / float64(of)
	for k, v := range m.values {
		if v < 0 {
			continue
		}
		x := p.x(k) + wide*(float64(i)+0.5-float64(of)/2)
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="5" fill="%s"><title>%s: %s</title></circle>`+"\n",
			x, s.y(v), m.colour, html.EscapeString(m.name), number(v))
	}
}

func (p plot) line(b *strings.Builder, s scale, m mark) {
	var path []string
	for k, v := range m.values {
		if v < 0 {
			continue
		}
		path = append(path, fmt.Sprintf("%.1f,%.1f", p.x(k), s.y(v)))
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s: %s</title></circle>`+"\n",
			p.x(k), s.y(v), m.colour, html.EscapeString(m.name), number(v))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n",
		strings.Join(path, " "), m.colour)
}

// scale is the vertical axis, between two round values.
type scale struct {
	low, high float64
	linear    bool
}

func (p plot) scale(marks []mark) scale {
	if p.linear {
		return scale{0, 1, true}
	}
	low, high := math.Inf(1), 0.0
	for _, m := range marks {
		for _, v := range m.values {
			if v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	s := scale{low: math.Pow(10, math.Floor(math.Log10(low))), high: math.Pow(10, math.Ceil(math.Log10(high)))}
	if s.low == s.high {
		s.high *= 10
	}
	return s
}

func (s scale) y(v float64) float64 {
	share := (v - s.low) / (s.high - s.low)
	if !s.linear {
		share = math.Log(max(v, s.low)/s.low) / math.Log(s.high/s.low)
	}
	return top + plotTall*(1-share)
}

func (s scale) ticks() []float64 {
	if s.linear {
		return []float64{0, 0.25, 0.5, 0.75, 1}
	}
	var ticks []float64
	for v := s.low; v <= s.high*1.001; v *= 10 {
		ticks = append(ticks, v)
	}
	return ticks
}

func text(b *strings.Builder, x, y float64, anchor, what, more string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n",
		x, y, anchor, more, html.EscapeString(what))
}

// number is v with three significant digits.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case a >= 1e4:
		return fmt.Sprintf("%.3gk", v/1e3)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 1 || a == 0:
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.2g", v)
}
