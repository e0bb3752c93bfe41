//go:build unix

package childproc_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/childproc"
)

// TestMain is the child, too: it says each order back, and ends with its input.
func TestMain(m *testing.M) {
	if os.Getenv("CHILDPROC_ECHO") == "" {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, "hello from the child")
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		fmt.Println(orders.Text())
	}
}

// A child hears its configuration first, and then its orders. A stopped child can be killed.
func TestChildTakesOrdersAndIsKilled(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CHILDPROC_ECHO=1")
	lines := make(chan string, 10)
	ends := make(chan string, 2)
	p, err := childproc.Start(cmd, map[string]int{"number": 7},
		func(line []byte) { lines <- string(line) },
		func(err error, stderr string) { ends <- fmt.Sprint(err, "; ", stderr) })
	assert.Must(t, err)
	p.Tell("go on")
	for _, want := range []string{`{"number":7}`, "go on"} {
		assert.Equal(t, <-lines, want, "the child heard")
	}
	for _, send := range []func() error{p.Stop, p.Continue, p.Stop, p.Kill} {
		assert.Must(t, send())
	}
	<-p.Ended()
	if got := <-ends; !strings.Contains(got, "killed") || !strings.Contains(got, "hello from the child") {
		t.Errorf("the child's end was told as %q; want the signal and its standard error", got)
	}
	assert.NoError(t, p.Kill())
	p.Destroy()
	assert.Equal(t, len(ends), 0, "the child's end was told twice")
}

// A program that is not there is an error with its name.
func TestMissingProgram(t *testing.T) {
	_, err := childproc.Start(exec.Command("/nowhere/holdfast"), nil, nil, nil)
	assert.True(t, err != nil && strings.Contains(err.Error(), "/nowhere/holdfast"),
		"got %v; want an error that names the program", err)
}
