package script_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/script"
)

// calls matches calls with a literal command name.
var calls = regexp.MustCompile(`(?:redis\.p?call|\bcall)\('([A-Z]+)'`)

// check_acl asks for every command that a script may call. A missing one would be refused
// in the middle of a script.
func TestEveryCommandOfAnActionIsAskedFor(t *testing.T) {
	needed := map[string]bool{"PUBLISH": true, "SPUBLISH": true}
	for _, s := range script.All() {
		if s == script.CheckACL {
			continue
		}
		for _, found := range calls.FindAllStringSubmatch(s.Text, -1) {
			// INFO needs its own permission, and only the servers of a quorum are asked
			// for it.
			if found[1] != "INFO" {
				needed[found[1]] = true
			}
		}
	}
	assert.AtLeast(t, len(needed), 10, "commands were found: %v", needed)
	for command := range needed {
		name := strings.ToLower(command)
		asked := fmt.Sprintf("need('%s'", name)
		if slices.Contains([]string{"PUBLISH", "SPUBLISH"}, command) {
			asked = fmt.Sprintf("'%s'", name)
		}
		assert.True(t, strings.Contains(script.CheckACL.Text, asked),
			"an action calls %s, and the check does not ask for it", command)
	}
}
