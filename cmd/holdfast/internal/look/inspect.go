package look

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/describe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/lockjson"
	"github.com/holdfast-go/holdfast/quorum"
)

const inspectLong = `inspect shows everything about a lock: the holders with their attempts and tags, the wait
queue in order, the limit of a semaphore, the value of a leader, the marks of a periodic job, the
last eviction and the key of the record. It changes nothing. If the lock is part of a deadlock,
inspect shows the calls that wait for each other. Over a quorum, it also says of each server
whether it answers and counts for new locks.

If the lock has no record, but NAME is a key that looks like the lock of redsync,
redislock, Redisson or SET NX PX, inspect shows that.

-o json prints one object, with the fields of holdfast status --json, and:
  nodes  the servers of a quorum, in order: address, answers (true or false), counts (for
         new locks: true or false), why (it does not count; empty if it does),
         round_trip_ms, clock_offset_ms (above 0 if the server's clock is ahead of ours)
         and clock_error_ms. Empty for any other topology

Exit code: 0, whether the lock is held or free. For others, see
holdfast help exit-codes.`

// NewInspect makes holdfast inspect.
func NewInspect(a *target.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "inspect [flags] NAME",
		Aliases: []string{"show", "describe"},
		Short:   "Show everything about a lock",
		Long:    inspectLong,
		Example: `  holdfast inspect nightly
  holdfast inspect -o json nightly | jq '.waiters[0]'`,
	}
	asJSON := jsonFlags(cmd.Flags())
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return exit.Usage("inspect takes one lock's name",
				"write holdfast inspect NAME; holdfast list shows the names")
		}
		return runInspect(a, args[0], asJSON(), say.Stdout)
	}
	return cmd
}

func runInspect(a *target.App, name string, asJSON bool, w io.Writer) error {
	return lookAt(a, name, true, func(
		ctx context.Context, s *target.Server, state holdfast.LockInfo, job holdfast.JobInfo,
	) error {
		foreign := foreignBeside(ctx, s, state, job)
		cycle, err := deadlockOf(ctx, s.Client, state)
		if err != nil {
			return s.Explain(name, err)
		}
		key := shownKey(s, name, state, job)
		switch {
		case foreign != nil && asJSON:
			return screen.WriteJSON(w, foreignRow(*foreign).state)
		case foreign != nil:
			return printForeign(w, name, *foreign)
		case asJSON:
			all := inspectJSON{describe.State(state, job, key), nodesAsJSON(ctx, s)}
			all.Deadlock = lockjson.OfDeadlock(cycle)
			return screen.WriteJSON(w, all)
		}
		if err := printState(w, state, job, true); err != nil {
			return err
		}
		var b strings.Builder
		b.WriteString(deadlockLines(cycle))
		for _, h := range state.Holders {
			fmt.Fprintf(&b, "  attempt  %s\n", say.OneLine(h.HolderID))
		}
		fmt.Fprintf(&b, "  fence    %d\n  key      %s\n", state.Fence, say.OneLine(key))
		infos := s.NodesOfQuorum(ctx)
		for i, n := range infos {
			fmt.Fprintf(&b, "  server   %s %s\n", s.Nodes[i].Address, nodeText(n))
		}
		if len(infos) == 0 {
			fmt.Fprintf(&b, "  server   %s\n", s.WhereIs(ctx, key))
		}
		_, err = io.WriteString(w, b.String())
		return err
	})
}

// printForeign prints the lock of another library.
func printForeign(w io.Writer, name string, f survey.Foreign) error {
	_, err := fmt.Fprintf(w, "%s is a key, and looks like a lock of %s\n  by       %s\n  lease    expires in %s\n",
		say.OneLine(name), f.Library(), say.OneLine(f.Holder), describe.Length(f.Remaining))
	return err
}

// inspectJSON is the JSON of inspect: a contract, described in inspectLong.
type inspectJSON struct {
	lockjson.State
	Nodes []lockjson.Node `json:"nodes"`
}

// nodesAsJSON are the servers of a quorum: never null.
func nodesAsJSON(ctx context.Context, s *target.Server) []lockjson.Node {
	list := []lockjson.Node{}
	for i, n := range s.NodesOfQuorum(ctx) {
		list = append(list, lockjson.Node{
			Address: s.Nodes[i].Address, Answers: n.Answers, Counts: n.Counts, Why: n.Why,
			RoundTripMS: lockjson.Millis(n.RoundTrip), ClockOffsetMS: lockjson.Millis(n.ClockOffset),
			ClockErrorMS: lockjson.Millis(n.ClockError),
		})
	}
	return list
}

// nodeText says what a server is to its quorum.
func nodeText(n quorum.NodeInfo) string {
	switch {
	case !n.Answers:
		return "does not answer"
	case !n.Counts:
		return "answers in " + doctor.Brief(n.RoundTrip) + ", " + n.Why
	}
	return fmt.Sprintf("counts, answers in %s, its clock within %s of ours",
		doctor.Brief(n.RoundTrip), doctor.Brief(n.ClockOffset.Abs()+n.ClockError))
}

// foreignBeside reads the key of that name as the lock of another library, if the lock has no record.
func foreignBeside(
	ctx context.Context, s *target.Server, state holdfast.LockInfo, job holdfast.JobInfo,
) *survey.Foreign {
	if state.Held() || state.Fence != 0 || job.Schedule.Period > 0 {
		return nil
	}
	return s.ForeignAt(ctx, state.Name)
}
