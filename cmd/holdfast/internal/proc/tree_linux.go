package proc

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adopts says that a process can become the parent of those that lose theirs below it.
const adopts = true

// adopt makes this process the parent of those that lose theirs below it, or ends that.
func adopt(yes bool) {
	var on uintptr
	if yes {
		on = 1
	}
	unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, on, 0, 0, 0) //nolint:errcheck // every Linux that Go runs on has it
}

// nameSelf sets the name that ps and pkill know a guardian by. It is not the wrapper's: who
// kills all processes of one name does not kill both.
func nameSelf() {
	os.WriteFile("/proc/self/comm", []byte("lock-guardian"), 0) //nolint:errcheck // only a name
}

// process is one process, as /proc tells. A process id alone may be another's by the time
// it is used.
type process struct {
	pid, parent int
	zombie      bool
	name        string
	began       string // its start, in ticks since boot
}

// look reads one process.
func look(pid int) (p process, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	// The name may have spaces and parentheses; the last one ends it.
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 20 {
		return p, false
	}
	parent, err := strconv.Atoi(fields[1])
	_, name, _ := strings.Cut(string(stat[:max(end, 0)]), "(")
	return process{pid, parent, fields[0] == "Z" || fields[0] == "X", name, fields[19]}, err == nil
}

// isZombie reports whether a process has ended, and nobody has asked for its exit code.
func isZombie(pid int) bool {
	p, ok := look(pid)
	return ok && p.zombie
}

// below lists the processes below one that run: its children, their children, and so on.
// It is what was there at one moment or another, so that who kills looks again.
func below(root int) []process {
	children := childrenOf
	if _, err := childrenOf(os.Getpid()); err != nil {
		all := byParent()
		children = func(pid int) ([]int, error) { return all[pid], nil }
	}
	var all []process
	for next := []int{root}; len(next) > 0; next = next[1:] {
		pids, _ := children(next[0])
		for _, pid := range pids {
			// A zombie's children have another parent already.
			if p, ok := look(pid); ok && !p.zombie && p.parent == next[0] {
				all = append(all, p)
				next = append(next, pid)
			}
		}
	}
	return all
}

// processesBelow is below, as others may see it.
func processesBelow(root int) (list []Process) {
	for _, p := range below(root) {
		list = append(list, Process{PID: p.pid, name: p.name, began: p.began})
	}
	return list
}

// runs reports whether a process that began then still runs.
func runs(pid int, began string) bool {
	p, ok := look(pid)
	return ok && !p.zombie && p.began == began
}

// childrenOf lists the children of a process. Not every kernel can tell.
func childrenOf(pid int) ([]int, error) {
	task := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, err := os.ReadDir(task)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, thread := range threads {
		text, err := os.ReadFile(task + thread.Name() + "/children")
		if err != nil {
			if thread.Name() == strconv.Itoa(pid) {
				return pids, err
			}
			continue // the thread has ended
		}
		for word := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// byParent reads all processes.
func byParent() map[int][]int {
	all := map[int][]int{}
	names, err := os.ReadDir("/proc")
	if err != nil {
		return all
	}
	for _, name := range names {
		if pid, err := strconv.Atoi(name.Name()); err == nil {
			if p, ok := look(pid); ok {
				all[p.parent] = append(all[p.parent], pid)
			}
		}
	}
	return all
}

// signal sends a signal to the process, and not to a later one with the same id.
func (p process) signal(sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		if !errors.Is(err, unix.ESRCH) {
			syscall.Kill(p.pid, sig) //nolint:errcheck // there is no such call here; it may have ended
		}
		return
	}
	defer syscall.Close(fd) //nolint:errcheck // nothing was written
	if again, ok := look(p.pid); ok && again.began == p.began {
		unix.PidfdSendSignal(fd, sig, nil, 0) //nolint:errcheck // it may have ended, or be another user's
	}
}

// killBelow kills all processes below one.
func killBelow(root int) {
	for _, p := range below(root) {
		p.signal(syscall.SIGKILL)
	}
}

// tellBelow sends a signal to all processes below one, and wakes them.
func tellBelow(root int, sig syscall.Signal) {
	for _, p := range below(root) {
		p.signal(sig)
		p.signal(syscall.SIGCONT)
	}
}

// killStrays kills what a dead guardian has left to this process, and waits for it. It
// returns the exit code of the command, which has this process id (0: nobody knows it), and whether
// there was anything.
func killStrays(command int, _ bool) (code int, found bool) {
	code = CodeSignal + int(syscall.SIGKILL)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := instant() + lingers; instant() < late; <-tick.C {
		left := strays()
		for _, p := range left {
			p.signal(syscall.SIGKILL)
			killBelow(p.pid)
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(p.pid, &status, syscall.WNOHANG, nil) // 0: it has not ended yet
			if err == nil && pid != 0 && pid == command {
				code = statusCode(status)
			}
		}
		if len(left) == 0 {
			return code, found
		}
		found = true
	}
	return code, found
}

// reapLeft waits for what commands before have left behind, and has ended since.
func reapLeft() {
	for _, p := range strays() {
		if p.zombie {
			syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil) //nolint:errcheck // it has ended
		}
	}
}

// strays are our children that we have not started, zombies too.
func strays() (left []process) {
	ours.mu.Lock()
	defer ours.mu.Unlock()
	for _, pid := range byParent()[os.Getpid()] {
		if p, ok := look(pid); ok && !ours.pids[pid] {
			left = append(left, p)
		}
	}
	return left
}
