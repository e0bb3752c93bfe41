package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/help"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
)

// kindFlags say what kind of lock a command acquires.
type kindFlags struct {
	exclusive bool
	shared    bool
	permits   int
	weight    int
	server    bool // the limit that the server remembers counts
	owner     string
}

// add adds the flags of all kinds.
func (k *kindFlags) add(flags *pflag.FlagSet) {
	defer help.Kind.In(flags)()
	k.addModes(flags)
	flags.StringVar(&k.owner, "owner", "",
		"hold the lock under an owner name: a run with the same NAME joins it and does not wait")
	cli.Rename(flags, map[string]string{"owner": "NAME"})
}

// addModes adds the flags that say how one lock is held.
func (k *kindFlags) addModes(flags *pflag.FlagSet) {
	flags.BoolVarP(&k.exclusive, "exclusive", "x", false, "exclusive lock, the default")
	flags.BoolVarP(&k.exclusive, "ex", "e", false, "the same as -x")
	flags.Lookup("ex").Hidden = true
	flags.BoolVarP(&k.shared, "shared", "s", false, "shared lock: others may hold it shared at the same time")
	flags.IntVar(&k.permits, "permits", 0, "semaphore with N permits; every run names the same N (or --server-limit)")
	flags.IntVar(&k.weight, "weight", 1, "with --permits: how many of them to take, or to wait for (default 1)")
	flags.BoolVar(&k.server, "server-limit", false,
		"with --permits: take the limit that the server remembers (holdfast limit); N if it knows none")
	flags.Lookup("permits").DefValue = "0"
	flags.Lookup("weight").DefValue = "0"
	cli.Rename(flags, map[string]string{"permits": "N", "weight": "W"})
}

// maxOwner is the limit of [holdfast.Owner], in bytes.
const maxOwner = 512

// clash is two things that a command line cannot ask for at once.
type clash struct {
	both bool
	text string
	hint string
}

// refuse returns the first clash as an error.
func refuse(clashes []clash) error {
	for _, c := range clashes {
		if c.both {
			return exit.Usage(c.text, c.hint)
		}
	}
	return nil
}

// check refuses flags that contradict each other, or the number of names.
func (k *kindFlags) check(names []string, given func(flag string) bool) error {
	for i, name := range names {
		if err := target.CheckName("lock", name); err != nil {
			return err
		}
		if slices.Contains(names[:i], name) {
			return exit.Usage(fmt.Sprintf("the lock %q is named twice", name), "name each lock once")
		}
	}
	several, permits, owner := len(names) > 1, given("permits"), given("owner")
	inside := func(flag string) string {
		return "run the command under one lock, or write holdfast run A -- holdfast run --" + flag + " B -- COMMAND"
	}
	return refuse([]clash{
		{
			len(names) > holdfast.MaxLocks,
			fmt.Sprintf("%d locks are named; the limit is %d", len(names), holdfast.MaxLocks),
			"hold fewer locks at the same time",
		},
		{several && k.shared, "several locks are always exclusive: --shared takes one lock", inside("shared")},
		{several && permits, "several locks are always exclusive: --permits takes one lock", inside("permits N")},
		{several && owner, "--owner takes one lock", inside("owner NAME")},
		{k.shared && k.exclusive, "--shared and --exclusive contradict each other", cli.LeaveOut},
		{
			k.shared && permits, "--shared and --permits contradict each other",
			"leave --shared out: a semaphore has several holders anyway",
		},
		{
			k.exclusive && permits, "--exclusive and --permits contradict each other",
			"leave --exclusive out; --permits 1 has one holder at a time",
		},
		{
			owner && k.shared, "--owner and --shared contradict each other",
			"leave --owner out: runs with --shared hold the lock together",
		},
		{owner && permits, "--owner and --permits contradict each other", cli.LeaveOut},
		{
			k.server && !permits, "--server-limit without --permits",
			"write --permits N, too: the limit if the server knows none",
		},
		{given("weight") && !permits, "--weight without --permits", "write --permits N, the semaphore's limit, too"},
		{
			permits && k.permits < 1, fmt.Sprintf("--permits %d: a semaphore has at least 1 permit", k.permits),
			"write how many holders there may be, as in --permits 3",
		},
		{k.weight < 1, fmt.Sprintf("--weight %d: it must be at least 1", k.weight), "write --weight 1 or more"},
		{
			permits && k.weight > k.permits && !k.server,
			fmt.Sprintf("--weight %d is more than --permits %d", k.weight, k.permits),
			"write a smaller --weight; otherwise the command would wait for ever",
		},
		{
			len(k.owner) > maxOwner,
			fmt.Sprintf("--owner has %d bytes; the limit is %d", len(k.owner), maxOwner),
			"write a shorter name",
		},
	})
}

// mode is how the lock is held, in the words of status.
func (k *kindFlags) mode() string {
	switch {
	case k.shared:
		return "shared"
	case k.permits > 0:
		return "permits"
	}
	return "exclusive"
}

// lease is what a command runs under: a lease of one lock or of several, a leadership, or
// the run of a job.
type lease interface {
	Context() context.Context
	Err() error
	Remaining() time.Duration
}

// extender is a lease that a request can lengthen.
type extender interface {
	Extend(ctx context.Context, ttl time.Duration) error
}

// releaser is a lease that its holder can end.
type releaser interface {
	Release(ctx context.Context) error
}

// acquirer acquires what a command runs under. It waits for it, or tries once.
type acquirer func(ctx context.Context, try bool) (lease, error)

// eitherOf makes an acquirer of the two methods of a kind.
func eitherOf[L lease](wait, try func(context.Context) (L, error)) acquirer {
	return func(ctx context.Context, once bool) (lease, error) {
		call := wait
		if once {
			call = try
		}
		l, err := call(ctx)
		if err != nil {
			return nil, err
		}
		return l, nil
	}
}

// acquirer returns how the kind that the flags say is acquired.
func (k *kindFlags) acquirer(c *holdfast.Client, names []string, options []holdfast.LockOption) acquirer {
	options = append(options, holdfast.Checked()) // for holdfast check; a process of the tool has one lease
	switch name := names[0]; {
	case len(names) > 1:
		m := c.MultiMutex(names, options...)
		return eitherOf(m.Lock, m.TryLock)
	case k.shared:
		m := c.RWMutex(name, optionsOf[holdfast.RWMutexOption](options)...)
		return eitherOf(m.RLock, m.TryRLock)
	case k.permits > 0:
		s := k.semaphore(c, name, options)
		return eitherOf(
			func(ctx context.Context) (*holdfast.Lease, error) { return s.Acquire(ctx, k.weight) },
			func(ctx context.Context) (*holdfast.Lease, error) { return s.TryAcquire(ctx, k.weight) })
	default:
		own := optionsOf[holdfast.MutexOption](options)
		if k.owner != "" {
			own = append(own, holdfast.Owner(k.owner))
		}
		m := c.Mutex(name, own...)
		return eitherOf(m.Lock, m.TryLock)
	}
}

// semaphore is the semaphore of --permits.
func (k *kindFlags) semaphore(c *holdfast.Client, name string, options []holdfast.LockOption) *holdfast.Semaphore {
	own := optionsOf[holdfast.SemaphoreOption](options)
	if k.server {
		own = append(own, holdfast.ServerLimit())
	}
	return c.Semaphore(name, k.permits, own...)
}

// optionsOf are options of every lock, as options of one kind.
func optionsOf[O any](options []holdfast.LockOption) []O {
	own := make([]O, len(options))
	for i, o := range options {
		own[i] = any(o).(O)
	}
	return own
}

// tokensOf are the fencing tokens of a lease, in the order of the names.
func tokensOf(l lease, names []string) []uint64 {
	switch l := l.(type) {
	case *holdfast.MultiLease:
		tokens := make([]uint64, len(names))
		for i, name := range names {
			tokens[i] = l.Token(name)
		}
		return tokens
	case interface{ Token() uint64 }:
		return []uint64{l.Token()}
	}
	return make([]uint64, len(names))
}

// quoted are names as messages show them.
func quoted(names []string) string {
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(shown, ", ")
}

// lostName is the lock that a loss names, or all of them.
func lostName(err error, names []string) string {
	if lost, ok := errors.AsType[*holdfast.LostError](err); ok && lost.Name != "" {
		names = []string{lost.Name}
	}
	return quoted(names)
}
