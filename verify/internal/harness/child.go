//go:build unix

package harness

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Child is the test binary as a process of its own. It says line by line what happens to
// it, obeys lines, and can be stopped and killed.
type Child struct {
	process *childproc.Process
	says    chan string
	heard   []string // lines that nobody asked for yet
}

// StartChild runs the test binary with more in its environment. The child ends with
// the test, and with this process.
func StartChild(t testing.TB, env ...string) *Child {
	t.Helper()
	cmd := exec.Command(os.Args[0]) //nolint:gosec,noctx // this very binary, which ends with the test
	cmd.Env = append(os.Environ(), env...)
	p := &Child{says: make(chan string, 64)}
	var err error
	p.process, err = childproc.Start(cmd, nil, func(line []byte) { p.says <- string(line) },
		func(_ error, stderr string) { fmt.Fprint(os.Stderr, stderr) })
	assert.Must(t, err)
	t.Cleanup(p.process.Destroy)
	return p
}

// Hear waits for the line that begins with the word and answers the rest.
func (p *Child) Hear(t testing.TB, word string) string {
	t.Helper()
	for i := 0; ; i++ {
		if i == len(p.heard) {
			p.heard = append(p.heard, redistest.Next(t, "the child's "+word, p.says))
		}
		if first, rest, _ := strings.Cut(p.heard[i], " "); first == word {
			p.heard = slices.Delete(p.heard, i, i+1)
			return rest
		}
	}
}

// Token is Hear for a token.
func (p *Child) Token(t testing.TB, word string) uint64 {
	t.Helper()
	text := p.Hear(t, word)
	token, err := strconv.ParseUint(text, 10, 64)
	assert.MustTrue(t, err == nil, "the child says: %s %s", word, text)
	return token
}

// Order tells the child a line.
func (p *Child) Order(line string) { p.process.Tell(line) }

// Kill is SIGKILL, and does not wait.
func (p *Child) Kill() { _ = p.process.Kill() }

// Die is SIGKILL; it returns when the process is gone.
func (p *Child) Die() {
	p.Kill()
	<-p.process.Ended()
}

// Stop is SIGSTOP; it returns when the process has stopped: until then it might
// run on.
func (p *Child) Stop(t testing.TB) {
	t.Helper()
	assert.Must(t, p.process.Stop())
	var status syscall.WaitStatus
	_, err := syscall.Wait4(p.process.ID(), &status, syscall.WUNTRACED, nil)
	assert.MustTrue(t, err == nil && status.Stopped(), "the child did not stop: %v, %v", status, err)
}

// Resume is SIGCONT.
func (p *Child) Resume() { _ = p.process.Continue() }
