package script_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
)

// A header is documentation that a test reads. Its grammar, one item a line,
// in this order; a line that begins with two or more spaces goes on with the
// item before it:
//
//	#!lua flags=…                        what the server is to know before it runs it
//	-- NAME — what it does.
//	--
//	-- KEYS   INDEX NAME  meaning        INDEX n: one for each lease or lock
//	-- ARGV   INDEX NAME  meaning
//	--
//	-- ANSWER WORD …      meaning        LINE and EACH: parts of the answer
//	-- ERROR  CODE        meaning        FORMAT first if record is included, and only then
//	--
//	-- HOLDS  invariants
//	-- REPEATS yes: or no: reason         see Script.Repeats
//	-- WHY    reason for one step
type header struct {
	title string
	items map[string][][]string // KEYS, ARGV, …: the words of each item
}

var (
	firstLine = regexp.MustCompile(`^#!lua( flags=(allow-oom|no-writes))?$`)
	titleLine = regexp.MustCompile(`^-- (\w+) — .*\.$`)
	itemLine  = regexp.MustCompile(`^-- (KEYS|ARGV|ANSWER|LINE|EACH|ERROR|HOLDS|REPEATS|WHY) +(\S.*)$`)
)

// split parses a script's header and returns what stands below it.
func split(t *testing.T, s *script.Script) (header, string) {
	t.Helper()
	h := header{items: map[string][][]string{}}
	lines := strings.Split(s.Source(), "\n")
	if !firstLine.MatchString(lines[0]) {
		t.Fatalf("the first line declares nothing: %q", lines[0])
	}
	assert.MustEqual(t, s.Declaration(), lines[0]+"\n", "the server is told")
	lines = lines[1:]
	title := titleLine.FindStringSubmatch(lines[0])
	if title == nil {
		t.Fatalf("the second line is no title: %q", lines[0])
	}
	h.title = title[1]
	for i, line := range lines[1:] {
		item := itemLine.FindStringSubmatch(line)
		switch {
		case item != nil:
			h.items[item[1]] = append(h.items[item[1]], strings.Fields(item[2]))
		case line == "--" || strings.HasPrefix(line, "--   "):
		case line == "":
			return h, strings.Join(lines[i+1:], "\n")
		default:
			t.Fatalf("line %d of the header is of no known form: %q", i+3, line)
		}
	}
	t.Fatal("nothing but a header")
	return h, ""
}

func each(t *testing.T, check func(t *testing.T, s *script.Script, h header, body string)) {
	for _, s := range script.All() {
		t.Run(s.Name, func(t *testing.T) {
			h, body := split(t, s)
			check(t, s, h, body)
		})
	}
}

// part is the text of record.lua.
func part(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("record.lua")
	assert.Must(t, err)
	return string(text)
}

func TestHeaderIsComplete(t *testing.T) {
	each(t, func(t *testing.T, s *script.Script, h header, body string) {
		assert.Equal(t, h.title, s.Name, "the title names")
		for _, kind := range []string{"KEYS", "ANSWER", "HOLDS", "REPEATS", "WHY"} {
			assert.True(t, len(h.items[kind]) != 0, "the header has no %s", kind)
		}
		included := strings.Contains(body, "--include record")
		declared := len(h.items["ERROR"]) > 0 && h.items["ERROR"][0][0] == "FORMAT"
		assert.True(t, included == declared,
			"record is included: %v, ERROR FORMAT is declared: %v", included, declared)
		_, err := os.Stat(s.Name + ".txt")
		assert.True(t, err == nil, "no golden transcript stands beside the script")
	})
}

var (
	binding  = regexp.MustCompile(`(?m)^local ([\w, ]+) = (.*(?:KEYS|ARGV).*)$`)
	argument = regexp.MustCompile(`^(?:tonumber\()?(KEYS|ARGV)\[(\d+)\]\)?$`)
	anyIndex = regexp.MustCompile(`(KEYS|ARGV)\[([^\]]+)\]`)
)

// bound finds the names that the body's first lines give to its arguments, as
// "ARGV 2 ttl".
func bound(t *testing.T, body string) (found []string) {
	t.Helper()
	for _, m := range binding.FindAllStringSubmatch(body, -1) {
		if strings.Contains(m[2], "call(") {
			continue // used in place, without a name
		}
		names, values := strings.Split(m[1], ", "), strings.Split(m[2], ", ")
		if len(names) != len(values) {
			t.Fatalf("names and values differ in number: %s", m[0])
		}
		for i, value := range values {
			if a := argument.FindStringSubmatch(value); a != nil {
				found = append(found, a[1]+" "+a[2]+" "+names[i])
			}
		}
	}
	return found
}

func TestHeaderNamesTheArguments(t *testing.T) {
	each(t, func(t *testing.T, s *script.Script, h header, body string) {
		var declared, indices []string
		for _, kind := range []string{"KEYS", "ARGV"} {
			for _, item := range h.items[kind] {
				if item[0] != "n" {
					declared = append(declared, kind+" "+item[0]+" "+item[1])
				}
				indices = append(indices, kind+" "+item[0])
			}
		}
		names := bound(t, body)
		for _, item := range declared {
			assert.False(t, item != "KEYS 1 key" && !slices.Contains(names, item),
				"declared, but not given that name in the body: %s", item)
		}
		for _, item := range names {
			assert.True(t, slices.Contains(declared, item), "used, but not declared: %s", item)
		}
		var used []string
		for _, m := range anyIndex.FindAllStringSubmatch(body, -1) {
			index := m[1] + " " + m[2]
			if m[2] == "i" || strings.ContainsAny(m[2], "+*") {
				index = m[1] + " n"
			}
			used = append(used, index)
			assert.True(t, slices.Contains(indices, index), "%s is used, but not declared", index)
		}
		if strings.Contains(body, "ipairs(KEYS)") {
			used = append(used, "KEYS n")
		}
		for _, index := range indices {
			assert.True(t, slices.Contains(used, index), "%s is declared, but not used", index)
		}
	})
}

var (
	literal  = regexp.MustCompile(`'([a-z]+)(?: [^']*)?'`)
	returned = regexp.MustCompile(`return [^\n]*?'([a-z]+)(?: [^']*)?'`)
)

func TestHeaderDeclaresTheAnswers(t *testing.T) {
	each(t, func(t *testing.T, s *script.Script, h header, body string) {
		text := body
		if strings.Contains(body, "--include record") {
			text += part(t)
		}
		said := map[string]bool{}
		for _, m := range literal.FindAllStringSubmatch(text, -1) {
			said[m[1]] = true
		}
		declared := map[string]bool{}
		for _, kind := range []string{"ANSWER", "LINE", "EACH"} {
			for _, item := range h.items[kind] {
				word := item[0]
				declared[word] = true
				assert.False(t, regexp.MustCompile(`^[a-z]+$`).MatchString(word) && !said[word],
					"%s %s is declared, but never said", kind, word)
			}
		}
		for _, m := range returned.FindAllStringSubmatch(body, -1) {
			if !declared[m[1]] {
				t.Errorf("the answer %q is given, but not declared", m[1])
			}
		}
	})
}

var command = regexp.MustCompile(`p?call\((?:'(\w+)'|(\w+))(?:,\s*([^,)]+))?`)

// Every command works on a declared key, except those that count subscribers and publish.
func TestNoKeyIsBuilt(t *testing.T) {
	check := func(t *testing.T, text string) {
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			switch name, key := m[1], m[3]; {
			case name == "TIME" && key == "":
			case m[0] == "pcall(push": // the arguments are those of send or proclaim
			case name == "" && m[2] == "verb" && (key == "channel" || key == "other"):
			case name == "PUBSUB" && key == "count":
			case name == "INFO" && key == "'server'":
			case m[2] == "judge": // reads the record at key
			case m[2] == "check": // asks about a command, and runs none
			case name != "" && (key == "key" || key == "mark_key" || key == "KEYS[1]"):
			default:
				t.Errorf("a command on something that is not the key: %s", m[0])
			}
		}
		for _, m := range regexp.MustCompile(`\bkey = [^=]`).FindAllString(text, -1) {
			t.Errorf("key is set again: %s", m)
		}
	}
	each(t, func(t *testing.T, s *script.Script, h header, body string) { check(t, body) })
	t.Run("record", func(t *testing.T) { check(t, part(t)) })
}

// Each path through a script reads the clock once: the fast path in front of record.lua,
// if there is one, and record.lua.
func TestTimeIsReadOnce(t *testing.T) {
	const read = "call('TIME')"
	assert.Equal(t, strings.Count(part(t), read), 1, "how often record reads the clock")
	each(t, func(t *testing.T, s *script.Script, h header, body string) {
		short, rest, included := strings.Cut(body, "--include record")
		assert.AtMost(t, strings.Count(short, read), 1, "how often the clock is read")
		n := strings.Count(rest, read)
		assert.False(t, included && n > 0, "the clock is read again behind the shared part")
	})
}

// The scripts use only what every server and fake has: plain Lua 5.1 with redis.call,
// redis.pcall and redis.error_reply.
func TestPlainLua(t *testing.T) {
	api := regexp.MustCompile(`redis\.(\w+)`)
	each(t, func(t *testing.T, s *script.Script, h header, body string) {
		for _, word := range []string{"cmsgpack", "struct.", "bit.", "cjson"} {
			assert.False(t, strings.Contains(s.Text, word), "uses %s", word)
		}
		for _, m := range api.FindAllStringSubmatch(s.Text, -1) {
			// Only if the script checks that it exists.
			if m[1] == "acl_check_cmd" && regexp.MustCompile(`if (not )?check then`).MatchString(s.Text) {
				continue
			}
			if !slices.Contains([]string{"call", "pcall", "error_reply"}, m[1]) {
				t.Errorf("uses redis.%s", m[1])
			}
		}
		for line := range strings.Lines(s.Text) {
			assert.False(t, strings.Contains(line, "--"), "a comment is sent to the server: %s", line)
		}
	})
}

// Lua compares texts in the order of the server's locale, where ':' may come before '0'
// and 'B' after 'a'. So the scripts compare only numbers by size. Lua refuses to compare
// a number with a text, so it is enough if one side is known to be a number.
func TestNoTextIsCompared(t *testing.T) {
	var (
		compared = regexp.MustCompile(`(\S+) (?:<=|>=|<|>) (\S+)`)
		number   = regexp.MustCompile(`^\(?(\d+(?:e\d+)?|ms|#.+|tonumber\(.*|now|micros|expiry|soonest|waiting|used|` +
			`place|first|bound|latest|permits|fence|spaces|asked_limit|limit|n|at|` +
			`head|cursor|tail|last|reached|over|till|poll_at|.*_window|h\[2\]|a\[1\])[,)]?$`)
	)
	check := func(t *testing.T, text string) {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(strings.TrimSpace(line), "--") {
				continue
			}
			for _, m := range compared.FindAllStringSubmatch(line, -1) {
				assert.False(t, !number.MatchString(m[1]) && !number.MatchString(m[2]),
					"neither side is known to be a number: %s", line)
			}
			assert.True(t, !regexp.MustCompile(`table\.sort\(\w+\)`).MatchString(line),
				"sorts by what the server's locale says: %s", line)
		}
	}
	each(t, func(t *testing.T, s *script.Script, h header, body string) { check(t, body) })
	t.Run("record", func(t *testing.T) { check(t, part(t)) })
}

// The digest of a script is the one that the server computes.
func TestDigest(t *testing.T) {
	server := redistest.Start(t)
	each(t, func(t *testing.T, s *script.Script, h header, body string) {
		got := server.Do(t, "SCRIPT", "LOAD", s.Text)
		assert.True(t, got == s.SHA1, "the server's digest is %v, ours %s", got, s.SHA1)
	})
}
