//go:build unix

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/lockjson"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// world is what one script has started.
type world struct {
	t       testing.TB
	server  *redistest.Server
	nodes   []*redistest.Server // several primaries, of a Cluster or of a quorum; server is one of them
	direct  string              // the URLs of the servers, past a proxy
	prefix  string              // of the keys; empty: the default
	proxy   *redistest.Proxy
	cluster *redistest.Cluster // nil for any other topology
}

type worldKey struct{}

func setup(env *testscript.Env) error {
	t, ok := env.T().(testing.TB)
	if !ok {
		return fmt.Errorf("%T is no testing.TB", env.T())
	}
	leaveTerminal()
	env.Values[worldKey{}] = &world{t: t}
	env.Setenv("SHELL", "/bin/sh")
	env.Setenv("SCHEME", strings.TrimSuffix(scheme(), "://"))
	// Under the race detector each process would wait a second at its end.
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	return nil
}

// leaveTerminal gives the terminal up, from which a developer may have started the tests. What the tool does depends
// on one, and a script that needs one gets its own (ttyin).
func leaveTerminal() {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return // there is none
	}
	defer tty.Close()                                      //nolint:errcheck // nothing was written
	_ = unix.IoctlSetInt(int(tty.Fd()), unix.TIOCNOTTY, 0) // then a script about signals fails, and tells
}

// commands are the words that scripts have besides those of testscript.
var commands = map[string]func(*testscript.TestScript, bool, []string){
	"server":        serverCmd,
	"servers":       serversCmd,
	"proxy":         proxyCmd,
	"fault":         faultCmd,
	"redis":         redisCmd,
	"clock":         clockCmd,
	"shows":         showsCmd,
	"await-held":    awaitHeldCmd,
	"await-free":    awaitFreeCmd,
	"await-waiting": awaitWaitingCmd,
	"await-file":    awaitFileCmd,
	"await-gone":    awaitGoneCmd,
	"await-known":   awaitKnownCmd,
	"await-listed":  awaitListedCmd,
	"await-shown":   awaitShownCmd,
	"await-graph":   awaitGraphCmd,
	"await-renewed": awaitRenewedCmd,
	"await-state":   awaitStateCmd,
	"evict":         evictCmd,
	"signal":        signalCmd,
	"await-holders": awaitHoldersCmd,
	"await-entries": awaitEntriesCmd,
	"go-try":        goTryCmd,
}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

// serverCmd: server [-password P | -clock | -operator] starts a server and names it in
// HOLDFAST_REDIS. With -clock, the word clock can set its clock; with -operator, the user may
// do everything.
func serverCmd(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	options := []redistest.Option{redistest.Tenant(target.DefaultPrefix), redistest.Needs("in a database"), listing}
	for _, prefix := range []string{"other", "staging", "mine"} {
		options = append(options, redistest.Allow("~"+prefix+":*", "&"+prefix+":*"))
	}
	switch {
	case len(args) == 2 && args[0] == "-password":
		options = append(options, redistest.Password(args[1]))
	case len(args) == 1 && args[0] == "-operator":
		options = append(options, redistest.AllowAll())
	case len(args) == 1 && args[0] == "-clock":
		options = append(options, redistest.Clock())
	}
	w.server = redistest.Start(w.t, options...)
	w.direct = scheme() + w.server.Addr()
	ts.Setenv("HOLDFAST_REDIS", w.direct)
	ts.Setenv("ADDR", w.server.Addr())
	ts.Setenv("SSL_CERT_FILE", w.server.CAFile())
}

// serversCmd: servers quorum|cluster|sentinel starts several servers and names them in
// HOLDFAST_REDIS. Faults meet the first one.
func serversCmd(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	options := []redistest.Option{redistest.Tenant(target.DefaultPrefix), listing}
	var url string
	switch args[0] {
	case "quorum":
		all := redistest.Primaries(w.t, 3, options...)
		w.server = all[0]
		for _, s := range all {
			url += " " + scheme() + s.Addr()
		}
	case "cluster":
		c := redistest.StartCluster(w.t, append(options, redistest.Args("--cluster-require-full-coverage", "no"))...)
		w.server, w.cluster = c.Nodes[0], c
		url = scheme() + c.Nodes[1].Addr()
		ts.Setenv("SEEDS", strings.TrimSuffix(scheme(), "://")+"+cluster://"+strings.Join(c.Addrs(), ","))
	case "sentinel":
		s := redistest.StartSentinel(w.t, options...)
		w.server = s.Servers[0]
		url = strings.TrimSuffix(scheme(), "://") + "+sentinel://" + strings.Join(s.Addrs(), ",") + "/" + redistest.SentinelName
	default:
		ts.Fatalf("no servers %q", args[0])
	}
	w.direct = url
	ts.Setenv("HOLDFAST_REDIS", url)
	ts.Setenv("ADDR", w.server.Addr())
	ts.Setenv("SSL_CERT_FILE", w.server.CAFile())
}

// proxyCmd: proxy puts a proxy before the server and names it in PROXY.
func proxyCmd(ts *testscript.TestScript, _ bool, _ []string) {
	w := worldOf(ts)
	w.proxy = redistest.NewProxy(w.t, w.server.Addr())
	ts.Setenv("PROXY", scheme()+w.proxy.Addr())
}

// faultCmd: fault blackhole|pass|pause|continue|kill|spoil|mend|lose. With spoil the server cannot save. A node
// of a Cluster that is lost has no replica that replaces it.
func faultCmd(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	faults := map[string]func(){"kill": func() { w.server.Kill() }, "restart": func() { w.server.Restart() },
		"pause": func() { w.server.Pause() }, "continue": func() { w.server.Continue() },
		"spoil": func() { ts.Check(w.server.SpoilSaves()) }, "mend": func() { ts.Check(w.server.MendSaves()) }}
	if w.cluster != nil {
		faults["lose"] = func() {
			for _, s := range append(w.cluster.ReplicasOf(w.server), w.server) {
				s.Kill()
			}
		}
	}
	if w.proxy != nil {
		faults["blackhole"], faults["pass"] = w.proxy.BlackHole, w.proxy.Pass
	}
	fault := faults[args[0]]
	if fault == nil {
		ts.Fatalf("no fault %q", args[0])
	}
	fault()
}

// redisCmd: redis WORD... sends a command past the proxy and prints the answer.
func redisCmd(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	words := make([]any, len(args))
	for i, a := range args {
		words[i] = a
	}
	fmt.Fprintln(ts.Stdout(), w.server.Do(w.t, words...))
}

// poll waits until ok says so.
func poll(ts *testscript.TestScript, what string, ok func() bool) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(redistest.Patience)
	defer late.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late.C:
			ts.Fatalf("not after %v: %s", redistest.Patience, what)
		}
	}
}

// field is a field of a lock's record on the one server.
func field(ts *testscript.TestScript, name, field string) string {
	return strings.Join(fields(ts, name, field), "")
}

// fields are a field of a lock's record on each server that has it: on one of a Cluster, and
// on most of a quorum.
func fields(ts *testscript.TestScript, name, field string) (texts []string) {
	w := worldOf(ts)
	for _, answer := range w.each("HGET", cmp.Or(w.prefix, target.DefaultPrefix)+":{"+name+"}", field) {
		if text, ok := answer.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// each sends a command to each server, past the proxy.
func (w *world) each(words ...any) (answers []any) {
	servers := w.nodes
	if len(servers) == 0 {
		servers = []*redistest.Server{w.server}
	}
	for _, s := range servers {
		answers = append(answers, s.Do(w.t, words...))
	}
	return answers
}

// awaitHeldCmd: await-held NAME: somebody holds it, and has told the server who that is. An
// id may begin with a dash, as one of 64 does; a dash alone is nobody's.
func awaitHeldCmd(ts *testscript.TestScript, _ bool, args []string) {
	held := regexp.MustCompile(`^\d+ \d+ (\S+)/\d+`)
	poll(ts, args[0]+" is held by a client that is known", func() bool {
		w := worldOf(ts)
		for _, text := range fields(ts, args[0], "lock") {
			lock := held.FindStringSubmatch(text)
			if lock == nil {
				continue
			}
			key := cmp.Or(w.prefix, target.DefaultPrefix) + ":client:" + lock[1]
			if slices.Contains(w.each("EXISTS", key), any(int64(1))) {
				return true
			}
		}
		return false
	})
}

// awaitWaitingCmd: await-waiting NAME N: so many wait for it.
func awaitWaitingCmd(ts *testscript.TestScript, _ bool, args []string) {
	queue, only := regexp.MustCompile(`^`+args[1]+` `), regexp.MustCompile(` \+`+args[1]+` `)
	poll(ts, args[1]+" wait for "+args[0], func() bool {
		// The only waiter of a mutex is part of the field lock.
		return slices.ContainsFunc(fields(ts, args[0], "queue"), queue.MatchString) ||
			slices.ContainsFunc(fields(ts, args[0], "lock"), only.MatchString)
	})
}

// awaitHoldersCmd: await-holders NAME N: so many hold it, and all of them are known.
func awaitHoldersCmd(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	poll(ts, args[0]+" has "+args[1]+" holders", func() bool {
		state, ok := statusOf(ts, args[0])
		unknown := slices.ContainsFunc(state.Holders, func(h lockjson.Holder) bool { return h.PID == 0 })
		return ok && len(state.Holders) == n && !unknown
	})
}

// awaitEntriesCmd: await-entries NAME N: so many processes hold it under an owner name.
func awaitEntriesCmd(ts *testscript.TestScript, _ bool, args []string) {
	poll(ts, args[0]+" has "+args[1]+" entries", func() bool {
		return strconv.Itoa(len(strings.Fields(field(ts, args[0], "entries")))) == args[1]
	})
}

// goTryCmd: go-try NAME mutex|writer|reader held|free: a Go program tries the lock.
func goTryCmd(ts *testscript.TestScript, _ bool, args []string) {
	withClient(ts, func(ctx context.Context, c *holdfast.Client) {
		try := map[string]func(context.Context) (*holdfast.Lease, error){
			"mutex":  c.Mutex(args[0]).TryLock,
			"writer": c.RWMutex(args[0]).TryLock,
			"reader": c.RWMutex(args[0]).TryRLock,
		}[args[1]]
		_, err := try(ctx)
		if err != nil && !errors.Is(err, holdfast.ErrHeld) {
			ts.Check(err)
		}
		if held := err != nil; held != (args[2] == "held") {
			ts.Fatalf("%s as %s: %v, want %s", args[0], args[1], err, args[2])
		}
	})
}

// withClient runs f with a client of the server, and closes it.
func withClient(ts *testscript.TestScript, f func(ctx context.Context, c *holdfast.Client)) {
	rdb := redis.NewClient(&redis.Options{Addr: worldOf(ts).server.Addr(), TLSConfig: redistest.TLS()})
	defer rdb.Close()
	client, err := holdfast.New(goredis.New(rdb), holdfast.Config{})
	ts.Check(err)
	ctx := worldOf(ts).t.Context()
	defer func() { ts.Check(client.Close(ctx)) }()
	f(ctx, client)
}

// awaitFreeCmd: await-free NAME: nobody holds it and nobody waits.
func awaitFreeCmd(ts *testscript.TestScript, _ bool, args []string) {
	poll(ts, args[0]+" is free", func() bool {
		state, ok := statusOf(ts, args[0])
		return ok && !state.Held && state.Waiting == 0
	})
}

// awaitFileCmd: await-file FILE [REGEXP]: the file matches, or has any text.
func awaitFileCmd(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile(strings.Join(append([]string{"(?m)"}, args[1:]...), ""))
	poll(ts, "file "+args[0], func() bool {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && len(b) > 0 && want.Match(b)
	})
}

// awaitGoneCmd: await-gone FILE: the process whose id is in the file has ended.
func awaitGoneCmd(ts *testscript.TestScript, _ bool, args []string) {
	pid := pidIn(ts, args[0])
	poll(ts, fmt.Sprintf("process %d has ended", pid), func() bool { return !alive(pid) })
}

func pidIn(ts *testscript.TestScript, file string) int {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(file)))
	ts.Check(err)
	return pid
}

// alive reports whether a process runs. An orphan that nobody has waited for
// yet exists, but does not run.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !os.IsNotExist(err) || !onLinux()
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// awaitStateCmd: await-state FILE STATE: the process whose id is in the file
// is in a state, as T for stopped.
func awaitStateCmd(ts *testscript.TestScript, _ bool, args []string) {
	pid := pidIn(ts, args[0])
	poll(ts, fmt.Sprintf("process %d is in state %s", pid, args[1]), func() bool {
		out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
		return err == nil && strings.HasPrefix(string(out), args[1])
	})
}

// awaitRenewedCmd: await-renewed NAME: its lease has been made longer since now.
func awaitRenewedCmd(ts *testscript.TestScript, _ bool, args []string) {
	// The lease is counted from the token, so a renewal makes it longer.
	before := field(ts, args[0], "lock")
	poll(ts, args[0]+" is renewed", func() bool {
		now := field(ts, args[0], "lock")
		return now != "" && now != before
	})
}

// awaitListedCmd: await-listed NAME TEXT: holdfast list shows the text in the lock's row.
func awaitListedCmd(ts *testscript.TestScript, _ bool, args []string) {
	poll(ts, "list shows "+args[1], func() bool {
		err := ts.Exec("holdfast", "list", "-u", worldOf(ts).direct, "--", args[0])
		return err == nil && strings.Contains(ts.ReadFile("stdout"), args[1])
	})
}

// awaitShownCmd: await-shown NAME TEXT: holdfast inspect shows the text.
func awaitShownCmd(ts *testscript.TestScript, _ bool, args []string) {
	poll(ts, "inspect shows "+args[1], func() bool {
		err := ts.Exec("holdfast", "inspect", "-u", worldOf(ts).direct, "--", args[0])
		return err == nil && strings.Contains(ts.ReadFile("stdout"), args[1])
	})
}

// awaitGraphCmd: await-graph RE: holdfast list --graph prints a text that matches.
func awaitGraphCmd(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile(args[0])
	poll(ts, "list --graph shows "+args[0], func() bool {
		err := ts.Exec("holdfast", "list", "--graph", "-u", worldOf(ts).direct)
		return err == nil && want.MatchString(ts.ReadFile("stdout"))
	})
}

// awaitKnownCmd: await-known NAME: holder and waiter have made themselves known.
func awaitKnownCmd(ts *testscript.TestScript, _ bool, args []string) {
	poll(ts, "both are known", func() bool {
		return process(ts, "holder", args[0]) != 0 && process(ts, "waiter", args[0]) != 0
	})
}

// evictCmd: evict NAME BY REASON takes the lock away from its holder.
func evictCmd(ts *testscript.TestScript, _ bool, args []string) {
	withClient(ts, func(ctx context.Context, c *holdfast.Client) {
		_, err := c.Evict(ctx, args[0], holdfast.Eviction{By: args[1], Reason: args[2]})
		ts.Check(err)
	})
}

func onLinux() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

// signalCmd: signal SIGNAL holder|waiter NAME, signal SIGNAL app APP NAME for the holder
// with that --app, or signal SIGNAL FILE with a process id in it. Who holds and waits is what holdfast status says.
func signalCmd(ts *testscript.TestScript, _ bool, args []string) {
	sig := unix.SignalNum("SIG" + args[0])
	pid := 0
	switch {
	case len(args) == 2:
		pid = pidIn(ts, args[1])
	case args[1] == "app":
		poll(ts, fmt.Sprintf("%s holds %s", args[2], args[3]), func() bool {
			state, _ := statusOf(ts, args[3])
			i := slices.IndexFunc(state.Holders, func(h lockjson.Holder) bool { return h.App == args[2] })
			if i >= 0 {
				pid = state.Holders[i].PID
			}
			return pid != 0
		})
	default:
		poll(ts, fmt.Sprintf("%s of %s is known", args[1], args[2]), func() bool {
			pid = process(ts, args[1], args[2])
			return pid != 0
		})
	}
	ts.Check(syscall.Kill(pid, sig))
	if sig == unix.SIGSTOP && onLinux() {
		poll(ts, fmt.Sprintf("%d has stopped", pid), func() bool { return stopped(pid) })
	}
}

// stopped reports whether every thread of a process is stopped. The kernel tells one thread at
// once, and that one tells the others when it runs.
func stopped(pid int) bool {
	states, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return err == nil && !slices.ContainsFunc(states, func(path string) bool {
		text, err := os.ReadFile(path)
		_, state, _ := strings.Cut(string(text), ") ")
		return err == nil && !strings.HasPrefix(state, "T")
	})
}

// statusOf is what holdfast status says, past the proxy.
func statusOf(ts *testscript.TestScript, name string) (state lockjson.State, ok bool) {
	_ = ts.Exec("holdfast", "status", "--json", "-u", worldOf(ts).direct, "--", name) // 75 if held
	err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &state)
	return state, err == nil
}

func process(ts *testscript.TestScript, who, name string) int {
	state, _ := statusOf(ts, name)
	switch {
	case who == "holder" && len(state.Holders) > 0:
		return state.Holders[0].PID
	case who == "waiter" && len(state.Waiters) > 0:
		return state.Waiters[0].PID
	}
	return 0
}
