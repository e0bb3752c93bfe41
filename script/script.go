// Package script holds the actions that run on the server: one Lua file each,
// embedded as it stands, and the header that says what the action takes,
// answers and keeps true.
//
// The scripts are the protocol's executable part; docs/protocol.md describes
// the record that they work on, byte by byte.
package script

import (
	"crypto/sha1" // EVALSHA addresses scripts by SHA-1; nothing here relies on it for security.
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed *.lua
var files embed.FS

// The actions. Each works on the record of one lock; Renew, AcquireAll, AcquireFree
// and ReleaseIdle on several; BeginRun and CancelRun on the record of a job that runs
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
	RegisterClient = load("register_client")
	ReadClient     = load("read_client")
	AcquireAll     = load("acquire_all")
	BeginRun       = load("begin_run")
	CancelRun      = load("cancel_run")
	Proclaim       = load("proclaim")
	ReadLeader     = load("read_leader")
	ReleaseAfter   = load("release_after")
	CheckACL       = load("check_acl")
	RaiseFence     = load("raise_fence")
	MarkServer     = load("mark_server")
)

// All lists every action, in the order of the protocol's description.
func All() []*Script {
	return []*Script{
		Acquire, AcquireFree, Release, ReleaseIdle, Renew, Poll, Cancel, Inspect, Evict, Convert, SetLimit,
		AcquireAll, BeginRun, CancelRun, Proclaim, ReadLeader, ReleaseAfter,
		CheckACL, RegisterClient, ReadClient, RaiseFence, MarkServer,
	}
}

// Script is one action: what EVAL is given and the digest that EVALSHA names.
type Script struct {
	Name string // the file's name without .lua
	Text string // what the server runs: the file without comments, parts included; see Declaration
	SHA1 string // lower-case hex digest of Text
}

// Declaration is the first line of Text, such as "#!lua flags=allow-oom". A declared
// script is refused before it runs where the server refuses writes (READONLY, NOREPLICAS,
// MISCONF, and OOM without allow-oom); another is refused in its midst, call by call.
func (s *Script) Declaration() string {
	line, _, _ := strings.Cut(s.Text, "\n")
	return line + "\n"
}

// Body is Text without its declaration: for what wraps a script, or cannot take one.
func (s *Script) Body() string { return strings.TrimPrefix(s.Text, s.Declaration()) }

// Source returns the file as it was written, comments and all.
func (s *Script) Source() string { return source(s.Name) }

// includeMark is the line that stands for the shared part. What follows goes
// on with it, to the end of the file or to endMark: an action on several
// records has the part inside a function that it calls for each, and reads the
// clock once for all of them, as instant.
const (
	includeMark = "--include record"
	endMark     = "--include ends"
	readClock   = "call('TIME')"
)

// load puts an action together. What follows the mark, the shared part first,
// becomes a function of its own: the short way before it then runs in a small
// frame, which is worth some microseconds of its ten.
func load(name string) *Script {
	text := source(name)
	if short, long, found := strings.Cut(text, includeMark); found {
		part := source("record")
		long, rest, several := strings.Cut(long, endMark)
		if several {
			part = strings.Replace(part, readClock, "instant", 1)
		}
		text = short + "return (function()\n" + part + long + "end)()\n" + rest
	}
	text = strip(text)
	sum := sha1.Sum([]byte(text))
	return &Script{Name: name, Text: text, SHA1: hex.EncodeToString(sum[:])}
}

func source(name string) string {
	b, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic("BUG: no embedded script " + name)
	}
	return string(b)
}

// strip drops comment lines, blank lines and indentation: what is left is
// what the server has to parse, keep and name in its errors. A comment
// behind code stays; the scripts have none.
func strip(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "--") {
			continue
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.String()
}
