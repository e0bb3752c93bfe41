package say

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// Log prints the library's log on standard error, in the tool's form.
type Log struct {
	Say   *Printer
	attrs []slog.Attr
}

// Enabled drops debug records: they are for work on the library.
func (Log) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle prints a record as one line.
func (h Log) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(strings.TrimPrefix(r.Message, "holdfast: "))
	add := func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	h.Say.Infof("%s", b.String())
	return nil
}

// WithAttrs remembers attributes of every record to come.
func (h Log) WithAttrs(attrs []slog.Attr) slog.Handler {
	return Log{h.Say, append(slices.Clip(h.attrs), attrs...)}
}

// WithGroup is not needed: the library does not group.
func (h Log) WithGroup(string) slog.Handler { return h }
