package demo

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

// process is a worker process, as the demo sees it.
type process struct {
	cmd    *exec.Cmd
	orders io.WriteCloser
	stderr bytes.Buffer // complete once the process has ended
	ended  chan struct{}
}

// startProcess starts a worker process. It calls hear for each event that the process
// reports, and then, once, over with how the process ended and what it wrote to its standard
// error.
//
// Linux ends the process when the thread that started it ends: the caller keeps that thread,
// see [runtime.LockOSThread].
func startProcess(
	cmd *exec.Cmd, a assignment, hear func(event), over func(err error, stderr string),
) (*process, error) {
	first, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr = &p.stderr
	detach(cmd)
	if p.orders, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a worker: %w", err)
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil { // else a kill has cut the line off
				hear(e)
			}
		}
		err := cmd.Wait()
		over(err, strings.TrimSpace(p.stderr.String()))
	}()
	p.tell(string(first))
	return p, nil
}

// tell gives the process an order. A process that has just ended does not take it, which its
// end will explain.
func (p *process) tell(order string) { _, _ = io.WriteString(p.orders, order+"\n") }

// kill is SIGKILL. It returns at once, without an error if the process has ended.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// destroy ends the process, whatever it does, and returns when it is gone.
func (p *process) destroy() {
	_ = p.kill() // the end of its input ends it, too
	_ = p.orders.Close()
	<-p.ended
}
