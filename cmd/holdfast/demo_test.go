//go:build unix

package main

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
		cmd := newDemoCommand()
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

func TestUTF8Locale(t *testing.T) {
	for _, test := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"LANG": "en_US.UTF-8"}, true},
		{map[string]string{"LANG": "C.utf8"}, true},
		{map[string]string{"LANG": "C"}, false},
		{map[string]string{"LANG": "en_US.UTF-8", "LC_ALL": "C"}, false},
		{map[string]string{"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}, true},
		{map[string]string{"LC_CTYPE": "C", "LC_ALL": "", "LANG": "en_US.UTF-8"}, false},
	} {
		assert.Equal(t, utf8Locale(func(name string) string { return test.env[name] }), test.want, "with %v", test.env)
	}
}
