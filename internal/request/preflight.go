package request

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Preflight asks the server, once, whether it can run the scripts: whether it is a
// primary, new enough, and lets its user run what the scripts are made of. After an
// answer without an error nothing more is asked: a server that becomes a replica
// refuses the scripts themselves.
type Preflight struct {
	sender *Sender

	checked atomic.Bool
	allowed atomic.Bool
	server  atomic.Pointer[store.ServerInfo]
}

// NewPreflight makes one.
func NewPreflight(s *Sender) *Preflight { return &Preflight{sender: s} }

// Passed reports that there is nothing left to check for a lock with these acknowledgements.
func (p *Preflight) Passed(need Acks) bool {
	return p.checked.Load() && p.allowed.Load() && need.Need.LocalAOF == 0
}

// Server refuses a server that cannot run the scripts, or would answer from a copy.
// Nothing was taken there.
func (p *Preflight) Server(ctx context.Context) error {
	if p.checked.Load() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, p.sender.Timeout)
	defer cancel()
	info, err := p.sender.Store.Server(limited)
	switch {
	case IsPermission(err):
		// Not allowed to ask: the scripts will show what is missing.
	case err != nil:
		return Unsent(InTime(ctx, err))
	default:
		if err := usable(info); err != nil {
			return err
		}
		p.server.Store(&info)
	}
	p.checked.Store(true)
	return nil
}

// Check is Server, and refuses what a lock with these keys and acknowledgements, whose
// pushes arrive on channel, cannot have from it. That the server's user may not push is
// told apart: locks work without pushes.
func (p *Preflight) Check(ctx context.Context, need Acks, keys []string, channel string) (noPushes, err error) {
	if err := p.Server(ctx); err != nil {
		return nil, err
	}
	if err := p.acks(need); err != nil {
		return nil, err
	}
	return p.permission(ctx, keys, channel)
}

// acks refuses, as far as it can be known, a server that has no WAITAOF.
func (p *Preflight) acks(need Acks) error {
	info := p.server.Load()
	if need.Need.LocalAOF == 0 || info == nil || !older(*info, 7, 2) {
		return nil
	}
	return &store.ServerError{Code: "WAITAOF", Message: fmt.Sprintf(
		"WAITAOF the server at %s is %s %s", info.Address, info.Product, info.Version)}
}

// permission asks whether the server's user may run what the scripts are made of: a
// command that is refused in the middle of a script would leave its first writes
// behind. Every refusal but that one is left to the script itself.
func (p *Preflight) permission(ctx context.Context, keys []string, channel string) (noPushes, err error) {
	if p.allowed.Load() {
		return nil, nil
	}
	answer, err := p.sender.Run(ctx, script.CheckACL, keys, []string{channel})
	if err != nil {
		if Refusal(err) != nil && !IsPermission(err) {
			return nil, nil
		}
		return nil, Unsent(err) // it changes nothing
	}
	var needed, pushing []string
	for _, command := range wire.ParseMissing(answer) {
		switch command {
		case "publish", "spublish", "pubsub|numsub", "pubsub|shardnumsub":
			pushing = append(pushing, command)
		default:
			needed = append(needed, command)
		}
	}
	if len(pushing) > 0 {
		noPushes = p.lacking(pushing)
	}
	if len(needed) > 0 {
		return noPushes, p.lacking(needed)
	}
	p.allowed.Store(true)
	return noPushes, nil
}

// lacking is the refusal for commands that the server's user may not run.
func (p *Preflight) lacking(commands []string) error {
	refused := &store.ServerError{
		Code: "NOPERM",
		Message: fmt.Sprintf("NOPERM the user may not run %s, which the locks are made of: ACL SETUSER USER %s",
			strings.Join(commands, ", "), Grants(commands, p.sender.Prefix)),
	}
	return &PermissionError{ServerError: refused, Prefix: p.sender.Prefix, Lacking: commands}
}

// Grants are the ACL rules that permit the commands. A server does not tell a
// forbidden channel from a forbidden publish.
func Grants(commands []string, prefix string) string {
	rules := "+" + strings.Join(commands, " +")
	if slices.Contains(commands, "publish") || slices.Contains(commands, "spublish") {
		rules += " &" + prefix + ":*"
	}
	return rules
}

// usable refuses a server on which the scripts would not work, or would answer
// from a copy.
func usable(i store.ServerInfo) error {
	if i.Role == "replica" || i.Role == "slave" {
		return &store.ServerError{Code: "REPLICA", Message: "REPLICA the server at " + i.Address + " is a replica"}
	}
	oldest := [2]int{7, 0}
	if i.Product == "valkey" {
		oldest = [2]int{7, 2}
	}
	if older(i, oldest[0], oldest[1]) {
		return &store.ServerError{Code: "VERSION", Message: fmt.Sprintf(
			"VERSION the server at %s is %s %s, too old", i.Address, i.Product, i.Version)}
	}
	return nil
}

// older reports that the server's version is before major.minor. A version that it
// does not tell is not: the scripts will show.
func older(i store.ServerInfo, major, minor int) bool {
	first, rest, _ := strings.Cut(i.Version, ".")
	second, _, _ := strings.Cut(rest, ".")
	have, err := strconv.Atoi(first)
	if err != nil {
		return false
	}
	sub, _ := strconv.Atoi(second)
	return have < major || have == major && sub < minor
}
