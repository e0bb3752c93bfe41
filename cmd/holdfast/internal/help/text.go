package help

import (
	"strings"
	"unicode/utf8"
)

// The texts of the help are written by hand, for a reader of the source. format breaks their lines anew:
//
//   - Lines without an indentation are a paragraph, and are filled.
//   - An indented line is a row of a table: a key, a gap of two or more blanks, and a text. Lines that are indented
//     further belong to the row before. The text is filled in its column. If the column leaves too little room, the
//     text gets lines of its own.
//   - An indented line without a gap is a command, and is never broken.

// leastText is the narrowest column in which a row's text is filled.
const leastText = 28

// format breaks a text into lines of at most width characters, as far as its commands permit.
func format(text string, width int) string {
	return lines(blocks(text), width)
}

func lines(list []block, width int) string {
	var b strings.Builder
	for _, block := range list {
		block.write(&b, width)
	}
	return b.String()
}

// block is a paragraph, an empty line, or a row.
type block struct {
	indent int    // of a row
	key    string // of a row
	column int    // of a row's text
	text   string
}

// blocks takes a text apart.
func blocks(text string) (list []block) {
	open := false // the last block takes further lines
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		words := strings.TrimLeft(line, " ")
		indent := len(line) - len(words)
		last := len(list) - 1
		switch {
		case words == "":
			list, open = append(list, block{}), false
		case indent == 0 && open && list[last].key == "":
			list[last].text += " " + words
		case indent == 0:
			list, open = append(list, block{text: words}), true
		case open && list[last].key != "" && indent > list[last].indent+2:
			if list[last].text == "" {
				list[last].column = indent
			}
			list[last].text = strings.TrimSpace(list[last].text + " " + words)
		default:
			list, open = append(list, rowOf(indent, words)), true
		}
	}
	return list
}

// rowOf is a row whose first line this is. The last gap ends the key, which may have columns itself.
func rowOf(indent int, words string) block {
	gap := strings.LastIndex(words, "  ")
	if gap < 0 {
		return block{indent: indent, key: words}
	}
	key := strings.TrimRight(words[:gap], " ")
	return block{indent: indent, key: key, column: indent + columns(words[:gap+2]), text: words[gap+2:]}
}

func (k block) write(b *strings.Builder, width int) {
	margin := strings.Repeat(" ", k.indent)
	switch {
	case k.key == "" && k.text == "":
		b.WriteByte('\n')
		return
	case k.key == "":
		for _, line := range fill(k.text, width) {
			b.WriteString(line + "\n")
		}
		return
	case k.text == "":
		b.WriteString(margin + k.key + "\n")
		return
	}
	column := k.column
	if width-column < leastText && column+columns(k.text) > width {
		column = k.indent + 4
	}
	b.WriteString(margin + k.key)
	pad := column - k.indent - columns(k.key)
	if pad < 2 {
		b.WriteByte('\n')
		pad = column
	}
	for _, line := range fill(k.text, width-column) {
		b.WriteString(strings.Repeat(" ", pad) + line + "\n")
		pad = column
	}
}

// fill breaks a text into lines of at most width characters.
func fill(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && columns(line)+1+columns(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// columns is the width of a text: the help has no wide letters.
func columns(text string) int { return utf8.RuneCountInString(text) }
