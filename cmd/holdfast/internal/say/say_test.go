package say

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestEveryErrorHasItsCode(t *testing.T) {
	for want, errs := range map[int][]error{
		exit.CodeUsage:   {exit.Usage("x", ""), holdfast.ErrInvalid},
		exit.CodeBusy:    {&holdfast.HeldError{}, holdfast.ErrDeadlock},
		exit.CodeLost:    {&holdfast.LostError{}, holdfast.ErrNotHeld},
		exit.CodeRefused: {reply("NOAUTH"), reply("WRONGPASS"), reply("NOPERM"), reply("DENIED")},
		exit.CodeUnreachable: {
			holdfast.ErrUnknownOutcome, holdfast.ErrUnreachable, &holdfast.HeldError{Err: reply("LOADING")},
			&holdfast.HeldError{Err: holdfast.ErrUnreachable},
			reply("LOADING"), reply("READONLY"), reply("REPLICA"), reply("OOM"), reply("MAXCLIENTS"), reply("BUSY"),
		},
		exit.CodeProtocol: {reply("WRONGTYPE"), reply("ERR"), reply("FORMAT"), reply("VERSION")},
		exit.CodeInternal: {errors.New("what is this")},
		exit.CodeOutput:   {errOf((&Output{W: full{}}).Write(nil))},
	} {
		for _, err := range errs {
			assert.Equal(t, exit.Of(fmt.Errorf("wrapped: %w", err)), want, "%v", err)
		}
	}
}

// full is a file on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
}

func errOf(_ int, err error) error { return err }

func reply(code string) error { return &holdfast.ServerError{Code: code, Message: code + " no"} }

func TestAMessageStaysOneLine(t *testing.T) {
	var b strings.Builder
	p := &Printer{W: &b, Level: Normal}
	p.Fail(exit.Usage("bad \x1b[31m name\nholdfast: forged", "try\nthis"))
	assert.Equal(t, b.String(), "holdfast: bad \\x1b[31m name\\nholdfast: forged\nhint: try\\nthis\n", "the text")
	// What turns the text around it, hides in it or breaks the line is visible; letters are not touched.
	text, want := "a\u202eb\u200bc\u2028d\U000e0001 é 日本 🔒", `a\u202eb\u200bc\u2028d\U000e0001 é 日本 🔒`
	assert.Equal(t, OneLine(text), want, "the text")
}
