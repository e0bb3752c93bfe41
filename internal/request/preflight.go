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

// Preflight asks the server, once, whether it can run the scripts: whether it is a primary,
// new enough, and lets its user run the commands of the scripts. After one answer without an
// error it does not ask again. A server that becomes a replica refuses the scripts
// themselves.
type Preflight struct {
	sender *Sender

	checked atomic.Bool
	allowed atomic.Bool
	server  atomic.Pointer[store.ServerInfo]
}

// NewPreflight makes one.
func NewPreflight(s *Sender) *Preflight { return &Preflight{sender: s} }

// Passed reports whether nothing is left to check for a lock with these acknowledgements.
func (p *Preflight) Passed(need Acks) bool {
	return p.checked.Load() && p.allowed.Load() && need.Need.LocalAOF == 0
}

// Server returns an error for a server that cannot run the scripts, or is a replica. After
// the error the caller holds nothing there.
func (p *Preflight) Server(ctx context.Context) error {
	if p.checked.Load() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, p.sender.Timeout)
	defer cancel()
	info, err := p.sender.Store.Server(limited)
	switch {
	case IsPermission(err):
		// The user may not ask. If more is missing, the scripts will be refused.
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

// IsQuorum reports whether the store is a quorum, if [Preflight.Server] could ask.
func (p *Preflight) IsQuorum() bool {
	info := p.server.Load()
	return info != nil && info.Mode == "quorum"
}

// Check is Server for one lock: it also returns an error if the server cannot give the
// acknowledgements, or if its user lacks a permission for the keys. channel is where the
// pushes arrive. If only the permission for pushes is missing, Check returns that as
// noPushes, because locks work without pushes.
func (p *Preflight) Check(ctx context.Context, need Acks, keys []string, channel string) (noPushes, err error) {
	if err := p.Server(ctx); err != nil {
		return nil, err
	}
	if err := p.acks(need); err != nil {
		return nil, err
	}
	return p.permission(ctx, keys, channel)
}

// acks returns an error if the lock needs WAITAOF and the server's version has none.
func (p *Preflight) acks(need Acks) error {
	info := p.server.Load()
	if need.Need.LocalAOF == 0 || info == nil || !older(*info, 7, 2) {
		return nil
	}
	return &store.ServerError{Code: "WAITAOF", Message: fmt.Sprintf(
		"WAITAOF the server at %s is %s %s, which does not have WAITAOF", info.Address, info.Product, info.Version)}
}

// permission asks whether the server's user may run the commands of the scripts. If the
// server refused a command in the middle of a script, the first writes of the script would
// remain. Other refusals come from the scripts themselves.
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
	missing, servers := wire.ParseMissing(answer)
	for _, command := range missing {
		switch command {
		case "publish", "spublish", "pubsub|numsub", "pubsub|shardnumsub":
			pushing = append(pushing, command)
		default:
			needed = append(needed, command)
		}
	}
	if len(pushing) > 0 {
		noPushes = p.lacking(pushing, servers)
	}
	if len(needed) > 0 {
		return noPushes, p.lacking(needed, servers)
	}
	p.allowed.Store(true)
	return noPushes, nil
}

// lacking returns the refusal for commands that the server's user may not run. servers is empty if
// there is only one.
func (p *Preflight) lacking(commands []string, servers string) error {
	if servers != "" {
		servers = " at " + servers
	}
	refused := &store.ServerError{
		Code: "NOPERM",
		Message: fmt.Sprintf("NOPERM the user%s may not run %s, which locks need: ACL SETUSER USER %s",
			servers, strings.Join(commands, ", "), Grants(commands, p.sender.Prefix)),
	}
	return &PermissionError{Err: refused, Prefix: p.sender.Prefix, Lacking: commands}
}

// Grants returns the ACL rules that permit the commands. It adds the channels to a missing
// publish, because the server's answer is the same for both.
func Grants(commands []string, prefix string) string {
	rules := "+" + strings.Join(commands, " +")
	if slices.Contains(commands, "publish") || slices.Contains(commands, "spublish") {
		rules += " &" + prefix + ":*"
	}
	return rules
}

// usable returns an error for a server that is too old for the scripts, or is a replica.
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

// older reports whether the server's version is before major.minor. An unknown version is
// not: if it is too old, the scripts will be refused.
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
