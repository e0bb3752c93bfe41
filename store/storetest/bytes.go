package storetest

import (
	"github.com/holdfast-go/holdfast/script"
)

var byteTests = []test{
	{"keys", testKeys},
	{"arguments", testArguments},
	{"channels and messages", testMessages},
	{"groups", testGroups},
}

// odd are names that a store could confuse with something else.
var odd = []string{
	"with space", "line\r\nfeed", "{braces}", "}{", "{}", "ümläut 世界 🔒", "nul\x00byte", "\xff\xfe",
	"*", "?[a]", `quote"'\`, "-", "$5", "%s%d%!",
}

// A key names one lock, byte by byte.
func testKeys(s *suite) {
	var keys []string
	for _, name := range odd {
		keys = append(keys, s.key+name)
	}
	for i, key := range keys {
		s.key = key
		s.take(s.attempt("a", i), "x")
	}
	for i, key := range keys {
		s.key = key
		s.begins(s.run(script.Inspect), "lock")
		s.is(s.run(script.Renew, retention, ttl, s.attempt("a", i)), "renewed 0")
	}
}

// An argument arrives unchanged.
func testArguments(s *suite) {
	for _, value := range append(odd, "") {
		s.is(s.run(script.RegisterClient, ttl, value, "web-1", 42, "v1", 5), "announced")
		s.is(s.run(script.ReadClient), "client "+value+" web-1 42 v1 5")
	}
}

// A message arrives unchanged, on a channel of any name.
func testMessages(s *suite) {
	for _, name := range odd {
		rec := s.listen(s.channel(name))
		for _, payload := range append(odd, "") {
			s.Publish(s.channel(name), payload)
			s.is(rec.next(s), payload)
		}
		rec.stop()
	}
}

// A group depends only on the key, and keys with the same hash tag share it.
func testGroups(s *suite) {
	for _, name := range odd {
		key := s.key + name
		if a, b := s.Store.Group(key), s.Store.Group(key); a != b {
			s.Errorf("the group of %q is %q, and then %q", key, a, b)
		}
		if a, b := s.Store.Group(s.key), s.Store.Group(key); a != b {
			s.Errorf("%q and %q share a hash tag, but are of the groups %q and %q", s.key, key, a, b)
		}
	}
}
