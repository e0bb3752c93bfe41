//go:build unix

package harness

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Child is the test binary as a process of its own. It says line by line what happens to
// it, obeys lines, and can be stopped and killed.
type Child struct {
	cmd    *exec.Cmd
	orders *bufio.Writer
	says   chan string
	heard  []string // lines that nobody asked for yet
}

// StartChild runs the test binary with more in its environment. The child ends with
// the test, and with this process, whose pipe it reads.
func StartChild(t testing.TB, env ...string) *Child {
	t.Helper()
	cmd := exec.Command(os.Args[0]) //nolint:gosec,noctx // this very binary, which ends with the test
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	assert.Must(t, err)
	out, err := cmd.StdoutPipe()
	assert.Must(t, err)
	assert.Must(t, cmd.Start())
	p := &Child{cmd: cmd, orders: bufio.NewWriter(in), says: make(chan string, 64)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.says <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		p.Kill()
		<-read
		_ = cmd.Wait() // killed
	})
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
func (p *Child) Order(t testing.TB, line string) {
	t.Helper()
	_, _ = fmt.Fprintln(p.orders, line) // Flush says what failed
	assert.Must(t, p.orders.Flush())
}

// Kill is SIGKILL, and does not wait.
func (p *Child) Kill() { _ = p.cmd.Process.Kill() }

// Die is SIGKILL; it returns when the process is gone.
func (p *Child) Die(t testing.TB) {
	t.Helper()
	p.Kill()
	var status syscall.WaitStatus
	_, err := syscall.Wait4(p.cmd.Process.Pid, &status, 0, nil)
	assert.MustTrue(t, err == nil && status.Signaled(), "the child did not die: %v, %v", status, err)
}

// Stop is SIGSTOP; it returns when the process has stopped: until then it might
// run on.
func (p *Child) Stop(t testing.TB) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	assert.MustTrue(t, err == nil && status.Stopped(), "the child did not stop: %v, %v", status, err)
}

// Resume is SIGCONT.
func (p *Child) Resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }
