package lineage_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The first ways, turn by turn. Some of their tests go further: they kill and stop processes.

// before runs a scene and clears the server for the rest of the test.
func before(t *testing.T, s *redistest.Server, sc scene) *play {
	t.Helper()
	p := perform(t, s, sc)
	s.Do(t, "FLUSHALL")
	return p
}

func setnxThenExpire(c *player) {
	if c.do("SETNX", "x", c.name) == yes {
		c.do("EXPIRE", "x", 30)
		c.enter("holds")
	}
}

func sceneOfSetnx(t *testing.T, s *redistest.Server) {
	t.Helper()
	before(t, s, scene{
		picture: "setnx",
		flaw:    "A cannot set the expiry any more: the lock is held for ever.",
		clients: []actor{{name: "A", run: setnxThenExpire}, {name: "B", run: setnxThenExpire}},
		turns:   "A kill A 24h B",
	}).together()
}

func swapExpired(c *player) {
	mine := c.now() + 30
	if c.do("SETNX", "x", mine) == no {
		found := number(c.do("GET", "x"))
		if found > c.now() || number(c.do("GETSET", "x", mine)) != found {
			return
		}
	}
	c.enter("holds")
}

func sceneOfGetset(t *testing.T, s *redistest.Server) {
	t.Helper()
	before(t, s, scene{
		picture: "getset",
		flaw:    "C's clock is 31 s ahead: A and C both hold.",
		clients: []actor{
			{name: "A", run: swapExpired}, {name: "B", run: swapExpired}, {name: "C", run: swapExpired, ahead: 31},
		},
		turns: "A B B C C C",
	}).together("A", "C")
}

func delWithoutCheck(c *player) {
	if c.do("SET", "x", c.name, "NX", "PX", 30000) == "OK" {
		c.enter("holds")
		c.do("DEL", "x")
		c.leave()
	}
}

func sceneOfDel(t *testing.T, s *redistest.Server) {
	t.Helper()
	before(t, s, scene{
		picture: "del",
		flaw:    "A has deleted B's lock: B and C both hold.",
		clients: []actor{
			{name: "A", run: delWithoutCheck}, {name: "B", run: delWithoutCheck}, {name: "C", run: delWithoutCheck},
		},
		turns: "A 30s B A C",
	}).together("B", "C")
}

func getThenDel(c *player) {
	if c.do("SET", "x", c.name, "NX", "PX", 30000) == "OK" {
		c.enter("holds")
		c.sleep(20 * time.Second) // the work
		if c.do("GET", "x") == c.name {
			c.do("DEL", "x")
		}
		c.leave()
	}
}

func sceneOfGetThenDel(t *testing.T, s *redistest.Server) {
	t.Helper()
	before(t, s, scene{
		picture: "get-then-del",
		flaw:    "A's lease ended between GET and DEL: B and C both hold.",
		clients: []actor{{name: "A", run: getThenDel}, {name: "B", run: getThenDel}, {name: "C", run: getThenDel}},
		turns:   "A 20s A 10s B A C",
	}).together("B", "C")
}

func countReader(c *player) {
	if c.do("EXISTS", "x:writer") == no {
		c.do("INCR", "x:readers")
		c.enter("reads")
	}
}

func nameWriter(c *player) {
	if number(c.do("GET", "x:readers")) == 0 {
		if c.do("SET", "x:writer", c.name, "NX", "PX", 30000) == "OK" {
			c.enter("writes")
		}
	}
}

func sceneOfTwoKeys(t *testing.T, s *redistest.Server) {
	t.Helper()
	before(t, s, scene{
		picture: "rw-two-keys",
		flaw:    "R has entered between W's two commands: W writes while R reads.",
		keys:    []string{"x:readers", "x:writer"},
		clients: []actor{{name: "R", run: countReader}, {name: "W", run: nameWriter}},
		turns:   "W R R W",
	}).together("R", "W")
}
