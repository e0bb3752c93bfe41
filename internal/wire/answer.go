package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind is the first word of an answer.
type Kind uint8

// The kinds of answers, over all scripts that take part in an acquisition.
const (
	Granted   Kind = iota + 1 // Token, Waiting
	Queued                    // Place, Left, Now
	Busy                      // Left, Holder
	Conflict                  // Count: the limit in force
	Released                  //
	Held                      // Count: entries that remain
	Gone                      //
	Withdrawn                 //
	None                      //
	Evicted                   // Count: holds ended
	Free                      // also the answer of await_free, as are Busy and Conflict
	Changed                   // Token: the fence
	Set                       // Count: permits held
	Idle                      //
	Kept                      // Left
	Lessened                  // Left, Count: permits kept, Waiting
)

var kinds = map[string]Kind{
	"granted": Granted, "queued": Queued, "busy": Busy, "conflict": Conflict,
	"released": Released, "held": Held, "gone": Gone, "withdrawn": Withdrawn, "none": None,
	"evicted": Evicted, "free": Free, "changed": Changed,
	"set": Set, "idle": Idle, "kept": Kept, "lessened": Lessened,
}

// Answer is the answer of a script. Its kind tells which fields have a meaning.
type Answer struct {
	Kind    Kind
	Token   uint64        // the server's part of the fencing token
	Waiting int           // the number of waiters
	Place   int           // own position in the wait queue, an upper bound
	Left    time.Duration // until the present holders may have expired
	Now     uint64        // the server's time, in ms since 1970
	Lease   time.Duration // of a push: the lease granted at Now; 0 if the push does not tell
	Holder  string        // empty unless exclusive
	Count   int
}

// maxToken is the limit of the server's tokens: its numbers are doubles.
const maxToken = 1 << 53

// Parse reads an answer. An answer that no script of format 1 gives is an error: the other
// end is something else.
func Parse(s string) (Answer, error) {
	word, rest, _ := strings.Cut(s, " ")
	a := Answer{Kind: kinds[word]}
	first, second, _ := strings.Cut(rest, " ")
	var err error
	switch a.Kind {
	case Granted:
		if a.Token, err = parseToken(first); err == nil {
			a.Waiting, err = parseCount(second)
		}
	case Queued:
		if a.Place, err = parseCount(first); err == nil {
			left, now, _ := strings.Cut(second, " ")
			if a.Left, err = parseLeft(left); err == nil {
				a.Now, err = parseToken(now)
			}
		}
	case Busy:
		a.Left, err = parseLeft(first)
		if a.Holder = second; second == "-" {
			a.Holder = ""
		}
	case Kept:
		a.Left, err = parseLeft(rest)
	case Lessened:
		if a.Left, err = parseLeft(first); err == nil {
			permits, waiting, _ := strings.Cut(second, " ")
			if a.Count, err = parseCount(permits); err == nil {
				a.Waiting, err = parseCount(waiting)
			}
		}
	case Conflict, Held, Evicted, Set:
		a.Count, err = parseCount(first)
	case Changed:
		a.Token, err = parseToken(first)
	case Released, Gone, Withdrawn, None, Free, Idle:
		if rest != "" {
			err = strconv.ErrSyntax
		}
	default:
		err = strconv.ErrSyntax
	}
	if err != nil {
		return Answer{}, BadAnswer(s)
	}
	return a, nil
}

// Parsed is [Parse] of what a request returned.
func Parsed(answer string, err error) (Answer, error) {
	if err != nil {
		return Answer{}, err
	}
	return Parse(answer)
}

// ParseSeveral reads an answer on n locks, as acquire_free and release_idle give
// it: the token of the grants, and for which of the locks it was done.
func ParseSeveral(s string, n int) (token uint64, each string, err error) {
	word, rest, _ := strings.Cut(s, " ")
	each = rest
	switch word {
	case "granted":
		var number string
		number, each, _ = strings.Cut(rest, " ")
		token, err = parseToken(number)
	case "released":
	default:
		err = strconv.ErrSyntax
	}
	if err != nil || len(each) != n || strings.Trim(each, "1-") != "" {
		return 0, "", BadAnswer(s)
	}
	return token, each, nil
}

// BadAnswer is the error for an answer that is not of this protocol.
func BadAnswer(s string) error {
	if len(s) > 64 {
		s = s[:64] + "…"
	}
	return fmt.Errorf("the server answered %q, which is %w", s, ErrAnswer)
}

// OtherAnswer is the error for an answer that fits the protocol, but not the step.
func OtherAnswer(step string) error {
	return fmt.Errorf("the server's answer to %s belongs to another step, which is %w", step, ErrAnswer)
}

// ErrAnswer is what a [BadAnswer] is.
var ErrAnswer error = answerError{}

// answerError has a method by which programs find it, see ErrUnknownOutcome of the library.
type answerError struct{}

func (answerError) Error() string       { return "not an answer in this protocol" }
func (answerError) UnknownAnswer() bool { return true }

func parseToken(word string) (uint64, error) {
	n, err := strconv.ParseUint(word, 10, 64)
	if err == nil && n >= maxToken {
		err = strconv.ErrRange
	}
	return n, err
}

func parseCount(word string) (int, error) {
	n, err := strconv.Atoi(word)
	if err == nil && n < 0 {
		err = strconv.ErrRange
	}
	return n, err
}

// maxMillis is a hundred years: longer than any lease, and so short that adding a few of
// them to a time does not overflow a time.Duration. An overflow would end each wait at once.
const maxMillis = 100 * 365 * 24 * int64(time.Hour/time.Millisecond)

func parseMillis(word string) (time.Duration, error) {
	n, err := strconv.ParseInt(word, 10, 64)
	if err == nil && (n < 0 || n > maxMillis) {
		err = strconv.ErrRange
	}
	return time.Duration(n) * time.Millisecond, err
}

// parseLeft reads the time until an instant of a record. A longer time than maxMillis is read as
// maxMillis: if a server's clock was centuries ahead and is put right, its locks have such times
// left, and an operator must still see and evict them.
func parseLeft(word string) (time.Duration, error) {
	if n, err := strconv.ParseInt(word, 10, 64); err == nil && n > maxMillis {
		word = strconv.FormatInt(maxMillis, 10)
	}
	return parseMillis(word)
}

// Renewal is the outcome for one lease of a renew.
type Renewal struct {
	Held    bool
	Evicted bool
	Unknown bool // too few of the servers that were asked have answered
	Waiting int
	Err     error // nothing is known of this lease, though of others in the request
}

// ParseRenewals reads the answer of a renew of n leases.
func ParseRenewals(s string, n int) ([]Renewal, error) {
	words := strings.Fields(s)
	if len(words) != n+1 || words[0] != "renewed" {
		return nil, BadAnswer(s)
	}
	list := make([]Renewal, n)
	for i, word := range words[1:] {
		switch word {
		case "-":
		case "evicted":
			list[i].Evicted = true
		case "?":
			list[i].Unknown = true
		default:
			waiting, err := parseCount(word)
			if err != nil {
				return nil, BadAnswer(s)
			}
			list[i] = Renewal{Held: true, Waiting: waiting}
		}
	}
	return list, nil
}

// ParsePush reads a push: a grant, or when the lock may be free. After the words of an
// answer a grant may tell its time, by the server's clock, and its lease.
func ParsePush(payload string) (attempt string, a Answer, err error) {
	words := strings.Split(payload, " ")
	if len(words) < 3 || words[0] != "granted" && words[0] != "kept" || words[1] == "" {
		return "", Answer{}, BadAnswer(payload)
	}
	said := words[2:]
	if words[0] == "granted" && len(said) == 4 {
		said = said[:2]
	}
	if a, err = Parse(words[0] + " " + strings.Join(said, " ")); err != nil {
		return "", Answer{}, BadAnswer(payload)
	}
	if len(words) == 6 {
		if a.Now, err = parseToken(words[4]); err == nil {
			a.Lease, err = parseMillis(words[5])
		}
		if err != nil || a.Now == 0 || a.Lease == 0 {
			return "", Answer{}, BadAnswer(payload)
		}
	}
	return words[1], a, nil
}

// FreeNews is a push to the watchers of a lock: the holds that a newcomer would have found.
type FreeNews struct {
	Mode        string // of the holds; empty if there is none
	Used, Limit int    // the number of readers, or the permits in use and the limit
	Birth       string // which record; compare with the [Answer.Holder] of await_free
}

// ParseFree reads a push to the watchers of a lock. If it is any other news, it reports
// false: then ask the server.
func ParseFree(payload string) (n FreeNews, ok bool) {
	words := strings.Split(payload, " ")
	if len(words) != 5 || words[0] != "free" {
		return n, false
	}
	var err, bad error
	n.Used, err = parseCount(words[2])
	n.Limit, bad = parseCount(words[3])
	if n.Mode = words[1]; n.Mode == "-" {
		n.Mode = ""
	}
	n.Birth = words[4]
	return n, err == nil && bad == nil
}

// ParseMissing reads the answer of check_acl: the commands that the server's user
// may not run. If the server could not tell, none is missing. A quorum adds the names of its
// servers that lack them, see [MissingAt].
func ParseMissing(answer string) (commands []string, servers string) {
	list, missing := strings.CutPrefix(answer, "missing ")
	if !missing {
		return nil, ""
	}
	list, servers, _ = strings.Cut(list, missingAt)
	return strings.Split(list, " "), servers
}

const missingAt = " @"

// MissingAt writes an answer of check_acl for several servers.
func MissingAt(commands, servers []string) string {
	return "missing " + strings.Join(commands, " ") + missingAt + strings.Join(servers, ", ")
}

// Millis writes a duration as whole milliseconds.
func Millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// The mode words of a mutex or writer, of a reader, and of permits.
const (
	Exclusive  = "x"
	Shared     = "s"
	PermitMode = "p"
)

// HoldersOnly asks inspect for no waiters, only for their number.
const HoldersOnly = "h"

// Permits is the mode word of so many permits out of limit.
// With [ServerLimit] behind it, limit counts only if the server has none.
func Permits(n, limit int) string { return "p:" + strconv.Itoa(n) + ":" + strconv.Itoa(limit) }

// ServerLimit stands behind the mode word of permits.
const ServerLimit = "+"

// Force stands in an eviction for the token of the one hold to end: the record goes, whatever it is.
const Force = "force"

// Ask is the word of an eviction that lets the holders end.
const Ask = "ask"

// Number writes a token.
func Number(n uint64) string { return strconv.FormatUint(n, 10) }
