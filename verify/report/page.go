package report

import (
	_ "embed"
	"fmt"
	"html"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/verify/check"
	"github.com/holdfast-go/holdfast/verify/history"
	"github.com/holdfast-go/holdfast/verify/workload"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// view is a document with what only the page shows.
type view struct {
	*Document
	Took      time.Duration
	Checks    []checkView
	Slowest   []gapView
	Timelines []timeline
	Grid      [][]string // how often two faults were active at the same time
	Letters   string     // why some are not
}

type checkView struct{ check.Result }

// Shown are the violations that are written out.
func (c checkView) Shown() []check.Finding { return c.Violations[:min(len(c.Violations), 20)] }

type gapView struct{ Gap }

func (g gapView) Wait() time.Duration { return g.After.Round(time.Millisecond) }
func (g gapView) Long() time.Duration {
	return time.Duration(g.Fault.Till - g.Fault.From).Round(time.Millisecond)
}

// HTML writes the page.
func (d *Document) HTML(w io.Writer) error {
	v := view{Document: d, Took: d.Elapsed.Round(time.Second)}
	for _, c := range d.Checks {
		v.Checks = append(v.Checks, checkView{c})
	}
	for _, g := range d.Slowest {
		v.Slowest = append(v.Slowest, gapView{g})
	}
	met := make(map[string]int)
	for _, c := range d.Pairs {
		met[c.Name] = c.N
	}
	v.Grid, v.Letters = grid(d.Setup.Faults, met)
	if d.last != nil {
		v.Timelines = timelines(d.last)
	}
	return page.Execute(w, v)
}

// timeline is a picture of who held a lock, with the faults over it.
type timeline struct {
	Title, About string
	SVG          template.HTML
}

// timelines draws the last round: the whole of it, and what lies around its
// first violation or else its slowest recovery.
func timelines(r *check.Run) []timeline {
	lock := workload.Update
	if len(r.Holds[lock]) == 0 {
		for name, list := range r.Holds {
			if len(list) > len(r.Holds[lock]) || len(list) == len(r.Holds[lock]) && name < lock {
				lock = name
			}
		}
	}
	holds := r.Holds[lock]
	if len(holds) == 0 {
		return nil
	}
	from, till := holds[0].At, holds[len(holds)-1].At
	for _, f := range r.Faults {
		from, till = min(from, f.From), max(till, f.Till)
	}
	about := "One row for each client process. Blue: it trusts its hold. Yellow: it no longer trusts " +
		"the hold, but its call has not ended. Bands: a fault, of one client or of all. " +
		"Point at a part to see what it is."
	all := []timeline{{
		Title: fmt.Sprintf("The last round: who held %q", lock), About: about, SVG: draw(r, lock, from, till),
	}}
	for _, c := range check.All(r) {
		for _, v := range c.Violations {
			if v.At != 0 && len(r.Holds[v.Lock]) > 0 {
				return append(all, closeUp(r, "The first violation", v.Lock, v.At))
			}
		}
	}
	if gaps := r.Gaps(); len(gaps) > 0 {
		title := "The slowest recovery: " + gaps[0].Fault.Name
		all = append(all, closeUp(r, title, gaps[0].Lock, gaps[0].Fault.Till))
	}
	return all
}

// closeUp draws a lease before and two leases after an instant.
func closeUp(r *check.Run, title, lock string, at int64) timeline {
	return timeline{
		Title: title, About: fmt.Sprintf("Who held %q, from one lease before to two leases after.", lock),
		SVG: draw(r, lock, at-int64(r.Setup.TTL), at+2*int64(r.Setup.TTL)),
	}
}

// The picture's measures, in pixels.
const (
	left   = 70
	width  = 1050
	height = 26
	top    = 20
)

// canvas is a picture under way.
type canvas struct {
	strings.Builder
	from, till int64
	rows       int
}

func (c *canvas) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(&c.Builder, format, args...) // it never fails
}

func (c *canvas) x(at int64) float64 {
	at = min(max(at, c.from), c.till)
	return left + float64(at-c.from)/float64(c.till-c.from)*width
}

// box draws a rectangle from one instant to another in some rows.
func (c *canvas) box(from, till int64, y, h, least float64, fill, opacity, text string) {
	if till < c.from || from > c.till {
		return
	}
	x := c.x(from)
	c.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" fill-opacity="%s">`+
		"<title>%s</title></rect>\n", x, y, max(c.x(till)-x, least), h, fill, opacity, html.EscapeString(text))
}

// draw draws who held a lock between two instants.
func draw(r *check.Run, lock string, from, till int64) template.HTML {
	c := &canvas{from: from, till: max(till, from+1), rows: r.Setup.Clients}
	for _, h := range r.Holds[lock] {
		c.rows = max(c.rows, h.Proc)
	}
	bottom := float64(top + c.rows*height)
	c.printf(`<svg width="%d" height="%.0f" role="img" aria-label="timeline">`+"\n", left+width+10, bottom+24)
	row := func(proc int) float64 { return float64(top + (proc-1)*height) }
	for proc := 1; proc <= c.rows; proc++ {
		c.printf(`<text x="0" y="%.0f">client %d</text>`+"\n", row(proc)+17, proc)
	}
	for _, f := range r.Faults {
		text := fmt.Sprintf("%s, %v %s %s", f.Name, time.Duration(f.Till-f.From).Round(time.Millisecond), f.Text, f.Err)
		fill := "#cf222e"
		if f.Loses {
			fill = "#8250df"
		}
		if len(f.Procs) == 0 {
			c.box(f.From, f.Till, top, bottom-top, 2, fill, "0.18", text)
		}
		for _, proc := range f.Procs {
			c.box(f.From, f.Till, row(proc), height-2, 2, fill, "0.3", text)
		}
	}
	for _, h := range r.Holds[lock] {
		end := h.Trusted()
		text := fmt.Sprintf("%s, token %d", h.Owner, h.Token)
		if h.Over != nil {
			text += ", " + h.Over.How
			c.box(h.At, h.Over.At, row(h.Proc)+7, height-16, 0.6, "#d29922", "0.9", text)
		}
		c.box(h.At, max(end, h.At), row(h.Proc)+5, height-12, 0.6, "#1f6feb", "1", text)
	}
	c.axis(bottom)
	c.WriteString("</svg>")
	return template.HTML(c.String()) //nolint:gosec // every text in it is escaped, in box
}

// axis writes seconds under the rows.
func (c *canvas) axis(bottom float64) {
	length := c.till - c.from
	steps := []time.Duration{
		100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
		time.Minute, 5 * time.Minute, time.Hour,
	}
	i := slices.IndexFunc(steps, func(d time.Duration) bool { return length/int64(d) < 15 })
	step := steps[max(i, 0)]
	for at := c.from; at <= c.till; at += int64(step) {
		c.printf(`<line x1="%.1f" x2="%.1f" y1="%d" y2="%.0f" stroke="currentColor" stroke-opacity="0.15"/>`+
			`<text x="%.1f" y="%.0f">%v</text>`+"\n",
			c.x(at), c.x(at), top, bottom, c.x(at), bottom+16, time.Duration(at-c.from))
	}
}

// FromHistory judges a history that was kept.
func FromHistory(r io.Reader) (*Document, error) {
	events, err := history.Read(r)
	if err != nil {
		return nil, err
	}
	return fromEvents(events), nil
}
