package neighbours

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/holdfast-go/holdfast/tests/redisson/crossing/java"
)

// Neighbour is what a fleet is about: another library, and this one on its wire.
type Neighbour struct {
	Name     string // as the command takes it
	Original Library
	Ours     Library
	Servers  int  // one, or the independent servers of a quorum
	Long     bool // both renew: see Config.Long
}

// All lists the neighbours.
func All() []Neighbour {
	return []Neighbour{
		{
			Name:     "redisson",
			Original: Library{Name: "Redisson " + java.Version, Command: java.Command},
			Ours:     here("holdfast/redisson"),
			Servers:  1, Long: true,
		},
		{Name: "redsync", Original: here("redsync"), Ours: here("holdfast/redsync"), Servers: 1},
		{Name: "redsync-five", Original: here("redsync"), Ours: here("holdfast/redsync"), Servers: 5},
		{Name: "redislock", Original: here("redislock"), Ours: here("holdfast/redislock"), Servers: 1},
	}
}

// Named finds a neighbour.
func Named(name string) (Neighbour, error) {
	for _, n := range All() {
		if n.Name == name {
			return n, nil
		}
	}
	return Neighbour{}, fmt.Errorf("there is no neighbour %q", name)
}

// workerWord is the argument with which this program is a process of a fleet.
const workerWord = "worker"

// here is a library whose processes are this program again: lockers has its name.
func here(name string) Library {
	return Library{Name: name, Command: func() (*exec.Cmd, error) {
		binary, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return exec.Command(binary, workerWord), nil //nolint:noctx // the fleet ends it
	}}
}

// Worker runs this program as a process of a fleet if its arguments say so, and reports whether they
// did. The main function, or that of a test, calls it first.
func Worker() (was bool, err error) {
	if len(os.Args) != 2 || os.Args[1] != workerWord {
		return false, nil
	}
	return true, Work(os.Stdin, os.Stdout, func(cfg Config) (Locker, error) {
		open := lockers[cfg.Library]
		if open == nil {
			return nil, fmt.Errorf("there is no locker %q", cfg.Library)
		}
		return open(cfg)
	})
}
