package kit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// Child is this program, started again as another process.
type Child struct {
	Name string

	cmd   *exec.Cmd
	tell  io.WriteCloser // its standard input: open as long as this process runs
	ended chan struct{}  // closed when it has ended, after its last line
	err   error          // how; read after ended

	mu      sync.Mutex
	said    []string
	changed chan struct{}
}

// Start starts this program as a child. It prints the child's output, with the child's
// name before each line. When ctx ends, the child is killed.
func Start(ctx context.Context, name string, args ...string) (*Child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, append([]string{"child", name}, args...)...)
	tell, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	lines, out := io.Pipe()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &Child{Name: name, cmd: cmd, tell: tell, ended: make(chan struct{}), changed: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		out.Close()
	}()
	go c.listen(lines)
	return c, nil
}

func (c *Child) listen(lines io.Reader) {
	defer close(c.ended)
	for in := bufio.NewScanner(lines); in.Scan(); {
		fmt.Printf("%s: %s\n", c.Name, in.Text())
		c.mu.Lock()
		c.said = append(c.said, in.Text())
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
	}
}

// Heard waits until the child has printed a line that contains text.
func (c *Child) Heard(ctx context.Context, text string) error {
	for n := 0; ; {
		c.mu.Lock()
		said, changed := c.said[n:], c.changed
		c.mu.Unlock()
		for _, line := range said {
			if strings.Contains(line, text) {
				return nil
			}
		}
		n += len(said)
		select {
		case <-changed:
		case <-c.ended:
			return fmt.Errorf("%s ended before it said %q", c.Name, text)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// FirstToPrint waits until a child has printed a line that contains text, and returns that child.
func FirstToPrint(ctx context.Context, text string, children ...*Child) (*Child, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		child *Child
		err   error
	}
	heard := make(chan answer, len(children))
	for _, c := range children {
		go func() { heard <- answer{c, c.Heard(ctx, text)} }()
	}
	var failed error
	for range children {
		a := <-heard
		if a.err == nil {
			return a.child, nil
		}
		failed = a.err
	}
	return nil, failed
}

// Tell sends the child a command, which it reads with [Told].
func (c *Child) Tell(order string) error {
	_, err := fmt.Fprintln(c.tell, order)
	return err
}

// Kill ends the child as a crash would, and waits for its end.
func (c *Child) Kill() error {
	err := c.cmd.Process.Kill()
	<-c.ended
	return err
}

// End asks the child to end, and waits until it has.
func (c *Child) End() error {
	c.tell.Close()
	return c.Wait()
}

// Wait waits for the child's end. If the child has failed, it returns an error.
func (c *Child) Wait() error {
	<-c.ended
	c.tell.Close()
	if c.err != nil {
		return fmt.Errorf("%s: %w", c.Name, c.err)
	}
	return nil
}

// StartAll starts a child for each name.
func StartAll(ctx context.Context, names ...string) ([]*Child, error) {
	children := make([]*Child, 0, len(names))
	for _, name := range names {
		c, err := Start(ctx, name)
		if err != nil {
			return nil, err
		}
		children = append(children, c)
	}
	return children, nil
}

// Each starts a child for each name, and waits for all of them.
func Each(ctx context.Context, names ...string) error {
	children, err := StartAll(ctx, names...)
	if err != nil {
		return err
	}
	for _, c := range children {
		err = errors.Join(err, c.Wait())
	}
	return err
}
