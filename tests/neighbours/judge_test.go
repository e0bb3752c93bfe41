package neighbours

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// log makes what a server writes to its log.
func log(commands ...string) string {
	var b strings.Builder
	for _, command := range commands {
		words := strings.Fields(command)
		fmt.Fprintf(&b, "*%d\r\n", len(words))
		for _, word := range words {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	return b.String()
}

// Times are in ms, and the TTL is 100. One clock serves all.
func judged(t *testing.T, log string, holds ...Held) []Violation {
	t.Helper()
	a, err := readAccount(strings.NewReader(log))
	assert.Must(t, err)
	return judge(holds, a, 100, func(at int64) int64 { return at })
}

func TestHoldsOneAfterTheOtherAreNoViolation(t *testing.T) {
	holds := []Held{
		{Lock: "l", Holder: "b", From: 50, Till: 70}, {Lock: "l", Holder: "a", From: 10, Till: 50},
		{Lock: "m", Holder: "a", From: 20, Till: 60},
	}
	found := judged(t, "", holds...)
	assert.True(t, len(found) == 0, "%v", found)
}

func TestAHolderThatOutstaysItsLeaseIsFound(t *testing.T) {
	for name, log := range map[string]string{
		"hash": log("SELECT 0", "HINCRBY l a 1", "PEXPIREAT l 110", "PEXPIREAT l 140", "DEL l",
			"HINCRBY l b 1", "PEXPIREAT l 240"),
		"string": "#TS:1\r\n" +
			log("SET l a PXAT 110", "PEXPIREAT l 140", "DEL l", "SET l b PXAT 240"),
		"string that was replaced": log("SET l a PXAT 110", "SET l a PXAT 140", "SET l b PXAT 240"),
	} {
		t.Run(name, func(t *testing.T) {
			found := judged(t, log, Held{Lock: "l", Holder: "a", Library: "A", From: 11, Till: 160},
				Held{Lock: "l", Holder: "b", Library: "B", From: 141, Till: 150})
			assert.True(t, len(found) == 1 && found[0].Reason == Overstayed && found[0].First.Library == "A",
				"%v", found)
		})
	}
}

func TestAGrantThatCameTooLateIsTheFaultOfTheLate(t *testing.T) {
	text := log("SET l a PXAT 110", "DEL l", "SET l b PXAT 300")
	found := judged(t, text, Held{Lock: "l", Holder: "b", Library: "B", From: 210, Till: 260},
		Held{Lock: "l", Holder: "a", Library: "A", From: 230, Till: 230})
	assert.True(t, len(found) == 1 && found[0].Reason == Overstayed && found[0].By.Library == "A",
		"want one holder that overstayed, of library A, got %v", found)
}

func TestALockThatAnotherTookAwayIsFound(t *testing.T) {
	for name, log := range map[string]string{
		"deleted":      log("HINCRBY l a 1", "PEXPIREAT l 110", "DEL l", "HINCRBY l b 1", "PEXPIREAT l 140"),
		"replaced":     log("SET l a PXAT 110", "SET l b PXAT 140"),
		"never had it": log("HINCRBY l b 1", "PEXPIREAT l 140"),
	} {
		t.Run(name, func(t *testing.T) {
			found := judged(t, log, Held{Lock: "l", Holder: "a", From: 11, Till: 60},
				Held{Lock: "l", Holder: "b", From: 41, Till: 50})
			assert.True(t, len(found) == 1 && found[0].Reason == Taken,
				"want one lock that was taken, got %v", found)
		})
	}
}

func TestTwoHoldersInOneKeyAreFound(t *testing.T) {
	a, err := readAccount(strings.NewReader(log("HINCRBY l a 1", "PEXPIREAT l 110", "HINCRBY l b 1")))
	assert.True(t, err == nil && len(a.doubles) == 1,
		"want one key with two holders, got %v: %v", a, err)
}

func TestALogMayEndInTheMiddle(t *testing.T) {
	text := log("HINCRBY l a 1", "PEXPIREAT l 110")
	for end := range len(text) {
		if _, err := readAccount(strings.NewReader(text[:end])); err != nil {
			t.Fatalf("%q: %v", text[:end], err)
		}
	}
	assert.True(t, assert.Err(readAccount(strings.NewReader("+OK\r\n"))) != nil, "what is no log was read as one")
}
