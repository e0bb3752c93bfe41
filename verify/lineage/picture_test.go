package lineage_test

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/internal/assert"
)

var rewrite = flag.Bool("rewrite", false, "draw the pictures of docs/lineage.md anew")

// The measures of a picture.
const (
	laneWidth = 58
	rowHeight = 24
	letter    = 7.25 // of a monospaced font of 12
	top       = 62
	left      = 16
)

// style has the colours of a light page and of a dark one. The picture has a background
// of its own, so it is readable where a page does not follow the reader's choice.
const style = `
.back{fill:#fff}.text{fill:#1f2328}.dim{fill:#59636e}.line{stroke:#d1d9e0}.dot{fill:#1f2328}
.in{fill:#0969da;fill-opacity:.25}.clash{fill:#cf222e;fill-opacity:.5}.key{fill:#59636e;fill-opacity:.35}
.flaw{fill:#cf222e}
@media (prefers-color-scheme:dark){
.back{fill:#0d1117}.text{fill:#e6edf3}.dim{fill:#9198a1}.line{stroke:#3d444d}.dot{fill:#e6edf3}
.in{fill:#4493f8;fill-opacity:.4}.clash{fill:#f85149;fill-opacity:.6}.key{fill:#9198a1;fill-opacity:.4}
.flaw{fill:#ff7b72}}`

// compare compares the picture of a scene with its file. With -rewrite it writes the file.
func compare(p *play) {
	p.t.Helper()
	file := filepath.Join("..", "..", "docs", "images", "lineage-"+p.picture+".svg")
	drawn := draw(p)
	if *rewrite {
		assert.Must(p.t, os.WriteFile(file, drawn, 0o644))
		return
	}
	if found, err := os.ReadFile(file); err != nil || !bytes.Equal(found, drawn) {
		p.t.Errorf("%s is not the picture of this run (%v): (cd verify && go test ./lineage -rewrite)", file, err)
	}
}

// draw draws the record: a column for each client and key, and a line for each row. A bar
// shows a client in its critical section, or a key that exists.
func draw(p *play) []byte {
	var columns, body strings.Builder
	textAt := left // where the next column begins, and at last the text
	column := func(name string) int {
		width := max(laneWidth, int(float64(len(name))*letter)+14)
		at := textAt + width/2
		textAt += width
		fmt.Fprintf(&columns, `<text class="text" x="%d" y="%d" text-anchor="middle" font-weight="bold">%s</text>`+"\n",
			at, top-34, escape(name))
		fmt.Fprintf(&columns, `<line class="line" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n",
			at, top-26, at, top+rowHeight*len(p.rows))
		return at
	}
	// bar draws from the middle of the row in which something began to that in which it ended.
	bar := func(at, from, to, width int, class string) {
		fmt.Fprintf(&columns, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="3"/>`+"\n",
			class, at-width/2, top+rowHeight*from, width, rowHeight*(to-from))
	}
	at := map[string]int{}
	for _, a := range p.clients {
		at[a.name] = column(a.name)
		p.bars(func(r row) string {
			switch {
			case r.inside[a.name] == "":
				return ""
			case r.clash():
				return "clash"
			}
			return "in"
		}, func(from, to int, class string) { bar(at[a.name], from, to, 30, class) })
	}
	for _, key := range p.keys {
		at := column("key " + key)
		p.bars(func(r row) string {
			if r.exists[key] {
				return "key"
			}
			return ""
		}, func(from, to int, class string) { bar(at, from, to, 12, class) })
	}
	textAt += 10
	longest := len([]rune(p.flaw))
	for i, r := range p.rows {
		y, class, text := top+rowHeight*i, "dim", r.text
		if r.who != "" {
			fmt.Fprintf(&body, `<circle class="dot" cx="%d" cy="%d" r="4"/>`+"\n", at[r.who], y)
			class, text = "text", r.who+"  "+r.text
		}
		longest = max(longest, len([]rune(text)))
		fmt.Fprintf(&body, `<text class="%s" x="%d" y="%d" xml:space="preserve">%s</text>`+"\n",
			class, textAt, y+4, escape(text))
	}
	bottom := top + rowHeight*len(p.rows) + 14
	width := textAt + int(float64(longest)*letter) + 2*left
	var svg bytes.Buffer
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img"`+
		` font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="12">`+"\n",
		width, bottom+20, width, bottom+20)
	fmt.Fprintf(&svg, "<title>%s</title>\n<style>%s\n</style>\n", escape(p.flaw), style)
	fmt.Fprintf(&svg, `<rect class="back" width="%d" height="%d" rx="6"/>`+"\n", width, bottom+20)
	svg.WriteString(columns.String())
	svg.WriteString(body.String())
	fmt.Fprintf(&svg, `<text class="flaw" x="%d" y="%d" font-weight="bold">%s</text>`+"\n</svg>\n",
		textAt, bottom+2, escape(p.flaw))
	return svg.Bytes()
}

// bars calls draw for each run of rows with one class. A run lasts until the row that
// ended it, or to the end of the picture.
func (p *play) bars(of func(row) string, draw func(from, to int, class string)) {
	from, class := 0, ""
	for i, r := range p.rows {
		if next := of(r); next != class {
			if class != "" {
				draw(from, i, class)
			}
			from, class = i, next
		}
	}
	if class != "" {
		draw(from, len(p.rows), class)
	}
}

func escape(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text))
	return out.String()
}
