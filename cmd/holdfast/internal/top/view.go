package top

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Look is what the terminal can show.
type Look struct {
	Unicode bool // else ASCII only
	Color   bool
	Length  func(time.Duration) string
}

// The styles. Each stands for something that the text says, too.
const (
	plain   = ""
	bold    = "1"
	inverse = "7"
	green   = "32"
	yellow  = "33"
	red     = "31"
)

func (l Look) paint(style, text string) string {
	if !l.Color || style == plain || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// cut shortens a text to a width.
func (l Look) cut(text string, width int) string {
	if Columns(text) <= width {
		return text
	}
	if width <= 0 {
		return ""
	}
	end := "~"
	if l.Unicode {
		end = "…"
	}
	left := width - 1
	for i, r := range text {
		if left -= columnsOf(r); left < 0 {
			return text[:i] + end
		}
	}
	return text
}

// barWidth is the width of a bar, in characters.
const barWidth = 8

// bar draws how much of a lease is left.
func (l Look) bar(left, whole time.Duration) (text, style string) {
	full, empty := "#", "."
	if l.Unicode {
		full, empty = "█", "░"
	}
	n := 0
	if whole > 0 {
		n = int((left*barWidth + whole - 1) / whole)
	}
	n = min(max(n, 0), barWidth)
	style = green
	// A client renews a lease when a third of it is over. With less than half left, it has
	// missed a renewal, or it does not renew.
	switch {
	case left < whole/4:
		style = red
	case left < whole/2:
		style = yellow
	}
	return strings.Repeat(full, n) + strings.Repeat(empty, barWidth-n), style
}

// trend draws the waiters of the last states.
func (l Look) trend(waiting []int) string {
	levels := []rune("_.-=+*%#")
	if l.Unicode {
		levels = []rune("▁▂▃▄▅▆▇█")
	}
	most := max(slices.Max(append([]int{0}, waiting...)), len(levels)-1)
	var b strings.Builder
	for _, n := range waiting {
		b.WriteRune(levels[n*(len(levels)-1)/most])
	}
	return b.String()
}

// cell is one text of a row, with its style.
type cell struct {
	text, style string
}

// column is one column of the table.
type column struct {
	head  string
	right bool
	least int  // it is at least so wide, so that the table stays calm
	cut   bool // on a narrow screen its texts are cut
	of    func(m Model, l Lock, look Look) cell
}

// trend is the head of the column that a narrow screen does without first.
const trend = "TREND"

var columns = []column{
	{"NAME", false, 12, true, func(_ Model, l Lock, _ Look) cell { return cell{l.Name, bold} }},
	{"KIND", false, 9, false, func(_ Model, l Lock, _ Look) cell { return cell{l.Kind, plain} }},
	{"HOLDER", false, 10, true, func(_ Model, l Lock, _ Look) cell { return cell{l.Holder, plain} }},
	{"AGE", true, 6, false, func(_ Model, l Lock, look Look) cell {
		if !l.Held {
			return cell{"-", plain}
		}
		return cell{look.Length(l.Age), plain}
	}},
	{"LEASE", false, barWidth + 7, false, func(m Model, l Lock, look Look) cell {
		if !l.Held {
			return cell{"-", plain}
		}
		bar, style := look.bar(l.Left, m.past[l.id()].whole)
		return cell{bar + " " + fmt.Sprintf("%6s", look.Length(l.Left)), style}
	}},
	{"WAITING", true, 7, false, func(_ Model, l Lock, _ Look) cell {
		if l.Deadlock {
			return cell{l.waiting(), red}
		}
		return cell{l.waiting(), plain}
	}},
	{trend, false, samples, false, func(m Model, l Lock, look Look) cell {
		return cell{fmt.Sprintf("%*s", samples, look.trend(m.past[l.id()].waiting)), plain}
	}},
	{"VALUE", false, 6, true, func(_ Model, l Lock, _ Look) cell { return cell{l.Value, plain} }},
	{"TOKEN", true, 19, false, func(_ Model, l Lock, _ Look) cell { return cell{l.Token, plain} }},
}

// rows is how many rows of the table fit on the screen; 0: no limit.
func (m Model) rows(list []Lock) int {
	if m.height == 0 {
		return 0
	}
	return max(m.height-3-len(m.pane(list)), 1) // without the two lines above and the keys
}

// pane is the detail pane, without its limit to the width.
func (m Model) pane(list []Lock) []string {
	if !m.detail || len(list) == 0 {
		return nil
	}
	lines := list[m.index(list)].Detail
	if most := (m.height-3)/2 - 1; m.height > 0 && len(lines) > most {
		lines = lines[:max(most, 0)]
	}
	return append([]string{""}, lines...)
}

// View is the screen, a line for each row of it, and none of them wider than it.
func (m Model) View(look Look) []string {
	list := m.visible()
	lines := []string{m.head(look), ""}
	from, till := 0, len(list)
	if rows := m.rows(list); rows > 0 {
		from = min(m.first, len(list))
		till = min(from+rows, len(list))
	}
	cells := make([][]cell, 0, till-from)
	for _, l := range list[from:till] {
		row := make([]cell, len(columns))
		for i, c := range columns {
			row[i] = c.of(m, l, look)
		}
		cells = append(cells, row)
	}
	widths := m.widths(cells, look)
	head := make([]cell, len(columns))
	for i, c := range columns {
		head[i] = cell{c.head, bold}
	}
	lines[1] = m.line(head, widths, look, false)
	for i, row := range cells {
		lines = append(lines, m.line(row, widths, look, m.height > 0 && list[from+i].id() == m.chosen))
	}
	if len(list) == 0 {
		lines = append(lines, m.fit(m.nothing(), look))
	}
	for _, text := range m.pane(list) {
		lines = append(lines, m.fit(text, look))
	}
	if m.height > 0 {
		for len(lines) < m.height-1 {
			lines = append(lines, "")
		}
		lines = append(lines[:max(m.height-1, 0)], m.fit(m.keys(look), look))
	}
	return lines
}

// nothing says why there is no row.
func (m Model) nothing() string {
	switch {
	case m.at.IsZero():
		return "reading the locks"
	case m.filter != "" && len(m.locks) > 0:
		return fmt.Sprintf("no name or holder has %q in it", m.filter)
	}
	return "no lock is held, and none is waited for"
}

// head is the first line: what is true now, and how old that is.
func (m Model) head(look Look) string {
	held, waiting, stuck := 0, 0, 0
	for _, l := range m.locks {
		if l.Deadlock {
			stuck++
		}
		if l.Held {
			held++
		}
		waiting += l.Waiting
	}
	text := fmt.Sprintf("%s  %d held, %d waiting", m.server, held, waiting)
	if stuck > 0 {
		text += fmt.Sprintf(", %d in a deadlock", stuck)
	}
	if !m.at.IsZero() {
		text += m.at.UTC().Format("  15:04:05 UTC")
	}
	style := plain
	// What is wrong stands first: a narrow screen cuts the end.
	if m.paused {
		text, style = "PAUSED  "+text, yellow
	}
	if m.failure != "" {
		text, style = m.failure+"  "+text, red
	}
	return look.paint(style, m.fit(text, look))
}

// keys is the last line.
func (m Model) keys(look Look) string {
	if m.typing {
		return "/" + m.filter + "_   enter keep   esc clear"
	}
	arrows := "up/down"
	if look.Unicode {
		arrows = "↑↓"
	}
	sort, pause := m.sort, "pause"
	if m.reverse {
		sort += ", reversed"
	}
	if m.paused {
		pause = "go on"
	}
	text := fmt.Sprintf("q quit  %s select  enter detail  / filter  s sort (%s)  r reverse  p %s", arrows, sort, pause)
	if m.filter != "" {
		text += fmt.Sprintf("  esc show all (filter %q)", m.filter)
	}
	return text
}

func (m Model) fit(text string, look Look) string {
	if m.width == 0 {
		return text
	}
	return look.cut(text, m.width)
}

// widths are the widths of the columns. If the screen is too narrow for whole texts, the trend is
// left out: who holds a lock says more. Then the last columns are left out, and long texts are cut.
func (m Model) widths(rows [][]cell, look Look) []int {
	widths := make([]int, len(columns))
	total, least := len(m.mark(look, false))-2, len(m.mark(look, false))-2
	for i, c := range columns {
		widths[i] = c.least
		for _, row := range rows {
			widths[i] = max(widths[i], Columns(row[i].text))
		}
		total += widths[i] + 2
		least += narrowest(i, widths) + 2
	}
	if m.width == 0 {
		return widths
	}
	leaveOut := func(i int) {
		if widths[i] > 0 {
			total, least = total-widths[i]-2, least-narrowest(i, widths)-2
			widths[i] = 0
		}
	}
	if total > m.width {
		leaveOut(slices.IndexFunc(columns, func(c column) bool { return c.head == trend }))
	}
	for i := len(widths) - 1; i > 0 && least > m.width; i-- {
		leaveOut(i)
	}
	for total > m.width {
		widest := -1
		for i, c := range columns {
			if c.cut && widths[i] > c.least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		total--
	}
	widths[0] = min(widths[0], max(m.width-len(m.mark(look, false)), 0))
	return widths
}

// narrowest is how narrow a column may become.
func narrowest(i int, widths []int) int {
	if columns[i].cut {
		return columns[i].least
	}
	return widths[i]
}

// mark stands before a row where no colour shows which one is selected.
func (m Model) mark(look Look, chosen bool) string {
	switch {
	case look.Color || m.height == 0:
		return ""
	case chosen:
		return "> "
	}
	return "  "
}

// line is one row of the table.
func (m Model) line(cells []cell, widths []int, look Look, chosen bool) string {
	var b strings.Builder
	b.WriteString(m.mark(look, chosen))
	used := 0
	for i, c := range cells {
		if widths[i] == 0 {
			continue
		}
		if used > 0 {
			b.WriteString("  ")
			used += 2
		}
		text := look.cut(c.text, widths[i])
		pad := strings.Repeat(" ", widths[i]-Columns(text))
		if !chosen {
			text = look.paint(c.style, text)
		}
		if columns[i].right {
			b.WriteString(pad + text)
		} else {
			b.WriteString(text + pad)
		}
		used += widths[i]
	}
	line := b.String()
	if !chosen {
		return strings.TrimRight(line, " ")
	}
	if !look.Color {
		return strings.TrimRight(line, " ")
	}
	return look.paint(inverse, line+strings.Repeat(" ", max(m.width-used, 0)))
}
