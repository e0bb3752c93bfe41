//go:build unix

package commandline_test

import (
	"context"
	"os/signal"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/commandline"
)

// What nohup ignores stays ignored. The signal comes first, so that it would be the cause.
func TestAnIgnoredSignalStaysIgnored(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	ctx, stop := commandline.Signalled(t.Context())
	defer stop()
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		assert.NoError(t, syscall.Kill(syscall.Getpid(), sig))
	}
	<-ctx.Done()
	assert.Equal(t, context.Cause(ctx), error(commandline.SignalError{Signal: syscall.SIGQUIT}), "the cause")
}
