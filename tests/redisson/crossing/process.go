package crossing

import (
	"cmp"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/tests/redisson/crossing/java"
)

// Settings is the first line that a process is given. Times are in ms; 0 is the default.
type Settings struct {
	Mode         string   `json:"mode"`              // "drive"
	Address      string   `json:"address,omitempty"` // of one server
	Nodes        []string `json:"nodes,omitempty"`   // addresses of a Cluster's nodes
	Sharded      string   `json:"sharded,omitempty"` // sharded pub/sub in a Cluster: AUTO, ON or OFF
	WatchdogMs   int64    `json:"watchdogMs"`        // TTL of a lease that is renewed
	FairWaitMs   int64    `json:"fairWaitMs"`        // how long a waiter of a fair lock is thought alive
	TimeoutMs    int64    `json:"timeoutMs"`         // of a request
	HandOvers    int      `json:"handOvers"`         // of this library: MaxLocalHandOvers
	RetryDelayMs int64    `json:"retryDelayMs"`      // before a request is sent again
}

// Process is a process that is driven line by line: Redisson, or this library. Both take the same
// commands, which Commands.java lists. Commands of one thread run one after the other, and those of
// several threads at the same time.
type Process struct {
	*childproc.Process

	// ID is the first half of what the process writes into the locks that it holds.
	ID string

	mu      sync.Mutex
	last    int
	answers map[int]chan string // by the number of the command
	failed  error               // why there are no more answers
}

// StartJava starts Redisson, and returns once it is connected.
func StartJava(settings Settings) (*Process, error) {
	cmd, err := java.Command()
	if err != nil {
		return nil, err
	}
	return start(cmd, settings)
}

// start starts a process, and returns once it is connected.
func start(cmd *exec.Cmd, settings Settings) (*Process, error) {
	settings.Mode = "drive"
	connected := make(chan string, 1)
	p := &Process{answers: map[int]chan string{0: connected}}
	var err error
	if p.Process, err = childproc.Start(cmd, settings, p.hear, p.gone); err != nil {
		return nil, err
	}
	answer, ok := <-connected
	if !ok {
		return nil, p.failed
	}
	p.ID = strings.TrimPrefix(answer, "ok ")
	return p, nil
}

// hear takes a line of the process: ID ok VALUE, or ID error TEXT.
func (p *Process) hear(line []byte) {
	number, answer, _ := strings.Cut(string(line), " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		return // a kill cut the line off
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.answers[n]; c != nil {
		delete(p.answers, n)
		c <- answer
	}
}

func (p *Process) gone(err error, stderr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = fmt.Errorf("the process has ended: %w: %s", cmp.Or(err, io.EOF), stderr)
	for _, c := range p.answers {
		close(c)
	}
	p.answers = nil
}

// Answer is the answer to a command that may still run.
type Answer struct {
	p       *Process
	command string
	c       chan string
}

// Begin gives the process a command, and does not wait for its answer.
func (p *Process) Begin(thread string, words ...any) *Answer {
	command := strings.TrimSuffix(fmt.Sprintln(words...), "\n")
	a := &Answer{p: p, command: command, c: make(chan string, 1)}
	p.mu.Lock()
	p.last++
	n := p.last
	if p.answers == nil {
		close(a.c)
	} else {
		p.answers[n] = a.c
	}
	p.mu.Unlock()
	p.Tell(fmt.Sprintf("%d %s %s", n, thread, command))
	return a
}

// Done returns a channel that has the answer once it is there.
func (a *Answer) Done() <-chan string { return a.c }

// Wait waits for the answer. An error is what the library said, or that the process has ended.
func (a *Answer) Wait() (string, error) {
	answer, ok := <-a.c
	switch {
	case !ok:
		return "", fmt.Errorf("%s: %w", a.command, a.p.failed)
	case strings.HasPrefix(answer, "ok "):
		return strings.TrimPrefix(answer, "ok "), nil
	}
	return "", fmt.Errorf("%s: %s", a.command, answer)
}
