package stringlock

import (
	"embed"
	"strings"

	"github.com/holdfast-go/holdfast/internal/neighbour"
	"github.com/holdfast-go/holdfast/script"
)

//go:embed *.lua
var files embed.FS

// The scripts. Their names put them into the library's order of requests.
var (
	acquireScript = load("acquire")
	releaseScript = load("release")
	extendScript  = load("extend")
	readScript    = load("read")
	evictScript   = load("evict")
)

// load reads a script and removes its comment lines.
func load(name string) *script.Script {
	source, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic("BUG: no embedded script " + name)
	}
	var code strings.Builder
	for line := range strings.Lines(string(source)) {
		if !strings.HasPrefix(line, "--") {
			code.WriteString(line)
		}
	}
	if name == extendScriptName {
		name = script.Renew.Name
	}
	return neighbour.NewScript(name, verdict(string(source)), code.String())
}

// verdict reads from the header of a script whether it may be repeated.
func verdict(source string) neighbour.Verdict {
	_, rest, _ := strings.Cut(source, "\n-- REPEATS ")
	switch word, _, _ := strings.Cut(rest, ":"); word {
	case "yes":
		return neighbour.Repeats
	case "no":
		return neighbour.Once
	}
	panic("BUG: the header of a script does not say whether it may be repeated:\n" + source)
}

// extendScriptName is the file of the script that stores send before others, as they do renew.
const extendScriptName = "extend"
