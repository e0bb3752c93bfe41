package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/lockjson"
	"github.com/holdfast-go/holdfast/internal/wire"
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
  deadlock  the calls that wait for each other, if the lock is part of a deadlock: client, holds
         (a lock of the same code), waits_for, breaks (it has --break-deadlock, or the option
         BreakDeadlock). Empty otherwise

Exit code: 0, whether the lock is held or free. For others, see
holdfast help exit-codes.`

func newInspect(a *app) *cobra.Command {
	output, asJSON := outputForm("table"), false
	cmd := &cobra.Command{
		Use:     "inspect [flags] NAME",
		Aliases: []string{"show", "describe"},
		Short:   "Show everything about a lock",
		Long:    inspectLong,
		Example: `  holdfast inspect nightly
  holdfast inspect -o json nightly | jq '.waiters[0]'`,
	}
	cmd.Flags().VarP(&output, "output", "o", "form of the output: table or json")
	rename(cmd.Flags(), map[string]string{"output": "table|json"})
	cmd.Flags().BoolVar(&asJSON, "json", false, "the same as -o json")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageError("inspect takes one lock's name",
				"write holdfast inspect NAME; holdfast list shows the names")
		}
		return runInspect(a, args[0], asJSON || output == "json", stdout)
	}
	return cmd
}

func runInspect(a *app, name string, asJSON bool, w io.Writer) error {
	return a.look(name, true, func(
		ctx context.Context, s *server, state holdfast.LockInfo, job holdfast.JobInfo,
	) error {
		foreign := s.foreignBeside(ctx, state, job)
		cycle, err := deadlockOf(ctx, s.client, state)
		if err != nil {
			return s.explain(name, err)
		}
		key := wire.Key(s.prefix, name)
		switch {
		case foreign != nil && asJSON:
			return screen.WriteJSON(w, foreignRow(*foreign).state)
		case foreign != nil:
			return printForeign(w, name, *foreign)
		case asJSON:
			return screen.WriteJSON(w, inspectJSON{
				stateWithJob(state, job, key), cycleJSON(cycle), s.nodesAsJSON(ctx),
			})
		}
		if err := printState(w, state, job, true); err != nil {
			return err
		}
		var b strings.Builder
		for _, wait := range cycle {
			fmt.Fprintf(&b, "  deadlock %s\n", oneLine(wait.String()))
		}
		for _, h := range state.Holders {
			fmt.Fprintf(&b, "  attempt  %s\n", oneLine(h.HolderID))
		}
		fmt.Fprintf(&b, "  fence    %d\n  key      %s\n", state.Fence, oneLine(key))
		infos := s.nodesOfQuorum(ctx)
		for i, n := range infos {
			fmt.Fprintf(&b, "  server   %s %s\n", s.nodes[i].address, nodeText(n))
		}
		if len(infos) == 0 {
			fmt.Fprintf(&b, "  server   %s\n", s.whereIs(ctx, key))
		}
		_, err = io.WriteString(w, b.String())
		return err
	})
}

// printForeign prints the lock of another library.
func printForeign(w io.Writer, name string, f survey.Foreign) error {
	_, err := fmt.Fprintf(w, "%s is a key, and looks like a lock of %s\n  by       %s\n  lease    expires in %s\n",
		oneLine(name), kindOfForeign(f.Kind), oneLine(f.Holder), length(f.Remaining))
	return err
}

// whereIs is the address, and the server behind it that has the key now, if Sentinels or a
// Cluster name that.
func (s *server) whereIs(ctx context.Context, key string) string {
	if cluster, ok := s.nodes[0].rdb.(*redis.ClusterClient); ok {
		if one, err := cluster.MasterForKey(ctx, key); err == nil {
			return s.address + ", now at " + one.Options().Addr
		}
	}
	if t := s.targets[0]; t.topology == bySentinel {
		for _, addr := range t.addrs() {
			if primary, err := t.askSentinel(ctx, addr, s.sentinel); err == nil && len(primary) == 2 {
				return s.address + ", now at " + net.JoinHostPort(primary[0], primary[1])
			}
		}
	}
	return s.address
}

// The JSON of inspect: a contract, described in inspectLong.
type (
	inspectJSON struct {
		lockjson.State
		Deadlock []graphDeadlockJSON `json:"deadlock"`
		Nodes    []nodeJSON          `json:"nodes"`
	}
	nodeJSON struct {
		Address       string  `json:"address"`
		Answers       bool    `json:"answers"`
		Counts        bool    `json:"counts"`
		Why           string  `json:"why"`
		RoundTripMS   float64 `json:"round_trip_ms"`
		ClockOffsetMS float64 `json:"clock_offset_ms"`
		ClockErrorMS  float64 `json:"clock_error_ms"`
	}
)

// nodesAsJSON are the servers of a quorum: never null.
func (s *server) nodesAsJSON(ctx context.Context) []nodeJSON {
	list := []nodeJSON{}
	for i, n := range s.nodesOfQuorum(ctx) {
		list = append(list, nodeJSON{
			s.nodes[i].address, n.Answers, n.Counts, n.Why,
			inMillis(n.RoundTrip), inMillis(n.ClockOffset), inMillis(n.ClockError),
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

// kindOfForeign names a kind within a sentence.
func kindOfForeign(kind string) string {
	switch kind {
	case "string":
		return "SET NX PX, or a value that expires"
	case "holdfast":
		return "redsync or redislock, held by Holdfast"
	}
	return kind
}

// foreignBeside reads the key of that name as the lock of another library, if the lock has no record.
func (s *server) foreignBeside(ctx context.Context, state holdfast.LockInfo, job holdfast.JobInfo) *survey.Foreign {
	if state.Held() || state.Fence != 0 || job.Schedule.Period > 0 {
		return nil
	}
	return s.foreign(ctx, state.Name)
}

// foreign reads the key of that name as the lock of another library; nil if it is none, or
// cannot be read.
func (s *server) foreign(ctx context.Context, key string) (found *survey.Foreign) {
	err := survey.ReadForeign(ctx, s.rdbs(), key, func(f survey.Foreign) { found = &f })
	if err != nil {
		return nil // the user may not read other keys
	}
	return found
}
