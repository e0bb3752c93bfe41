package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// manual is the page that says which permissions a client needs. The clients of secured
// servers get exactly these, so the page is complete and up to date.
const manual = "docs/server.md"

// Rights returns the permissions that the manual gives a client of the server, secured or not,
// as arguments of ACL SETUSER.
func (s *Server) Rights(t testing.TB) []string {
	t.Helper()
	rules, err := s.rights()
	assert.MustTrue(t, err == nil, "redistest: %v", err)
	return rules
}

func (s *Server) rights() ([]string, error) {
	text, err := readManual()
	if err != nil {
		return nil, err
	}
	if s.sentinel != "" {
		return manualRow(text, "of a Sentinel")
	}
	rules, err := manualUser(text, s.tenant, s.cluster)
	if err != nil {
		return nil, err
	}
	for _, role := range s.roles {
		row, err := manualRow(text, role)
		if err != nil {
			return nil, err
		}
		rules = append(rules, row...)
	}
	if old, err := withoutWaitAOF(s.binary); err != nil {
		return nil, err
	} else if old {
		rules = strings.Fields(strings.ReplaceAll(strings.Join(rules, " "), "+waitaof", ""))
	}
	return rules, nil
}

// Needs gives the clients of a secured server the permissions in a row of the manual's table.
// row is the beginning of that row.
func Needs(row string) Option { return func(s *Server) { s.roles = append(s.roles, row) } }

// readManual finds the manual above the directory that a test runs in.
func readManual() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		var text []byte
		if text, err = os.ReadFile(filepath.Join(dir, manual)); err == nil {
			return string(text), nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		if errors.Is(err, os.ErrNotExist) {
			dir, err = up, nil
		}
	}
	return "", fmt.Errorf("servers are secured by what %s says, which is not above this directory: %w", manual, err)
}

// userLine is pasted into redis-cli, which takes a command on one line.
var userLine = regexp.MustCompile(`(?m)^ACL SETUSER locks on >SECRET (.+) (\+pubsub\|numsub .+)$`)

// manualUser returns the user that the manual makes, for a tenant. In a Cluster, the row for
// the Cluster replaces what is there for pushes.
func manualUser(text, tenant string, cluster bool) ([]string, error) {
	found := userLine.FindStringSubmatch(text)
	if found == nil {
		return nil, fmt.Errorf("%s has no line ACL SETUSER locks on >SECRET …", manual)
	}
	pushes := strings.Fields(found[2])
	if cluster {
		row, err := manualRow(text, "in a Cluster")
		if err != nil {
			return nil, err
		}
		pushes = row
	}
	var rules []string
	for _, rule := range append(strings.Fields(found[1]), pushes...) {
		if tenant == "" {
			rule = strings.Replace(rule, "holdfast:*", "*", 1)
		}
		rules = append(rules, strings.Replace(rule, "holdfast:", tenant+":", 1))
	}
	return rules, nil
}

var code = regexp.MustCompile("`([^`]+)`")

// manualRow returns the permissions in a row of the table. words is the beginning of the row.
func manualRow(text, words string) ([]string, error) {
	for line := range strings.Lines(text) {
		who, what, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !ok || !strings.HasPrefix(who, words) {
			continue
		}
		var rules []string
		for _, found := range code.FindAllStringSubmatch(what, -1) {
			rules = append(rules, strings.Fields(strings.ReplaceAll(found[1], `\|`, "|"))...)
		}
		return rules, nil
	}
	return nil, fmt.Errorf("the table in %s has no row %q", manual, words)
}

// withoutWaitAOF reports whether the server is older than Redis 7.2. Such a server refuses a
// permission for a command that it does not know.
func withoutWaitAOF(binary string) (bool, error) {
	said, err := exec.Command(binary, "--version").Output()
	return strings.Contains(string(said), " v=7.0."), err
}
