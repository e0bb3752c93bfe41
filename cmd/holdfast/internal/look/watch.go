package look

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/describe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/commandline"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

const watchLong = `watch prints a line whenever a lock changes, until a signal ends it. GLOB selects names,
as for holdfast list. The first lines show the locks that are held. The run of a periodic
job holds the job: its lines have "(job)" behind the name.

watch reads the locks again and again (--interval). It sees the state at these moments: of
several changes in between, it shows the last. Compare the tokens: each hold has a token
of its own, so another token means that the lock has changed hands.

Each line has the time (UTC), the event, the lock's name, and details:
  held        a client holds it: the holder and its token; also after a hand-over
  released    nobody holds it any more
  expired     a lease has ended because nobody renewed it: the holder and its token
  waiting     more or fewer clients wait: how many
  evicted     an operator has evicted its holders: who and why
  unreadable  its record cannot be read: why, and what to do

--foreign watches the locks of other libraries instead, and of holdfast run --wire: GLOB then
selects whole keys. The holder is the library and what its record names.

A lease counts as expired if what was left of it, when watch last saw it, is over by now.
So with a long --interval and a short TTL, watch can take a release for an expiry.

-o json prints one object per line: time, event, name, job (true, or absent), token, holder,
waiting, by, reason.

Exit code: 128 + the signal's number when a signal ends it. For others, see
holdfast help exit-codes.`

// NewWatch makes holdfast watch.
func NewWatch(a *target.App) *cobra.Command {
	foreign, every := false, commandline.Span(time.Second)
	cmd := &cobra.Command{
		Use:   "watch [flags] [GLOB]",
		Short: "Print a line whenever a lock changes",
		Long:  watchLong,
		Example: `  holdfast watch
  holdfast watch 'order/*' --interval 200ms
  holdfast watch -o json nightly | jq -r 'select(.event == "evicted")'`,
	}
	asJSON := jsonFlags(cmd.Flags())
	cmd.Flags().BoolVar(&foreign, "foreign", false, "watch the locks of other libraries")
	cmd.Flags().Var(&every, "interval", "how often to read the locks")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		pattern, err := onePattern(args)
		switch {
		case err != nil:
			return err
		case time.Duration(every) < 10*time.Millisecond:
			return exit.Usage("--interval is too short", "write 10ms or more, as in --interval 200ms")
		}
		read := states
		if foreign {
			read = foreignStates
		}
		return runWatch(cmd.Context(), a, read, pattern, asJSON(), time.Duration(every), say.Stdout)
	}
	return cmd
}

// watchEvent is a line of watch. Its fields are a contract.
type watchEvent struct {
	Time    string `json:"time"`
	Event   string `json:"event"`
	Name    string `json:"name"`
	Job     bool   `json:"job,omitempty"`
	Token   string `json:"token,omitempty"`
	Holder  string `json:"holder,omitempty"`
	Waiting *int   `json:"waiting,omitempty"`
	By      string `json:"by,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

func (e watchEvent) String() string {
	text := fmt.Sprintf("%s  %-8s  %s", e.Time, e.Event, say.OneLine(e.Name))
	if e.Job {
		text += " (job)"
	}
	switch {
	case e.Token != "":
		text += fmt.Sprintf("  by %s, token %s", e.Holder, e.Token)
	case e.Holder != "":
		text += "  by " + e.Holder
	case e.Waiting != nil:
		text += fmt.Sprintf("  %d", *e.Waiting)
	case e.Event == "unreadable":
		text += "  " + say.OneLine(e.Reason)
	case e.By != "":
		text += fmt.Sprintf("  by %s: %s", say.OneLine(e.By), say.OneLine(e.Reason))
	}
	return text
}

func runWatch(
	parent context.Context, a *target.App, read readStates, pattern string,
	asJSON bool, every time.Duration, w io.Writer,
) error {
	s, err := a.Open(holdfast.Config{})
	if err != nil {
		return err
	}
	defer s.CloseSoon()
	ctx, stop := commandline.Signalled(parent)
	defer stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	known, told, away := map[watched]seen{}, map[watched]string{}, false
	for {
		now, bad, err := read(ctx, s, pattern)
		if by := exit.Signalled(ctx); by != nil {
			return by
		}
		switch {
		case err != nil && exit.Of(s.Explain("", err)) != exit.CodeUnreachable:
			return s.Explain("", err)
		case err != nil && !away:
			why := s.Explain("", err)
			a.Say.Warnf(exit.HintOf(why), "%s; watch will continue when the server is back", say.Plain(why))
		}
		keepUnread(known, now, bad, err != nil)
		at := time.Now()
		events := append(changes(known, now, at), unreadableEvents(bad, told, at)...)
		if err := writeEvents(w, events, asJSON); err != nil {
			return err
		}
		known, told = now, bad
		away = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// keepUnread takes over what was known of the locks that were not read: nobody knows that they have
// changed. These are the unreadable ones and, if the listing failed, all that it did not get to.
func keepUnread(known, now map[watched]seen, bad map[watched]string, failed bool) {
	for r, was := range known {
		if _, read := now[r]; !read && (failed || bad[r] != "") {
			now[r] = was
		}
	}
}

// watched names a record: a lock and a job may have the same name.
type watched struct {
	name string
	job  bool
}

// inOrder sorts records by name, a job behind the lock of its name.
func inOrder(records iter.Seq[watched]) []watched {
	behind := map[bool]int{true: 1}
	return slices.SortedFunc(records, func(a, b watched) int {
		return cmp.Or(cmp.Compare(a.name, b.name), behind[a.job]-behind[b.job])
	})
}

// seen is the state of a lock, and when it was asked for: the server's answer is not older.
type seen struct {
	holdfast.LockInfo
	at time.Time
}

// readStates reads the states of the records that match, and why others cannot be read.
type readStates func(ctx context.Context, s *target.Server, pattern string) (
	states map[watched]seen, bad map[watched]string, err error)

// foreignStates reads the locks of other libraries, by their keys.
func foreignStates(
	ctx context.Context, s *target.Server, pattern string,
) (states map[watched]seen, bad map[watched]string, err error) {
	began := time.Now()
	states = map[watched]seen{}
	pattern = cmp.Or(pattern, "*")
	err = survey.ScanForeign(ctx, s.Conns(), pattern, &s.Looked, func(list []survey.Foreign) error {
		for _, f := range list {
			h := holdfast.Holder{HolderID: f.Holder, ClientID: f.Kind + " " + f.Holder, Remaining: f.Remaining}
			states[watched{name: f.Key}] = seen{holdfast.LockInfo{Name: f.Key, Holders: []holdfast.Holder{h}}, began}
		}
		return nil
	})
	return states, nil, err
}

// states reads all locks and jobs that match.
func states(
	ctx context.Context, s *target.Server, pattern string,
) (states map[watched]seen, bad map[watched]string, err error) {
	began := time.Now()
	states, bad = map[watched]seen{}, map[watched]string{}
	_, err = eachLock(ctx, s, pattern, func(state holdfast.LockInfo, why *exit.Error) {
		r := watched{state.Name, state.Job != nil}
		if why != nil {
			bad[r] = say.Plain(why) + "; " + why.Hint
			return
		}
		states[r] = seen{state, began}
	})
	return states, bad, err
}

// changes are the events between two states, in the order of the names.
func changes(before, after map[watched]seen, at time.Time) (events []watchEvent) {
	all := map[watched]seen{}
	maps.Copy(all, before)
	maps.Copy(all, after)
	for _, r := range inOrder(maps.Keys(all)) {
		for _, e := range changesOf(before[r], after[r], at) {
			e.Time, e.Name, e.Job = lockjson.Stamp(at), r.name, r.job
			events = append(events, e)
		}
	}
	return events
}

// changesOf are the events between two states of one lock. The second one was read before at. So what is left of a
// lease that expired was never more than the time from was.at to at, however slow the answers were.
func changesOf(was, is seen, at time.Time) (events []watchEvent) {
	known, e := was.LastEviction, is.LastEviction
	evicted := e != nil && was.Name != "" && (known == nil || !known.At.Equal(e.At))
	if evicted {
		events = append(events, watchEvent{Event: "evicted", By: e.By, Reason: e.Reason})
	}
	expired := false
	for _, h := range was.Holders {
		if !evicted && !h.Released && !hasHold(is.Holders, h) && h.Remaining <= at.Sub(was.at) {
			expired = true
			events = append(events, eventOf("expired", h))
		}
	}
	for _, h := range is.Holders {
		if !hasHold(was.Holders, h) {
			events = append(events, eventOf("held", h))
		}
	}
	if was.Held() && !is.Held() && !expired {
		events = append(events, watchEvent{Event: "released"})
	}
	if n := describe.Waiting(is.LockInfo); n != describe.Waiting(was.LockInfo) {
		events = append(events, watchEvent{Event: "waiting", Waiting: &n})
	}
	return events
}

// eventOf is an event about one hold.
func eventOf(what string, h holdfast.Holder) watchEvent {
	e := watchEvent{Event: what, Holder: describe.Who(h.Client, h.ClientID)}
	if h.Token != 0 {
		e.Token = strconv.FormatUint(h.Token, 10)
	}
	return e
}

// hasHold reports whether a hold is among the holds.
func hasHold(list []holdfast.Holder, hold holdfast.Holder) bool {
	return slices.ContainsFunc(list, func(h holdfast.Holder) bool { return holdOf(h) == holdOf(hold) })
}

// holdOf tells holds apart: by the token, or without one by the holder.
func holdOf(h holdfast.Holder) string {
	if h.Token == 0 {
		return h.HolderID
	}
	return strconv.FormatUint(h.Token, 10)
}

func writeEvents(w io.Writer, events []watchEvent, asJSON bool) error {
	for _, e := range events {
		var err error
		if asJSON {
			err = screen.WriteJSON(w, e)
		} else {
			_, err = fmt.Fprintln(w, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
