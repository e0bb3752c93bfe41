//go:build unix

package proc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// guardianWord is the first argument of a guardian, and guardianForm the second: if the
// program's file was replaced while we waited, the new program refuses to be our guardian.
const (
	guardianWord = "guardian"
	guardianForm = "1"
)

// order is what a wrapper tells its guardian, as a line of JSON.
type order struct {
	Do   string // start, until, signal, tell, kill or end
	Tell int64  `json:",omitempty"` // instants, in ns of the machine's clock: see instant
	Kill int64  `json:",omitempty"`

	Number int `json:",omitempty"` // of a signal

	Path   []byte   `json:",omitempty"` // the rest is for start; bytes, since JSON would not keep all of them in texts
	Args   [][]byte `json:",omitempty"`
	Env    [][]byte `json:",omitempty"`
	Group  int      `json:",omitempty"` // the process group to join; 0: one of its own
	Null   bool     `json:",omitempty"` // standard input is the null device
	All    bool     `json:",omitempty"` // see Guard
	Grace  int64    `json:",omitempty"`
	Format string   `json:",omitempty"`
}

func toBytes(texts []string) [][]byte {
	list := make([][]byte, len(texts))
	for i, text := range texts {
		list[i] = []byte(text)
	}
	return list
}

func toTexts(list [][]byte) []string {
	texts := make([]string, len(list))
	for i, text := range list {
		texts[i] = string(text)
	}
	return texts
}

// report is what a guardian tells its wrapper.
type report struct {
	Did    string // started, failed, ended, gone or stopped
	PID    int    `json:",omitempty"`
	Errno  int    `json:",omitempty"`
	Status uint32 `json:",omitempty"` // of wait4
}

// Guardian is a guardian that runs, and has no command yet.
type Guardian struct {
	process *exec.Cmd
	left    chan struct{} // closed once the guardian was waited for
	orders  *os.File
	reports *os.File
	sending sync.Mutex // one order after the other
}

// Guarded is a command with a guardian.
type Guarded struct {
	*Guardian
	group bool
	pid   int
	done  chan struct{}
	rest  chan struct{} // closed once gone

	mu      sync.Mutex
	code    int
	ended   bool // done is closed
	gone    bool
	stopped bool
	closing bool
	err     error
}

var errGuardian = errors.New("the guardian of the command was killed")

// answering is how long a guardian may take to answer an order to kill. One that is
// stopped or stuck is killed then, and the wrapper does its work.
const answering = 250 * time.Millisecond

// StartGuarded runs the command under a guardian, with this process's standard input, output
// and error. It uses the guardian that waits for a command, if there is one. While the
// command runs, what a dead guardian leaves behind becomes ours (Linux).
func StartGuarded(waiting *Guardian, spec Spec, guard Guard) (Command, error) {
	if waiting != nil {
		if g, err := waiting.begin(spec, guard); !errors.Is(err, errGuardian) {
			return g, err
		}
	}
	fresh, err := Prepare(guard.Keep)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoGuardian, err)
	}
	return fresh.begin(spec, guard)
}

// begin has the guardian start the command.
func (w *Guardian) begin(spec Spec, guard Guard) (Command, error) {
	o := order{
		Do: "start", Path: []byte(spec.Path), Args: toBytes(spec.Args), Env: toBytes(spec.Env), Null: spec.Stdin == nil,
		Grace: int64(guard.Grace), Format: guard.Format, Number: Number(guard.Signal), All: guard.All,
	}
	o.Tell, o.Kill = guard.Limits.instants()
	if !spec.Group {
		o.Group, _ = unix.Getpgid(0) // of ourselves: there is one
	}
	ours.awaitLeaving()
	if os.Getpid() == 1 { // of a container: what commands leave behind is ours, and nobody else waits for it
		reapLeft()
	}
	adopt(true)
	awake := make(chan struct{})
	go w.keepAwake(awake, o.Kill)
	w.send(o)
	lines := bufio.NewScanner(w.reports)
	var r report
	if lines.Scan() {
		json.Unmarshal(lines.Bytes(), &r) //nolint:errcheck // then it says nothing
	}
	close(awake)
	if r.Did != "started" {
		w.Dismiss()
		<-w.left
		// It may have died between the command's start and the report. Then it is not started once more.
		if r.Did != "failed" {
			if code, ran := killStrays(0, false); ran {
				g := newGuarded(w, spec, 0)
				g.err = errGuardian
				g.end(code)
				g.goneNow()
				return g, nil
			}
		}
		adopt(false)
		if r.Did == "failed" {
			return nil, &fs.PathError{Op: "fork/exec", Path: spec.Path, Err: syscall.Errno(r.Errno)}
		}
		return nil, errGuardian
	}
	g := newGuarded(w, spec, r.PID)
	go g.listen(lines)
	return g, nil
}

func newGuarded(w *Guardian, spec Spec, pid int) *Guarded {
	return &Guarded{Guardian: w, group: spec.Group, pid: pid, done: make(chan struct{}), rest: make(chan struct{})}
}

// keepAwake wakes the guardian, should somebody stop it before it can tell that the command
// runs. When the lease is over, it kills it, and with it the command.
func (w *Guardian) keepAwake(done <-chan struct{}, kill int64) {
	tick := time.NewTicker(answering)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			w.process.Process.Signal(syscall.SIGCONT) //nolint:errcheck // it may have ended
			if int64(instant()) >= kill {
				w.process.Process.Kill() //nolint:errcheck // it may have ended
			}
		}
	}
}

// Prepare starts a guardian that waits for a command. It keeps the file open, unless that is nil.
func Prepare(keep *os.File) (*Guardian, error) {
	self, err := executable()
	if err != nil {
		return nil, err
	}
	toRead, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer toRead.Close() //nolint:errcheck // nothing was written
	reports, toWrite, err := os.Pipe()
	if err != nil {
		orders.Close() //nolint:errcheck // nothing was written
		return nil, err
	}
	defer toWrite.Close() //nolint:errcheck // nothing was written
	w := &Guardian{orders: orders, reports: reports, left: make(chan struct{})}
	if err := w.launch(self, toRead, toWrite, keep); err != nil {
		w.closePipes()
		return nil, err
	}
	return w, nil
}

// Dismiss ends a guardian that has no command. It waits a moment for that: a run around this one would take the
// guardian for something that its command has left behind.
func (w *Guardian) Dismiss() {
	w.process.Process.Kill() //nolint:errcheck // it may have ended
	w.closePipes()
	select {
	case <-w.left:
	case <-time.After(answering):
	}
}

func (w *Guardian) closePipes() {
	w.orders.Close()  //nolint:errcheck // the guardian ends with it
	w.reports.Close() //nolint:errcheck // it was read only
}

// executable is the file of this program. What runs counts, even if the file was replaced.
func executable() (string, error) {
	const link = "/proc/self/exe"
	if _, err := os.Readlink(link); err == nil {
		return link, nil
	}
	return os.Executable()
}

// guardianEnvironment has nothing of ours: others can read it, and the guardian needs none of it. The command's
// comes with the order to start. A test adds to it.
var guardianEnvironment = []string{}

// launch starts the guardian. It reads orders and writes reports on descriptors that are
// free here: so those that we have inherited reach the command under their own numbers.
func (w *Guardian) launch(self string, toRead, toWrite, keep *os.File) error {
	in, err := duplicate(toRead)
	if err != nil {
		return err
	}
	defer syscall.Close(in) //nolint:errcheck // it is a copy
	out, err := duplicate(toWrite)
	if err != nil {
		return err
	}
	defer syscall.Close(out) //nolint:errcheck // it is a copy
	args := []string{os.Args[0], guardianWord, guardianForm, strconv.Itoa(in), strconv.Itoa(out)}
	if keep != nil {
		kept, err := duplicate(keep)
		if err != nil {
			return err
		}
		defer syscall.Close(kept) //nolint:errcheck // it is a copy
		args = append(args, strconv.Itoa(kept))
	}
	w.process = &exec.Cmd{
		Path: self, Args: args,
		Env:   guardianEnvironment,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		// In a group of its own, a terminal and a signal to our group do not reach it. It
		// stays in our session: a group whose parent is in another session cannot be
		// stopped by Ctrl-Z.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := ours.start(w.process); err != nil {
		return err
	}
	go func() {
		w.process.Wait() //nolint:errcheck // its code says nothing
		ours.forget(w.process.Process.Pid)
		close(w.left)
	}()
	return nil
}

// leave notes that a guardian ends. What its command has left behind becomes init's, unless
// we adopt.
func (c *children) leave(w *Guardian) {
	time.AfterFunc(time.Second, func() { w.process.Process.Kill() }) //nolint:errcheck // it may have ended
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaving = w.left
}

// awaitLeaving waits until the guardian before has ended.
func (c *children) awaitLeaving() {
	c.mu.Lock()
	leaving := c.leaving
	c.mu.Unlock()
	if leaving != nil {
		<-leaving
	}
}

// duplicate is a copy of a descriptor that a process that we start inherits.
func duplicate(f *os.File) (int, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var fd int
	var failed error
	if err := conn.Control(func(old uintptr) { fd, failed = unix.FcntlInt(old, unix.F_DUPFD, 3) }); err != nil {
		return 0, err
	}
	return fd, failed
}

// send gives the guardian an order. It does not wait for long: a guardian that does not
// read is stopped or dead. It wakes one that is stopped. Only the order to start, which may
// be larger than a pipe, waits until it is read: keepAwake ends that.
func (w *Guardian) send(o order) {
	line, err := json.Marshal(o)
	if err != nil {
		return
	}
	w.sending.Lock()
	defer w.sending.Unlock()
	w.process.Process.Signal(syscall.SIGCONT) //nolint:errcheck // it may have ended
	if o.Do != "start" {
		w.orders.SetWriteDeadline(time.Now().Add(answering)) //nolint:errcheck // a pipe has deadlines
	}
	w.orders.Write(append(line, '\n')) //nolint:errcheck // listen notices that it is dead
}

// listen takes what the guardian reports, until it has ended.
func (g *Guarded) listen(lines *bufio.Scanner) {
	defer g.reports.Close() //nolint:errcheck // it was read only
	for lines.Scan() {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			break
		}
		g.mu.Lock()
		switch r.Did {
		case "ended":
			g.end(statusCode(syscall.WaitStatus(r.Status)))
		case "gone":
			g.goneNow()
		case "stopped":
			g.stopped = true
		}
		g.mu.Unlock()
	}
	g.mu.Lock()
	closing := g.closing || g.gone && g.ended
	g.mu.Unlock()
	if closing {
		return
	}
	// The guardian is dead. On Linux, the kernel has killed the command with it, and has
	// given us what that has started.
	g.process.Process.Kill() //nolint:errcheck // it has ended
	<-g.left
	code, _ := killStrays(g.pid, g.group)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ended {
		g.err = errGuardian
	}
	g.end(code)
	g.goneNow()
}

// end notes the exit code of the command. The caller holds mu.
func (g *Guarded) end(code int) {
	if !g.ended {
		g.ended, g.code = true, code
		close(g.done)
	}
}

// goneNow notes that nothing is left of the command. The caller holds mu.
func (g *Guarded) goneNow() {
	if !g.gone {
		g.gone = true
		close(g.rest)
	}
}

// Rest is closed when the command has ended and, on Linux, all that it has started; elsewhere, its group.
func (g *Guarded) Rest() <-chan struct{} { return g.rest }

// Left is what the command leaves behind. It is below the guardian until that ends; elsewhere than on Linux, the
// command's group tells.
func (g *Guarded) Left() []Process {
	switch {
	case g.Gone():
		return nil
	case adopts:
		return processesBelow(g.process.Process.Pid)
	case g.group:
		return groupOf(g.pid)
	}
	return nil
}

// PID is the command's process id.
func (g *Guarded) PID() int { return g.pid }

// Done is closed when the command has ended.
func (g *Guarded) Done() <-chan struct{} { return g.done }

// Code is the exit code of a command that has ended.
func (g *Guarded) Code() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.code
}

// Signal has the guardian send sig to the command, or to its group. The guardian is its
// parent, so it knows whether the process id is still the command's.
func (g *Guarded) Signal(sig os.Signal) error { return g.pass("signal", sig) }

// Tell begins to end the command. When it has ended, the guardian tells the rest, too.
func (g *Guarded) Tell(sig os.Signal) error { return g.pass("tell", sig) }

func (g *Guarded) pass(do string, sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return errors.New("no such signal here: " + sig.String())
	}
	g.send(order{Do: do, Number: int(s)})
	return nil
}

// Kill ends the command and what it has started. If the guardian does not answer in time,
// Kill ends the guardian, and with it the rest.
func (g *Guarded) Kill() {
	g.send(order{Do: "kill"})
	killBelow(g.process.Process.Pid)
	time.AfterFunc(answering, func() {
		g.mu.Lock()
		answered := g.ended || g.closing
		g.mu.Unlock()
		if !answered {
			g.process.Process.Kill() //nolint:errcheck // it may have ended
		}
	})
}

// Gone reports whether the command has ended and, on Linux, all that it has started;
// elsewhere, its group.
func (g *Guarded) Gone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended && g.gone
}

// Until gives the guardian later limits.
func (g *Guarded) Until(l Limits) {
	o := order{Do: "until"}
	o.Tell, o.Kill = l.instants()
	g.send(o)
}

// instants are the limits by the machine's clock. It is read first: if we are stopped
// between the two readings, the instants are too early, which is safe.
func (l Limits) instants() (tell, kill int64) {
	machine := instant()
	here := clock.Now()
	return int64(machine + l.Tell - here), int64(machine + l.Kill - here)
}

// Stopped reports whether the guardian has begun to end the command by itself.
func (g *Guarded) Stopped() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stopped
}

// Err tells that the guardian died before the command had ended.
func (g *Guarded) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Close ends the guardian. What the command has left behind is not ours then.
func (g *Guarded) Close() {
	g.mu.Lock()
	again := g.closing
	g.closing = true
	g.mu.Unlock()
	if again {
		return
	}
	adopt(false)
	g.send(order{Do: "end"})
	g.orders.Close() //nolint:errcheck // the guardian ends with it
	ours.leave(g.Guardian)
}

// statusCode is the exit code that a shell gives for a status of wait4.
func statusCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return CodeSignal + int(status.Signal())
	}
	return status.ExitStatus()
}
