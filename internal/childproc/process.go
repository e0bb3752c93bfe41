// Package childproc starts a process that is told its orders on its standard input and reports
// on its standard output, a line each: the workers of the demo and the clients of the fault
// suite. The program that started it can stop, continue and kill it.
package childproc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// maxLine is the longest line that a process may report, in bytes.
const maxLine = 1 << 20

// Process is a process, as the program that started it sees it.
type Process struct {
	cmd    *exec.Cmd
	orders io.WriteCloser
	stderr bytes.Buffer // complete once the process has ended
	ended  chan struct{}
}

// Start starts a process and tells it config, as a line of JSON; nil is not told. Start calls hear for each line
// that the process reports. Then it calls gone, once, with how the process ended and what it
// wrote to its standard error. A kill may cut off the last line. The process ends with this one,
// see [StartTied].
func Start(
	cmd *exec.Cmd, config any, hear func(line []byte), gone func(err error, stderr string),
) (*Process, error) {
	first, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr = &p.stderr
	Detach(cmd)
	if p.orders, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := StartTied(cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	go p.listen(out, hear, gone)
	if config != nil {
		p.Tell(string(first))
	}
	return p, nil
}

func (p *Process) listen(out io.Reader, hear func(line []byte), gone func(err error, stderr string)) {
	defer close(p.ended)
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	for lines.Scan() {
		hear(lines.Bytes())
	}
	err := p.cmd.Wait()
	gone(err, p.Stderr())
}

// Tell gives the process an order. A process that has just ended does not take it,
// which its end will explain.
func (p *Process) Tell(order string) { _, _ = io.WriteString(p.orders, order+"\n") }

// ID is the number of the process.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Ended is closed when the process has ended, and gone has returned.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Stderr is what the process wrote to its standard error, once it has ended.
func (p *Process) Stderr() string { return strings.TrimSpace(p.stderr.String()) }

// Stop is SIGSTOP: the process cannot refuse it, or notice.
func (p *Process) Stop() error { return stop(p.cmd.Process) }

// Continue is SIGCONT.
func (p *Process) Continue() error { return resume(p.cmd.Process) }

// Kill is SIGKILL. It returns at once, without an error if the process has ended.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Destroy ends the process, whatever it does, and returns when it is gone.
func (p *Process) Destroy() {
	_ = p.Kill() // the end of its input ends it, too
	_ = p.orders.Close()
	<-p.ended
}
