//go:build unix

package proc

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// IsGuardian reports whether the arguments are those of a guardian.
func IsGuardian(args []string) bool {
	return (len(args) == 5 || len(args) == 6) && args[1] == guardianWord && args[2] == guardianForm
}

// guardian is the process between a wrapper and its command. It is the command's parent.
// On Linux, it also becomes the parent of all that the command leaves behind.
//
//	watching ──(the wrapper is dead, or the Tell limit has passed)──▶ stopping ──(time over)──▶ killing
//
// It ends the command by the rules of the wrapper, a little later than the wrapper would:
// while the wrapper works, the guardian never has to.
type guardian struct {
	out     *os.File
	wrapper int
	message func(format, text string)

	start    order // what to run
	pid      int
	tellAt   int64 // instants
	killAt   int64
	ended    bool // the command has
	gone     bool // and the rest, too
	alone    bool // the wrapper is dead
	stopping bool
	told     bool // the rest was told, after the command's end
	killing  bool
	giveUp   int64         // when killing has taken too long
	said     chan struct{} // closed once the message is written; nil: there is none
}

// lingers is how long a guardian goes on killing. What is left then cannot be killed: it
// belongs to another user, or hangs in the kernel.
const lingers = 10 * time.Second

// speaks is how long a guardian waits at its end for its message, if nobody reads standard error.
const speaks = 2 * time.Second

// RunGuardian is the guardian's process, from beginning to end. message writes one in a
// format that the wrapper named. It returns the exit code.
func RunGuardian(args []string, message func(format, text string)) int {
	runtime.LockOSThread() // the command dies with the thread that started it
	in, err := strconv.Atoi(args[3])
	if err != nil {
		return CodeNotExecutable
	}
	out, err := strconv.Atoi(args[4])
	if err != nil {
		return CodeNotExecutable
	}
	CloseOnExec(in)
	CloseOnExec(out)
	if len(args) > 5 { // a file that we keep open, and the command does not get
		kept, err := strconv.Atoi(args[5])
		if err != nil {
			return CodeNotExecutable
		}
		CloseOnExec(kept)
	}
	nameSelf()
	g := &guardian{out: os.NewFile(uintptr(out), "reports"), wrapper: os.Getppid(), message: message}
	return g.run(os.NewFile(uintptr(in), "orders"))
}

// run does what the wrapper orders, until the command needs no guardian any more.
func (g *guardian) run(in *os.File) int {
	// Caught signals have their default again in the command; ignored ones do not. Those
	// that were ignored when we were started stay so.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded()...)
	orders := make(chan order)
	go readOrders(in, orders)
	g.start = <-orders
	if g.start.Do != "start" {
		return CodeNotExecutable // the wrapper is dead
	}
	g.tellAt, g.killAt = g.start.Tell, g.start.Kill
	adopt(true)
	if err := g.startCommand(); err != nil {
		var errno syscall.Errno
		errors.As(err, &errno)
		g.report(report{Did: "failed", Errno: int(errno)})
		return CodeNotExecutable
	}
	g.report(report{Did: "started", PID: g.pid})
	letGo()
	ends := make(chan end)
	go reap(ends)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case o, ok := <-orders:
			switch {
			case !ok:
				orders = nil
				g.bereaved()
			case o.Do == "end":
				return 0
			default:
				g.obey(o)
			}
		case e, ok := <-ends:
			switch {
			case !ok:
				ends = nil
				g.emptied()
			case e.pid == g.pid:
				g.ended = true
				g.report(report{Did: "ended", Status: uint32(e.status)})
			}
		case sig := <-signals:
			g.forward(sig)
		case <-timer.C:
		}
		if g.over() {
			g.finishSaying()
			return 0
		}
		timer.Reset(g.check())
	}
}

// forwarded are the signals that a guardian passes on to the wrapper: for the command, the
// guardian is the parent, and so perhaps the one to speak to.
func forwarded() []os.Signal {
	list := append(Signals(), syscall.SIGPIPE, syscall.SIGALRM)
	if stop, ok := StopSignal(); ok {
		list = append(list, stop)
	}
	return list
}

func readOrders(in *os.File, orders chan<- order) {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		var o order
		if err != nil || json.Unmarshal(line, &o) != nil {
			close(orders)
			return
		}
		orders <- o
	}
}

func (g *guardian) startCommand() error {
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	if g.start.Null {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		defer null.Close() //nolint:errcheck // it was read only
		files[0] = null
	}
	attr := &syscall.SysProcAttr{Setpgid: true, Pgid: g.start.Group}
	dieWithParent(attr)
	p, err := os.StartProcess(string(g.start.Path), toTexts(g.start.Args), &os.ProcAttr{
		Env: toTexts(g.start.Env), Files: files, Sys: attr,
	})
	if err != nil {
		return err
	}
	g.pid = p.Pid
	return nil
}

// letGo closes what the command has and we do not need: who reads the command's output
// waits until nobody can write any more. Standard error is kept for a message; in the
// background, a write to a terminal could stop us.
func letGo() {
	signal.Ignore(syscall.SIGTTOU)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close() //nolint:errcheck // nothing was written
	for fd := range 2 {
		unix.Dup2(int(null.Fd()), fd) //nolint:errcheck // then it stays open
	}
}

// end is the end of one process below us.
type end struct {
	pid    int
	status syscall.WaitStatus
}

// reap waits for every child: the command, and on Linux those that lost their parent. It
// closes ends when none is left.
func reap(ends chan<- end) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == nil:
			ends <- end{pid, status}
		case !errors.Is(err, syscall.EINTR):
			close(ends)
			return
		}
	}
}

func (g *guardian) report(r report) {
	if line, err := json.Marshal(r); err == nil {
		g.out.Write(append(line, '\n')) //nolint:errcheck // readOrders notices that the wrapper is dead
	}
}

// bereaved begins to end the command, because the wrapper is dead. What a command has left
// behind that ended by itself goes on, unless the lock was kept for it.
func (g *guardian) bereaved() {
	g.alone = true
	if g.ended && !g.stopping && !g.start.All {
		return
	}
	now := int64(instant())
	g.killAt = min(g.killAt, now+g.start.Grace)
	if !g.gone {
		g.say("holdfast was killed: its guardian stops the command")
	}
	g.stop()
}

// say writes a message and does not wait: whoever reads standard error may be slow, and the
// command must end.
func (g *guardian) say(text string) {
	g.said = make(chan struct{})
	go func() {
		defer close(g.said)
		g.message(g.start.Format, text)
	}()
}

// finishSaying waits for the message, which the end of this process would cut off.
func (g *guardian) finishSaying() {
	if g.said == nil {
		return
	}
	select {
	case <-g.said:
	case <-time.After(speaks):
	}
}

// emptied notes that nothing is left below us. Only Linux gives us the processes that lost
// their parent; elsewhere check looks at the group.
func (g *guardian) emptied() {
	if adopts || !g.ownGroup() {
		g.note()
	}
}

func (g *guardian) note() {
	g.gone = true
	g.report(report{Did: "gone"})
}

func (g *guardian) ownGroup() bool { return g.start.Group == 0 }

// over reports whether the guardian has nothing to do any more.
func (g *guardian) over() bool {
	switch {
	case !g.alone:
		return false
	case g.ended && !g.stopping:
		return true
	}
	return g.gone || g.killing && int64(instant()) >= g.giveUp
}

func (g *guardian) obey(o order) {
	switch o.Do {
	case "until":
		g.tellAt, g.killAt = o.Tell, o.Kill
	case "signal":
		g.send(syscall.Signal(o.Number))
	case "tell":
		g.start.Number = o.Number
		g.stop()
	case "kill":
		g.kill()
	}
}

// forward passes a signal on to the wrapper.
func (g *guardian) forward(sig os.Signal) {
	s, ok := sig.(syscall.Signal)
	if !ok || g.alone || os.Getppid() != g.wrapper {
		return
	}
	switch s {
	case syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGCONT, syscall.SIGWINCH:
	default:
		syscall.Kill(g.wrapper, s) //nolint:errcheck // it may be dead
	}
}

// send sends a signal to the command, or to its group.
func (g *guardian) send(sig syscall.Signal) {
	switch {
	case g.ownGroup() && (!g.ended || !g.gone):
		syscall.Kill(-g.pid, sig) //nolint:errcheck // it may be empty
	case !g.ended:
		syscall.Kill(g.pid, sig) //nolint:errcheck // it may have ended
	}
}

// stop asks the command to end.
func (g *guardian) stop() {
	g.stopping = true
	sig := syscall.Signal(g.start.Number)
	if sig == syscall.SIGKILL {
		g.kill()
		return
	}
	g.send(sig)
	g.send(syscall.SIGCONT)
}

// kill ends the command and all that is below us.
func (g *guardian) kill() {
	if !g.killing {
		g.giveUp = int64(instant() + lingers)
	}
	g.stopping, g.killing = true, true
	g.send(syscall.SIGKILL)
	killBelow(os.Getpid())
}

// check does what this moment asks for. It returns the time until the next check. Timers
// stand still while the machine sleeps, so that is a second at most.
func (g *guardian) check() time.Duration {
	const often, seldom = 5 * time.Millisecond, time.Second
	if g.ended && !adopts && !g.gone && groupEmpty(g.pid) {
		g.note()
	}
	now := int64(instant())
	switch {
	case g.gone, g.ended && !g.stopping && !g.start.All:
		return seldom
	case g.killing, now >= g.killAt:
		if !g.stopping {
			g.report(report{Did: "stopped"})
		}
		g.kill()
		return often
	case !g.stopping && now >= g.tellAt:
		g.report(report{Did: "stopped"})
		g.stop()
	}
	if !g.stopping {
		return min(seldom, time.Duration(g.tellAt-now))
	}
	if g.ended && !g.told {
		// What has outlived the command has perhaps a group of its own, and was not told.
		g.told = true
		tellBelow(os.Getpid(), syscall.Signal(g.start.Number))
	}
	if g.ended {
		return often
	}
	return min(seldom, time.Duration(g.killAt-now))
}
