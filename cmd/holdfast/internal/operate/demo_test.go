//go:build unix

package operate

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/commandline"
)

// What the demo does is tested where it is done, in internal/demo.

func TestDemoRefusesWhatItCannotDo(t *testing.T) {
	for _, test := range []struct {
		args string
		want string
	}{
		{"--workers 1", "--workers 1: it must be from 2 to 64"},
		{"--duration 0.5", "--duration 500ms: it must be from 1s to 10m"},
		{"--duration 1h", "--duration 1h0m0s: it must be from 1s to 10m"},
		{"--server etcd", `--server "etcd": write auto, redis-server, valkey-server or embedded`},
		{"now", `demo takes no arguments: "now" is one too many`},
	} {
		cmd := NewDemo()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(strings.Fields(test.args))
		cmd.SetOut(io.Discard)
		err := cmd.Execute()
		if exit.Of(err) != exit.CodeUsage || err.Error() != test.want || exit.HintOf(err) == "" {
			t.Errorf("demo %s: code %d, %v (hint %q), want %q with a hint",
				test.args, exit.Of(err), err, exit.HintOf(err), test.want)
		}
	}
}

func TestDemoNamesTheSignalThatEndedIt(t *testing.T) {
	ctx, stop := commandline.Signalled(t.Context())
	defer stop()
	assert.Must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	<-ctx.Done()
	var by commandline.SignalError
	err := context.Cause(ctx)
	assert.True(t, errors.As(err, &by) && by.Signal == syscall.SIGHUP, "the cause is %v, want SIGHUP", err)
}
