package main

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

// level is how much the user wants to read.
type level int

const (
	levelQuiet   level = iota // errors and warnings
	levelNormal               // and why the command did not run
	levelVerbose              // and each step
)

// stdout is standard output, for results. The command of a run has os.Stdout itself.
var stdout = &output{w: os.Stdout}

// output remembers that a result could not be written. Cobra does not return such an error.
type output struct {
	w      io.Writer
	failed error
}

func (o *output) Write(b []byte) (n int, err error) {
	if n, err = o.w.Write(b); err == nil {
		return n, nil
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	o.failed = exit.With(exit.CodeOutput, fmt.Errorf("cannot write to standard output: %w", err), "")
	return n, o.failed
}

// printer writes every message on standard error.
type printer struct {
	mu       sync.Mutex // keeps an error and its hint together
	w        io.Writer
	json     bool
	terminal bool // a person reads it
	level    level
}

// fail prints an error and what to do about it.
func (p *printer) fail(err error) {
	if text := plain(err); text != "" {
		p.put("error", text, exit.HintOf(err))
	}
}

// away warns that we wait for a server. wait says how.
func (p *printer) away(err error, wait string) {
	p.put("warning", plain(err)+"; "+wait, exit.HintOf(err))
}

// plain is an error's text without the library's prefix: every line of ours has one
// already.
func plain(err error) string {
	text := strings.ReplaceAll(": "+err.Error(), ": holdfast: ", ": ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, ": "), "invalid: ") // the exit code says so
	return strings.TrimPrefix(text, "Config.TTL: ")
}

func (p *printer) warnf(hint, format string, args ...any) {
	p.put("warning", fmt.Sprintf(format, args...), hint)
}

// noticef is for what explains an exit code; --quiet drops it.
func (p *printer) noticef(format string, args ...any) {
	if p.level >= levelNormal {
		p.put("notice", fmt.Sprintf(format, args...), "")
	}
}

// infof is for --verbose.
func (p *printer) infof(format string, args ...any) {
	if p.level >= levelVerbose {
		p.put("info", fmt.Sprintf(format, args...), "")
	}
}

// line is one message under --log-format json. Its fields are a contract.
type line struct {
	Time  string `json:"time"`
	Level string `json:"level"` // error, warning, notice or info
	Msg   string `json:"msg"`
	Hint  string `json:"hint,omitempty"`
}

func (p *printer) put(level, text, hint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.json {
		b, err := screen.JSON(line{lockjson.Stamp(time.Now()), level, text, hint})
		if err == nil {
			p.w.Write(b) //nolint:errcheck // there is no other place for it
		}
		return
	}
	if level == "warning" {
		text = "warning: " + text
	}
	// One message stays one line, whatever a lock or a server is called.
	fmt.Fprintf(p.w, "holdfast: %s\n", oneLine(text)) //nolint:errcheck // there is no other place for it
	if hint != "" {
		fmt.Fprintf(p.w, "hint: %s\n", oneLine(hint)) //nolint:errcheck // there is no other place for it
	}
}

// guardianSays prints a guardian's message in the format of the wrapper's messages.
func guardianSays(format, text string) {
	(&printer{w: os.Stderr, json: format == "json"}).put("error", text, "")
}

// format is the value of --log-format that the printer obeys.
func (p *printer) format() string {
	if p.json {
		return "json"
	}
	return "text"
}

// oneLine escapes the characters that would end a line or control a terminal, and those that
// nobody sees: some of them turn the text around them. It does so as Go does.
func oneLine(text string) string {
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
