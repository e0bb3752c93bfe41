//go:build unix && !linux

package proc

import (
	"syscall"
	"time"
)

// adopts says that a process can become the parent of those that lose theirs below it.
const adopts = false

func adopt(bool) {}

func nameSelf() {}

// processesBelow and runs are for systems on which adopts is true.
func processesBelow(int) []Process { return nil }

func runs(int, string) bool { return false }

// killBelow does nothing: not every system tells which process has which parent,
// and a process that lost its parent belongs to init. The group is killed by others.
func killBelow(int) {}

func tellBelow(int, syscall.Signal) {}

// killStrays kills the command of a dead guardian, and its group; 0: it is not known. It returns the exit code,
// which nobody can know any more, and whether the command is known.
func killStrays(command int, group bool) (code int, found bool) {
	if command == 0 {
		return 0, false
	}
	to := command
	if group {
		to = -command
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := instant() + lingers; instant() < late; <-tick.C {
		if syscall.Kill(to, syscall.SIGKILL) != nil {
			break
		}
	}
	return CodeSignal + int(syscall.SIGKILL), true
}

// reapLeft is for the first process of a container.
func reapLeft() {}

// isZombie is not known here.
func isZombie(int) bool { return false }
