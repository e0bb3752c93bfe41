package script_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/script"
)

// calls are how scripts call a command whose name stands there.
var calls = regexp.MustCompile(`(?:redis\.p?call|\bcall)\('([A-Z]+)'`)

// The check of a set-up asks for every command that an action may need. One that it leaves
// out would be refused in the midst of an action.
func TestEveryCommandOfAnActionIsAskedFor(t *testing.T) {
	needed := map[string]bool{"PUBLISH": true, "SPUBLISH": true}
	for _, s := range script.All() {
		if s == script.CheckACL {
			continue
		}
		for _, found := range calls.FindAllStringSubmatch(s.Text, -1) {
			// INFO has a permission of its own: only a quorum's servers are asked for it.
			if found[1] != "INFO" {
				needed[found[1]] = true
			}
		}
	}
	if len(needed) < 10 {
		t.Errorf("commands were found: %v", needed)
	}
	for command := range needed {
		name := strings.ToLower(command)
		asked := fmt.Sprintf("need('%s'", name)
		if slices.Contains([]string{"PUBLISH", "SPUBLISH"}, command) {
			asked = fmt.Sprintf("'%s'", name)
		}
		if !strings.Contains(script.CheckACL.Text, asked) {
			t.Errorf("an action calls %s, and the check does not ask for it", command)
		}
	}
}
