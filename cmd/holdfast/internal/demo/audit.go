package demo

import (
	"context"
	"crypto/sha1" // names a script to EVALSHA; no security rests on it
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

//go:embed audit.lua
var auditText string

// auditKey is the list that audit.lua appends to.
const auditKey = "holdfast-demo:audit"

// auditStore is a Store whose actions keep an account of themselves at the
// server: audit.lua says how, and why the account is the truth. Only the demo
// does this; it costs the server about ten microseconds for each action.
type auditStore struct {
	store.Store
	audited map[*script.Script]*script.Script
}

func newAuditStore(st store.Store) auditStore {
	s := auditStore{Store: st, audited: make(map[*script.Script]*script.Script)}
	for _, action := range script.All() {
		s.audited[action] = audited(action)
	}
	return s
}

// audited is the action with its notes.
func audited(action *script.Script) *script.Script {
	text := strings.Replace(auditText, "'ACTION'", "'"+action.Name+"'", 1)
	text = strings.Replace(text, "--include action", action.Body(), 1)
	sum := sha1.Sum([]byte(text))
	return &script.Script{Name: action.Name, Text: text, SHA1: hex.EncodeToString(sum[:])}
}

// Run implements [holdfast.Store].
func (s auditStore) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	return s.Store.Run(ctx, s.audited[action], keys, args)
}

// readAudit takes the notes off the server that were added since it was last
// called, so that a long run does not fill the server's memory.
func readAudit(ctx context.Context, rdb *redis.Client) ([]change, error) {
	const batch = 10_000
	var changes []change
	for {
		lines, err := rdb.LPopCount(ctx, auditKey, batch).Result()
		if errors.Is(err, redis.Nil) {
			return changes, nil
		}
		if err != nil {
			return changes, fmt.Errorf("reading the audit: %w", err)
		}
		for _, line := range lines {
			c, err := parseChange(line)
			if err != nil {
				return changes, err
			}
			changes = append(changes, c)
		}
		if len(lines) < batch {
			return changes, nil
		}
	}
}
