// Package describe says in the tool's words what is known of a lock: its holders, waiters, tags and times.
package describe

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

// Cycle is a cycle on one line.
func Cycle(cycle []holdfast.WaitInfo) string {
	waits := make([]string, len(cycle))
	for i, w := range cycle {
		waits[i] = say.OneLine(w.String())
	}
	return strings.Join(waits, "; ")
}

// Holders describes the holders of a lock within a message.
func Holders(s holdfast.LockInfo) string {
	text := Holder(s.Holders[0])
	if n := len(s.Holders) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	if s.Holders[0].Mode == "permits" {
		text += fmt.Sprintf(" (%d of %d permits in use)", lockjson.Used(s), s.Limit)
	}
	if s.Holders[0].Mode != "exclusive" && s.Waiting > 0 {
		text += fmt.Sprintf("; %d waiting", s.Waiting) // a reader waits behind a writer that waits
	}
	return text
}

// Waiting is how many wait for a lock. The next request about it removes the others.
func Waiting(s holdfast.LockInfo) (n int) {
	if len(s.Waiters) == 0 {
		return s.Waiting // they were not asked for
	}
	for _, w := range s.Waiters {
		if !w.Silent {
			n++
		}
	}
	return n
}

// Owner is the owner name of a hold after a comma, or "" without one.
func Owner(owner string) string {
	if owner == "" {
		return ""
	}
	return ", owner " + say.OneLine(owner)
}

// Who names a client: by its id only, if the server does not know more.
func Who(info *holdfast.ClientInfo, client string) string {
	if info == nil {
		return "client " + say.OneLine(client)
	}
	return say.OneLine(info.String())
}

// Holder describes a holder within a message.
func Holder(h holdfast.Holder) string {
	switch {
	case h.Token == 0 && h.Remaining == 0: // SET without PX, or an EXPIRE that never came
		return fmt.Sprintf("by %s, and its key never expires", Who(h.Client, h.ClientID))
	case h.Token == 0: // of another library, whose record has neither a token nor the time of the grant
		return fmt.Sprintf("by %s, lease expires in %s unless renewed", Who(h.Client, h.ClientID), Length(h.Remaining))
	}
	return fmt.Sprintf("by %s for %s, lease %s", Who(h.Client, h.ClientID), Length(h.Age), Lease(h))
}

// Lease says when a holder's lease ends.
func Lease(h holdfast.Holder) string {
	if h.Ending {
		return "ends in " + Length(h.Remaining) + " at the latest, because an operator has asked for that"
	}
	if h.LockDelay > 0 && h.Remaining <= h.LockDelay {
		return "not renewed in time: others get the lock in " + Length(h.Remaining)
	}
	text := "expires in " + Length(h.Remaining) + " unless renewed"
	if h.LockDelay > 0 {
		text += ", trusted for " + Length(h.Remaining-h.LockDelay)
	}
	return text
}

// Instant is a time for people, to the second.
func Instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Length writes a duration with as many digits as a reader needs.
func Length(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 10*time.Second:
		return d.Truncate(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Truncate(time.Second).String()
	}
	return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
}

// State is what status prints as JSON: statusLong describes it.
func State(s holdfast.LockInfo, job holdfast.JobInfo, key string) lockjson.State {
	j := lockjson.Of(lockjson.WithJob(s, job), key)
	j.Job = lockjson.OfJob(job)
	return j
}

// Tags writes tags on one line. Only a value that would be misread is quoted.
func Tags(tags map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		words = append(words, tagWord(key)+"="+tagWord(tags[key]))
	}
	return strings.Join(words, " ")
}

func tagWord(text string) string {
	if strings.ContainsAny(text, " =\"") || say.OneLine(text) != text {
		return strconv.Quote(text)
	}
	return text
}
