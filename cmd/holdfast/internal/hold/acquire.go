package hold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/describe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/help"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/commandline"
	"github.com/holdfast-go/holdfast/internal/lockjson"
	"github.com/holdfast-go/holdfast/script"
)

const acquireLong = `acquire, extend and release are for scripts that cannot put their work into one command.
If they can, use holdfast run: it renews the lease, and stops the command when the lock is
lost. Nothing does that here.

acquire acquires the lock, prints how to release it, and ends. The lock stays held for
--ttl, unless extend makes it longer or release frees it. If the script dies, the lock is
free after that time.

It prints a line for the shell, with HOLDFAST_LOCK_NAME, HOLDFAST_LOCK_ID and
HOLDFAST_LOCK_TOKEN. extend and release find them in the environment:

  lock=$(holdfast acquire -n --ttl 5m nightly) || exit
  eval "$lock"
  ...
  holdfast extend --ttl 5m || exit     # before the five minutes are over
  ...
  holdfast release

eval "$(holdfast acquire ...)" would hide the exit code. Anyone who knows the id can release
the lock, so keep the id out of logs.

With --owner NAME, processes that use the same NAME hold the lock together: they do not
wait for each other, and the lock is free when the last of them has released it. The line
then also has HOLDFAST_LOCK_OWNER, which extend and release need.

The token is the fencing token: a resource that remembers the highest token can refuse
late writes. holdfast status shows the lock under --app, with the process ID of the
program that called acquire.

acquire, extend and release do not work on a quorum.

--json prints one object:
  name, key   the lock, and the key of its record on the server
  id          the id for extend and release
  token       a string: it may be too large for a JSON number
  mode        exclusive, shared or permits
  owner       the owner name; empty without --owner
  ttl_ms      the TTL, in milliseconds
  expires_at  until then the lock can be trusted: UTC, by this machine's clock
Later versions may add fields. They do not rename or remove any, and do not change a
type.

Exit code: 0 if the lock is held now, 75 if another client holds it. For others, see
holdfast help exit-codes.`

const extendLong = `extend makes a lock that holdfast acquire got last for --ttl from now. It never shortens
it. NAME, --id and --owner are those that acquire printed. It prints until when the lock is
held now, by this machine's clock; --json prints that as an object, with name, token,
ttl_ms (the time until then) and expires_at, as acquire does.

Exit code: 0 if the lock is held for that time now. 79 if it is not held any more: its
time was over, an operator evicted the holder, it was released, or the server lost its
record. Somebody else may hold it then, so stop the work. 69 if the server did not answer:
the old time still counts. For others, see holdfast help exit-codes.`

const releaseLong = `release frees a lock that holdfast acquire got. The next waiter gets it in the same step.
NAME, --id, --token and --owner are those that acquire printed. If others hold the lock
under the same owner name, it stays held until the last of them has released it.

Exit code: 0 if the lock is released; a second release exits with 0, too. It is also 0 if
the time of the lock was over, but nobody held it since. 79 if it is not held any more:
its time was over and another client got it, an operator evicted the holder, or the server
lost its record. The work may then have overlapped with another holder's. 69 if the server
did not answer: the lock is free when its time is over, at the latest. For others, see
holdfast help exit-codes.`

// acquireOptions are the flags of acquire.
type acquireOptions struct {
	runOptions
	asJSON bool
}

// NewAcquire makes holdfast acquire.
func NewAcquire(a *target.App) *cobra.Command {
	o := &acquireOptions{}
	cmd := &cobra.Command{
		Use:   "acquire [flags] NAME",
		Short: "Acquire a lock for a fixed time, and exit",
		Long:  acquireLong,
		Example: `  lock=$(holdfast acquire -n --ttl 5m nightly) || exit; eval "$lock"
  holdfast acquire --json --ttl 5m nightly`,
	}
	flags := cmd.Flags()
	o.ttl, o.lostCode, o.onLost, o.noRenew = commandline.Span(defaultTTL), exit.CodeLost, "TERM", true
	flags.Var(&o.ttl, "ttl", "how long the lock stays held")
	flags.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	flags.StringVar(&o.app, "app", "", "name that status shows for this holder (default: holdfast)")
	cli.Rename(flags, map[string]string{"app": "NAME"})
	waitFlags(flags, &o.runOptions)
	tagFlag(flags, &o.runOptions)
	o.kindFlags.add(flags)
	help.Brief(cmd, "nonblock", "wait", "ttl", "json", "shared", "permits", "owner", "app", "redis")
	o.perform(a, cmd, o.read, func() error {
		return conduct(a, &o.runOptions, func(a *target.App, r *session) (int, string, error) {
			return r.take(a, o.asJSON, say.Stdout)
		})
	})
	return cmd
}

// read reads the arguments and refuses what cannot work.
func (o *acquireOptions) read(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return exit.Usage("the lock's name is missing",
			"write holdfast acquire NAME, as in holdfast acquire nightly")
	case len(args) > 1:
		return exit.Usage(fmt.Sprintf("%q is one name too many: acquire takes one lock", args[1]),
			"to hold several locks, use holdfast run NAME1 NAME2 -- COMMAND")
	case o.busyCode == exit.CodeOK:
		return exit.Usage("acquire -E 0 would exit with 0 although another client holds the lock",
			"leave -E out: "+acquireHint)
	}
	o.names = args
	if err := o.kindFlags.check(args, cmd.Flags().Changed); err != nil {
		return err
	}
	return o.check()
}

// take acquires the lock, prints how to release it, and leaves it held.
func (r *session) take(a *target.App, asJSON bool, w io.Writer) (code int, reason string, err error) {
	if wasClosed(os.Stdout) {
		return 0, "", exit.Usage("standard output is closed, or the null device, but it has to show how to release "+
			"the lock", acquireHint)
	}
	defer r.close()
	if held, code, reason, err := r.obtain(a, r.byFlags); !held {
		return code, reason, err
	}
	l := r.lease.(*holdfast.Lease)
	if err := r.whole(l); err != nil {
		return 0, "", r.server.Explain(r.names[0], err)
	}
	if err := r.printTaken(l, asJSON, w); err != nil {
		r.releaseOrKeep(0) //nolint:errcheck // nobody knows the id, and the lease expires by itself
		return 0, "", fmt.Errorf("cannot print how to release the lock, so it was released: %w", err)
	}
	// Abandon leaves the lock held. The record that names the holder lasts as long.
	r.kept = true
	r.server.Client.Abandon()
	r.nameHolder(l)
	return exit.CodeOK, "", nil
}

// wasClosed reports whether a standard file was closed when the process began. Go has opened the
// null device in its place, for reading and writing; a shell opens it for one of them.
func wasClosed(f *os.File) bool {
	if !isNull(f) {
		return false
	}
	_, err := f.Read(make([]byte, 1))
	return err == io.EOF //nolint:errorlint // a file that is for writing only has another error
}

// isNull reports whether a file is the null device.
func isNull(f *os.File) bool {
	null, err := os.Stat(os.DevNull)
	info, bad := f.Stat()
	return err == nil && bad == nil && os.SameFile(null, info)
}

// whole makes the lease last for its whole TTL from now, if it was granted by a push: such a
// lease is short, and the renewal that confirms it may still be under way.
func (r *session) whole(l *holdfast.Lease) error {
	ttl := time.Duration(r.ttl)
	if l.Remaining() >= ttl*9/10 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), target.CloseTimeout)
	defer cancel()
	return l.Extend(ctx, ttl)
}

// takenJSON is the JSON of acquire: a contract, described in acquireLong.
type takenJSON struct {
	Name      string `json:"name"`
	Key       string `json:"key"`
	ID        string `json:"id"`
	Token     string `json:"token"`
	Mode      string `json:"mode"`
	Owner     string `json:"owner"`
	TTLMS     int64  `json:"ttl_ms"`
	ExpiresAt string `json:"expires_at"`
}

// printTaken prints the lock as JSON, or for the shell.
func (r *session) printTaken(l *holdfast.Lease, asJSON bool, w io.Writer) (err error) {
	token := tokenText(l.Token())
	if asJSON {
		return screen.WriteJSON(w, takenJSON{
			l.Name(), r.held.keys[0], l.HolderID(), token, r.mode(), r.owner, time.Duration(r.ttl).Milliseconds(),
			lockjson.Stamp(time.Now().Add(l.Remaining())),
		})
	}
	owner := ""
	if r.owner != "" || os.Getenv(envOwner) != "" { // the second is of a lock around this one
		owner = fmt.Sprintf(" %s=%s", envOwner, cli.Quote(r.owner))
	}
	_, err = fmt.Fprintf(w, "export %s=%s %s=%s %s=%s%s\n",
		envLock, cli.Quote(l.Name()), envID, cli.Quote(l.HolderID()), envToken, token, owner)
	return err
}

// heldOptions name a lock that acquire has left held.
type heldOptions struct {
	name, id string
	token    string
	number   uint64 // the token
	owner    string
	ttl      commandline.Span
	asJSON   bool
	until    time.Time // when an extended lease ends
}

func (o *heldOptions) add(flags *pflag.FlagSet) {
	flags.StringVar(&o.id, "id", "", "the id that acquire printed (default: "+envID+")")
	flags.StringVar(&o.token, "token", "", "the token that acquire printed (default: "+envToken+")")
	flags.StringVar(&o.owner, "owner", "", "the owner name, if acquire had one (default: "+envOwner+")")
	cli.Rename(flags, map[string]string{"id": "ID", "token": "TOKEN", "owner": "NAME"})
}

// acquireHint is how a script calls acquire.
const acquireHint = `lock=$(holdfast acquire NAME) || exit; eval "$lock"`

var attemptForm = regexp.MustCompile(`^\S+/[0-9]+=?(~[0-9]+)?$`)

// read reads the arguments and the environment.
func (o *heldOptions) read(cmd *cobra.Command, args []string, lookup func(string) string) error {
	if len(args) > 1 {
		return exit.Usage(fmt.Sprintf("%q is one name too many: %s takes one lock", args[1], cmd.Name()),
			"write holdfast "+cmd.Name()+" "+cli.Operand(args[0]))
	}
	name := lookup(envLock)
	if len(args) == 1 {
		o.name = args[0]
		if o.id == "" && lookup(envID) != "" && name != o.name {
			return exit.Usage(fmt.Sprintf("%s is the id of %q, not of %q", envID, name, o.name),
				"write --id and --token, or leave the name out")
		}
	}
	if o.id == "" {
		o.owner = cmp.Or(o.owner, lookup(envOwner))
	}
	o.name, o.id = cmp.Or(o.name, name), cmp.Or(o.id, lookup(envID))
	o.token = cmp.Or(o.token, lookup(envToken))
	const hint = "acquire prints it: " + acquireHint
	number, bad := strconv.ParseUint(o.token, 10, 63)
	switch {
	case o.name == "":
		return exit.Usage("the lock's name is missing: "+envLock+" is not set", hint)
	case o.id == "" && name != "":
		return exit.Usage("the lock's id is missing: "+envID+" is not set",
			hint+"; a lock of holdfast run is extended and released by holdfast run itself")
	case o.id == "":
		return exit.Usage("the lock's id is missing: "+envID+" is not set", hint)
	case !attemptForm.MatchString(o.id):
		return exit.Usage(fmt.Sprintf("%q is not an id", o.id), hint)
	case o.token == "":
		return exit.Usage("the lock's token is missing: "+envToken+" is not set", hint)
	case bad != nil || number == 0:
		return exit.Usage(fmt.Sprintf("%q is not a token", o.token), hint)
	}
	o.number = number
	return target.CheckName("lock", o.name)
}

// lease is the lease as acquire has printed it.
func (o *heldOptions) lease() holdfast.LeaseInfo {
	return holdfast.LeaseInfo{Name: o.name, HolderID: o.id, Owner: o.owner, Token: o.number}
}

// lost is the error for a lock that is not held any more.
func (o *heldOptions) lost(why string) error {
	err := fmt.Errorf("%q is not held any more: %s", o.name, why)
	return exit.With(exit.CodeLost, err, exit.HintOf(holdfast.ErrNotHeld))
}

// NewExtend makes holdfast extend.
func NewExtend(a *target.App) *cobra.Command {
	o := &heldOptions{ttl: commandline.Span(defaultTTL)}
	cmd := &cobra.Command{
		Use:     "extend [flags] [NAME]",
		Short:   "Extend a lock that acquire got",
		Long:    extendLong,
		Example: `  holdfast extend --ttl 5m`,
	}
	cmd.Flags().Var(&o.ttl, "ttl", "how long the lock stays held from now on")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print one JSON object")
	o.add(cmd.Flags())
	level := cli.Verbosity(a.Say, cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(level(), o.read(cmd, args, os.Getenv)); err != nil {
			return err
		}
		if err := (&runOptions{ttl: o.ttl, onLost: "ignore"}).check(); err != nil {
			return err
		}
		if err := o.ask(a, cmd.Name(), extendHeld); err != nil {
			return err
		}
		return o.printEnd(a.Say, say.Stdout)
	}
	return cmd
}

// NewRelease makes holdfast release.
func NewRelease(a *target.App) *cobra.Command {
	o := &heldOptions{}
	cmd := &cobra.Command{
		Use: "release [flags] [NAME]", SuggestFor: []string{"unlock", "free"},
		Short:   "Release a lock that acquire got",
		Long:    releaseLong,
		Example: `  holdfast release`,
	}
	o.add(cmd.Flags())
	level := cli.Verbosity(a.Say, cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(level(), o.read(cmd, args, os.Getenv)); err != nil {
			return err
		}
		return o.ask(a, cmd.Name(), releaseHeld)
	}
	return cmd
}

// ask sends a request about the lock. If no answer comes, it sends it once more: both
// requests have the effect of one.
func (o *heldOptions) ask(
	a *target.App, verb string, request func(context.Context, *target.Server, *heldOptions) error,
) error {
	s, err := a.Open(holdfast.Config{}, verb)
	if err != nil {
		return err
	}
	defer s.CloseNodes() //nolint:errcheck // the process ends
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), target.CloseTimeout)
		err = request(ctx, s, o)
		cancel()
		if !exit.Unreachable(err) {
			break
		}
	}
	if err != nil {
		return s.Explain(o.name, err)
	}
	return nil
}

// extendHeld extends the lease.
func extendHeld(ctx context.Context, s *target.Server, o *heldOptions) error {
	began := time.Now()
	_, err := s.Client.ExtendLease(ctx, o.lease(), time.Duration(o.ttl))
	var lost *holdfast.LostError
	switch {
	case errors.As(err, &lost) && lost.Reason == holdfast.LossEvicted:
		return exit.With(exit.CodeLost, o.lost("an operator evicted the holder"), exit.HintOf(lost))
	case errors.Is(err, holdfast.ErrNotHeld):
		return o.lost("its lease has expired, it was released, or the server lost the record")
	case err != nil:
		return err
	}
	o.until = began.Add(o.left(ctx, s))
	return nil
}

// left is how long the lease lasts from now, as the server says: that may be longer than what was asked for.
func (o *heldOptions) left(ctx context.Context, s *target.Server) time.Duration {
	if state, err := s.Client.Holders(ctx, o.name); err == nil {
		for _, h := range state.Holders {
			if h.Token == o.number {
				return max(h.Remaining, time.Duration(o.ttl))
			}
		}
	}
	return time.Duration(o.ttl)
}

// extendedJSON is the JSON of extend: a contract, described in extendLong.
type extendedJSON struct {
	Name      string `json:"name"`
	Token     string `json:"token"`
	TTLMS     int64  `json:"ttl_ms"`
	ExpiresAt string `json:"expires_at"`
}

// printEnd prints when an extended lease ends.
func (o *heldOptions) printEnd(p *say.Printer, w io.Writer) (err error) {
	switch {
	case o.asJSON:
		return screen.WriteJSON(w, extendedJSON{
			o.name, o.token, time.Until(o.until).Milliseconds(), lockjson.Stamp(o.until),
		})
	case p.Level > say.Quiet:
		_, err = fmt.Fprintf(w, "%s is held until %s\n",
			say.OneLine(o.name), describe.Instant(o.until))
	}
	return err
}

// releaseHeld releases the lease.
func releaseHeld(ctx context.Context, s *target.Server, o *heldOptions) error {
	err := s.Client.ReleaseLease(ctx, o.lease())
	switch {
	case errors.Is(err, holdfast.ErrNotHeld):
		return o.lost("its lease had expired, an operator evicted the holder, or the server lost the record")
	case err != nil:
		return err
	}
	return checkOwner(ctx, s, o)
}

// checkOwner refuses a release that named another owner than acquire, or none. The server
// takes it for the second release of a hold that has ended, but the hold goes on.
func checkOwner(ctx context.Context, s *target.Server, o *heldOptions) error {
	state, err := s.Client.Holders(ctx, o.name)
	if err != nil {
		return nil //nolint:nilerr // it is released, as far as the server says
	}
	for _, h := range state.Holders {
		if h.Token == o.number && h.Owner != "" && h.Owner != o.owner {
			return exit.Usage(fmt.Sprintf("%q is still held: it was acquired under the owner name %q", o.name, h.Owner),
				"write --owner "+cli.Quote(h.Owner))
		}
	}
	return nil
}

// nameHolder registers the client, whose process ends, under the process that called it: status shows
// that for as long as the lease lasts. Nothing depends on it. The arguments are those of the script.
func (r *session) nameHolder(l *holdfast.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), target.CloseTimeout)
	defer cancel()
	host, _ := os.Hostname()
	client, rest, _ := strings.Cut(l.HolderID(), "/")
	number := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))] // the rest says what kind of hold it is
	args := []string{
		strconv.FormatInt((time.Duration(r.ttl) + time.Minute).Milliseconds(), 10),
		url.PathEscape(cmp.Or(r.app, "holdfast")), url.PathEscape(cmp.Or(host, "unknown")), strconv.Itoa(os.Getppid()),
		holdfast.Version, strconv.FormatInt(time.Now().UnixMilli(), 10),
	}
	if len(r.tags) > 0 {
		tags := make(url.Values)
		for key, value := range r.tags {
			tags.Set(key, value)
		}
		args = append(args, "tags:"+number, tags.Encode())
	}
	_, _ = r.server.Store.Run(ctx, script.RegisterClient, []string{r.server.Prefix + ":client:" + client}, args)
}
