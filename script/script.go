// Package script has the scripts that run on the server, each an embedded Lua file. The
// header of a file lists the arguments, the answers, and what the script keeps true.
//
// docs/protocol.md describes the record that the scripts work on, byte by byte.
package script

import (
	"crypto/sha1" // EVALSHA addresses scripts by SHA-1; nothing here relies on it for security.
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed *.lua
var files embed.FS

// The scripts. Each works on the record of one lock; Renew, AcquireAll, AcquireFree,
// ReleaseIdle and Check on several; BeginRun and CancelRun on the record of a job that runs
// once per period; RegisterClient and ReadClient on the record of one client; CheckACL on none.
// RaiseFence and MarkServer are for one server of a quorum, MarkServer on a mark there.
var (
	Acquire        = load("acquire")
	AcquireFree    = load("acquire_free")
	Release        = load("release")
	ReleaseIdle    = load("release_idle")
	Renew          = load("renew")
	Poll           = load("poll")
	Cancel         = load("cancel")
	Inspect        = load("inspect")
	Evict          = load("evict")
	Convert        = load("convert")
	SetLimit       = load("set_limit")
	Lessen         = load("lessen")
	RegisterClient = load("register_client")
	ReadClient     = load("read_client")
	AcquireAll     = load("acquire_all")
	BeginRun       = load("begin_run")
	CancelRun      = load("cancel_run")
	Proclaim       = load("proclaim")
	ReadLeader     = load("read_leader")
	Resume         = load("resume")
	ReleaseAfter   = load("release_after")
	AwaitFree      = load("await_free")
	Check          = load("check")
	CheckACL       = load("check_acl")
	RaiseFence     = load("raise_fence")
	MarkServer     = load("mark_server")
)

// All lists every script.
func All() []*Script {
	return []*Script{
		Acquire, AcquireFree, Release, ReleaseIdle, Renew, Poll, Cancel, Inspect, Evict, Convert, SetLimit, Lessen,
		AcquireAll, BeginRun, CancelRun, Proclaim, ReadLeader, Resume, ReleaseAfter, AwaitFree,
		Check, CheckACL, RegisterClient, ReadClient, RaiseFence, MarkServer,
	}
}

// Script is one script: the text for EVAL and the digest for EVALSHA.
type Script struct {
	Name string // the file's name without .lua
	Text string // the text that the server runs: without comments, and with record.lua in it
	SHA1 string // lower-case hex digest of Text

	// Repeats says that a store may send the script again after a connection broke: a second
	// copy has the effect and the answer of one, at once and at any time later, even after
	// other requests. A store never repeats any other script. Its client, which knows that the
	// script may have run, decides what to do.
	Repeats bool
}

// Declaration is the first line of Text, such as "#!lua flags=allow-oom". If a server
// refuses writes (READONLY, NOREPLICAS, MISCONF, and OOM without allow-oom), it refuses a
// declared script before that runs. It stops an undeclared one in the middle.
func (s *Script) Declaration() string {
	line, _, _ := strings.Cut(s.Text, "\n")
	return line + "\n"
}

// Body is Text without its declaration: for code that wraps a script.
func (s *Script) Body() string { return strings.TrimPrefix(s.Text, s.Declaration()) }

// Source returns the file as it was written, with its comments.
func (s *Script) Source() string { return source(s.Name) }

// includeMark is the line that load replaces with record.lua. The rest of the file, or the
// text up to endMark, can use its functions. A script for several records has record.lua
// inside a function that it calls for each. It reads the clock once for all of them, as
// instant.
const (
	includeMark = "--include record"
	endMark     = "--include ends"
	readClock   = "call('TIME')"
)

// run runs a step. If the step refuses a record that no version wrote, it ends by an error in
// the middle of its functions, which becomes the answer here: see refuse in record.lua. The error
// of a command is a text with its code in front, and stays as it was.
const run = `local done, answer = pcall(step)
if done then return answer end
if type(answer) == 'table' and answer.damaged then return redis.error_reply(answer.damaged) end
if type(answer) == 'string' and string.find(answer, '^%u+ ') then return redis.error_reply(answer) end
error(answer, 0)
`

// record is record.lua as the server runs it. All programs pay for its assembly when they
// start, so that it is done once.
var record = strip(source("record"))

// load assembles a script. record.lua and the text after the mark become one function, step.
// So the fast path before it runs in a small frame, which saves some microseconds of ten, and
// commit can begin the step anew.
func load(name string) *Script {
	text := strip(source(name))
	repeats := verdict(name, source(name))
	if short, long, found := strings.Cut(text, includeMark+"\n"); found {
		if long, rest, several := strings.Cut(long, endMark+"\n"); several {
			rest = strings.TrimSuffix(rest, "return step()\n") + run
			text = short + strings.Replace(record, readClock, "instant", 1) + long + rest
		} else {
			text = short + "local function step()\n" + record + long + "end\n" + run
		}
	}
	sum := sha1.Sum([]byte(text))
	return &Script{Name: name, Text: text, SHA1: hex.EncodeToString(sum[:]), Repeats: repeats}
}

// verdict reads Repeats from the header of a script. Nobody may forget it.
func verdict(name, source string) (repeats bool) {
	_, rest, _ := strings.Cut(source, "\n-- REPEATS ")
	word, _, _ := strings.Cut(rest, ":")
	if word != "yes" && word != "no" {
		panic("BUG: the header of the script " + name + " does not say whether it may be repeated")
	}
	return word == "yes"
}

func source(name string) string {
	b, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic("BUG: no embedded script " + name)
	}
	return string(b)
}

// strip removes comment lines, blank lines and indentation, so that the server parses and
// keeps less. It keeps the marks for load. It does not remove a comment after code; the
// scripts have none.
func strip(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "--") && line != includeMark && line != endMark {
			continue
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.String()
}
