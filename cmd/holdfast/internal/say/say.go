// Package say prints the messages of the tool. The rules for output hold for every command:
//
//   - Standard output carries the result, or belongs to the command that is run.
//   - Standard error carries messages: lines that begin with "holdfast: ", lower
//     case, no full stop. If there is a next step to suggest, a line that begins
//     with "hint: " follows an error.
//   - A message is not cut or wrapped to the terminal: scripts read it, as the runbook does with
//     awk, and people copy it. Only top, which has the whole screen, cuts its lines.
//   - A password is never printed, wherever it came from.
//   - --json prints one object with documented fields: fields may be added, and
//     are never renamed, removed or given another type.
package say

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

// Level is how much the user wants to read.
type Level int

const (
	Quiet   Level = iota // errors and warnings
	Normal               // and why the command did not run
	Verbose              // and each step
)

// Stdout is standard output, for results. The command of a run has os.Stdout itself.
var Stdout = &Output{W: os.Stdout}

// Output remembers that a result could not be written. Cobra does not return such an error.
type Output struct {
	W      io.Writer
	Failed error
}

// Write writes, and remembers an error.
func (o *Output) Write(b []byte) (n int, err error) {
	if n, err = o.W.Write(b); err == nil {
		return n, nil
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	o.Failed = exit.With(exit.CodeOutput, fmt.Errorf("cannot write to standard output: %w", err), "")
	return n, o.Failed
}

// Printer writes every message on standard error.
type Printer struct {
	mu       sync.Mutex // keeps an error and its hint together
	W        io.Writer
	JSON     bool
	Terminal bool // a person reads it
	Level    Level
}

// Fail prints an error and what to do about it.
func (p *Printer) Fail(err error) {
	if text := Plain(err); text != "" {
		p.Put("error", text, exit.HintOf(err))
	}
}

// Away warns that we wait for a server. wait says how.
func (p *Printer) Away(err error, wait string) {
	p.Put("warning", Plain(err)+"; "+wait, exit.HintOf(err))
}

// Plain is an error's text without the library's prefix: every line of ours has one
// already.
func Plain(err error) string {
	text := strings.ReplaceAll(": "+err.Error(), ": holdfast: ", ": ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, ": "), "invalid: ") // the exit code says so
	return strings.TrimPrefix(text, "Config.TTL: ")
}

// Warnf prints a warning, and what to do about it.
func (p *Printer) Warnf(hint, format string, args ...any) {
	p.Put("warning", fmt.Sprintf(format, args...), hint)
}

// Noticef is for what explains an exit code; --quiet drops it.
func (p *Printer) Noticef(format string, args ...any) {
	if p.Level >= Normal {
		p.Put("notice", fmt.Sprintf(format, args...), "")
	}
}

// Infof is for --verbose.
func (p *Printer) Infof(format string, args ...any) {
	if p.Level >= Verbose {
		p.Put("info", fmt.Sprintf(format, args...), "")
	}
}

// line is one message under --log-format json. Its fields are a contract.
type line struct {
	Time  string `json:"time"`
	Level string `json:"level"` // error, warning, notice or info
	Msg   string `json:"msg"`
	Hint  string `json:"hint,omitempty"`
}

// Put prints one message of a level: error, warning, notice or info.
func (p *Printer) Put(level, text, hint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.JSON {
		b, err := screen.JSON(line{lockjson.Stamp(time.Now()), level, text, hint})
		if err == nil {
			p.W.Write(b) //nolint:errcheck // there is no other place for it
		}
		return
	}
	if level == "warning" {
		text = "warning: " + text
	}
	// One message stays one line, whatever a lock or a server is called.
	fmt.Fprintf(p.W, "holdfast: %s\n", OneLine(text)) //nolint:errcheck // there is no other place for it
	if hint != "" {
		fmt.Fprintf(p.W, "hint: %s\n", OneLine(hint)) //nolint:errcheck // there is no other place for it
	}
}

// Guardian prints a guardian's message in the format of the wrapper's messages.
func Guardian(format, text string) {
	(&Printer{W: os.Stderr, JSON: format == "json"}).Put("error", text, "")
}

// Format is the value of --log-format that the printer obeys.
func (p *Printer) Format() string {
	if p.JSON {
		return "json"
	}
	return "text"
}

// OneLine escapes the characters that would end a line or control a terminal, and those that
// nobody sees: some of them turn the text around them. It does so as Go does.
func OneLine(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0:
			fmt.Fprintf(&b, `\x%02x`, r)
		case !strconv.IsPrint(r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
