package hold

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

// Variables that a command finds.
const (
	envHeld    = "HOLDFAST_LOCK_HELD"
	envLock    = "HOLDFAST_LOCK_NAME"
	envChain   = "HOLDFAST_LOCK_CHAIN"
	envID      = "HOLDFAST_LOCK_ID" // from holdfast acquire only
	envToken   = "HOLDFAST_LOCK_TOKEN"
	envPermits = "HOLDFAST_LOCK_PERMITS"
	envLimit   = "HOLDFAST_LOCK_LIMIT"
	envOwner   = "HOLDFAST_LOCK_OWNER"
)

// heldLock is what a command finds about its lock. The holder ID is not in it: with
// that, a program can renew and release the lock.
type heldLock struct {
	names, keys    []string
	tokens         []uint64
	mode           string
	permits, limit int // of a semaphore
	owner          string
	ttl            time.Duration
	at             time.Time
	chain          string
	server         string   // its URL without the password; empty: the command finds it by itself
	prefix         string   // of the keys; empty: the command finds it by itself
	inside         []string // the other variables of the connection
}

// flagVariables are the variables that set a flag of some command. A command under a lock does not inherit
// them: they are options of this run, and would be those of each run inside it. The flags of all commands say
// where the locks are, and hold inside, too.
func flagVariables(root *cobra.Command) (variables []string) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if name := cli.EnvName(f.Name); !slices.Contains(cli.NoFlagVariables, name) {
				variables = append(variables, name)
			}
		})
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(root)
	return variables
}

// environment is the environment of a command. Our variables replace those of an outer
// run: of two with one name, some programs take the first. The command does not inherit options, but where the
// locks are.
//
// Without --pass-url, the password is not in it. The rest of the URL is, and so are the files of the connection's
// flags: a holdfast inside the command might fall back to another server otherwise. It would lock nothing, and nobody
// would notice.
func environment(base []string, g heldLock, options []string, passURL bool) []string {
	ours := []string{
		envHeld + "=true",
		envLock + "=" + strings.Join(g.names, "\n"),
		"HOLDFAST_LOCK_KEY=" + strings.Join(g.keys, "\n"),
		envToken + "=" + strings.Join(g.tokenTexts(), "\n"),
		fmt.Sprintf("HOLDFAST_LOCK_TTL_MS=%d", g.ttl.Milliseconds()),
		"HOLDFAST_LOCK_MODE=" + g.mode,
		fmt.Sprintf("HOLDFAST_LOCK_PID=%d", os.Getpid()),
		"HOLDFAST_LOCK_ACQUIRED_AT=" + lockjson.Stamp(g.at),
		envChain + "=" + g.chain,
	}
	if g.permits > 0 {
		ours = append(ours, fmt.Sprintf(envPermits+"=%d", g.permits), fmt.Sprintf(envLimit+"=%d", g.limit))
	}
	if g.owner != "" {
		ours = append(ours, envOwner+"="+g.owner)
	}
	if g.prefix != "" {
		ours = append(ours, target.EnvPrefix+"="+g.prefix)
	}
	if !passURL && g.server != "" {
		ours = append(ours, "HOLDFAST_REDIS="+g.server)
	}
	if !passURL {
		ours = append(ours, g.inside...)
	}
	drop := func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "HOLDFAST_REDIS", "HOLDFAST_PASSWORD", "HOLDFAST_SENTINEL_PASSWORD":
			return !passURL
		case envPermits, envLimit, envOwner, envID: // of a lock around ours
			return true
		}
		replaced := func(o string) bool { return strings.HasPrefix(o, name+"=") }
		return slices.Contains(options, name) || slices.ContainsFunc(ours, replaced)
	}
	return append(slices.DeleteFunc(slices.Clone(base), drop), ours...)
}

// tokenTexts are the tokens as texts.
func (g heldLock) tokenTexts() []string {
	texts := make([]string, len(g.tokens))
	for i, token := range g.tokens {
		texts[i] = tokenText(token)
	}
	return texts
}

func tokenText(token uint64) string { return strconv.FormatUint(token, 10) }

// link is the word of a chain for one lock: its key, behind a mark that no encoded name has.
func link(key string) string { return "#" + key }

// clientOf is the word of a chain behind a link: the ID of the client that holds the lock. With
// it nobody can renew or release the lock.
func clientOf(id string) string { return "=" + id }

// around are the holds in a chain that are under this prefix of the keys. They may be on another server:
// a chain has no addresses, because one server has many. The library looks for the client at the server.
func around(chain, prefix string) (holds []holdfast.LeaseInfo) {
	words := strings.Fields(chain)
	for i, word := range words[:max(len(words)-1, 0)] {
		client, ours := strings.CutPrefix(words[i+1], clientOf(""))
		rest, same := strings.CutPrefix(word, link(prefix+":{"))
		name, _, whole := strings.Cut(rest, "}") // the name in a key has none
		name, err := url.PathUnescape(name)
		if ours && same && whole && client != "" && err == nil {
			holds = append(holds, holdfast.LeaseInfo{Name: name, HolderID: client})
		}
	}
	return holds
}

// clientsOf are the clients of all runs in a chain, whatever they hold.
func clientsOf(chain string) (clients []string) {
	for word := range strings.FieldsSeq(chain) {
		if client, found := strings.CutPrefix(word, clientOf("")); found && client != "" {
			clients = append(clients, client)
		}
	}
	return clients
}

// heldAround returns whether one of these clients holds the lock in such a way that a run with this
// owner name would wait for it. A hold that is released, and kept for a while, ends by itself.
func heldAround(lock holdfast.LockInfo, clients []string, owner string) bool {
	return slices.ContainsFunc(lock.Holders, func(h holdfast.Holder) bool {
		return !h.Released && slices.Contains(clients, h.ClientID) && (h.Owner == "" || h.Owner != owner)
	})
}
