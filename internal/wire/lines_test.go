package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestPushesAreReadExactly(t *testing.T) {
	attempt, a, err := ParsePush("granted c/7 1795252066322120 3")
	assert.True(t, err == nil && attempt == "c/7" && a.Token == 1795252066322120 && a.Waiting == 3,
		"read %q, %+v, %v", attempt, a, err)
	attempt, a, err = ParsePush("granted c/7 1795252066322120 3 1795252066322 3000")
	if err != nil || attempt != "c/7" || a.Token != 1795252066322120 || a.Waiting != 3 ||
		a.Now != 1795252066322 || a.Lease != 3*time.Second {
		t.Errorf("read %q, %+v, %v", attempt, a, err)
	}
	for _, s := range []string{
		"", "granted", "granted c/7", "granted c/7 1", "granted  1 0", "queued c/7 1 0", "granted c/7 x 0",
		"granted c/7 1 0 5", "granted c/7 1 0 5 x", "granted c/7 1 0 x 5", "granted c/7 1 0 5 6 7",
		"granted c/7 1 0 0 5",
		"granted c/7 1 0 5 0", "granted c/7 1 0 5 9223372036854", "kept c/7 1 0", "granted c/7 1 0 -5 5",
	} {
		_, _, err := ParsePush(s)
		assert.True(t, err != nil, "ParsePush(%q) is accepted", s)
	}
}

func TestAClientIsReadAsItAnnouncedItself(t *testing.T) {
	c, known, err := ParseClient("client billing%20job host 42 0.1.0 1795252066322")
	if err != nil || !known || c.App != "billing job" || c.Host != "host" || c.PID != 42 || c.Version != "0.1.0" ||
		c.Started.UnixMilli() != 1795252066322 {
		t.Errorf("read %+v, %v, %v", c, known, err)
	}
	_, known, err = ParseClient("unknown")
	assert.True(t, !known && err == nil, "an unknown client: %v, %v", known, err)
	for _, s := range []string{"", "client", "clients a b 1 v 2", "client a b x v 2", "client a b 1 v"} {
		_, known, err := ParseClient(s)
		assert.True(t, !known && err != nil, "ParseClient(%q) is accepted", s)
	}
}

// One client that has written nonsense does not hide the others.
func TestAClientThatCannotBeReadHidesNoOther(t *testing.T) {
	list, err := ParseClients("client a h 1 v 2\nclient b h 99999999999999999999 v 2\nnoted\nnote tags:1 x\nunknown\n"+
		"client c h 3 v 4\nnote tags:1 y", 4)
	assert.Must(t, err)
	assert.True(t, list[0].App == "a" && list[1] == nil && list[2] == nil && list[3].App == "c" &&
		list[3].Notes["tags:1"] == "y", "%+v", list)
	for _, odd := range []string{"client a h 1 v 2", "noted", "unknown\nnoted\nunknown", "client a\nunknown\nunknown"} {
		_, err := ParseClients(odd, 2)
		assert.True(t, err != nil, "%q is accepted", odd)
	}
}

// serving answers with one page after the other, and notes what it was asked.
func serving(asked *[]string, pages ...string) func(args []string) (string, error) {
	return func(args []string) (string, error) {
		*asked = append(*asked, strings.Join(args, ","))
		page := pages[0]
		if len(pages) > 1 {
			pages = pages[1:]
		}
		return page, nil
	}
}

const lockLine = "lock 1795252066322 9 2 600000 1 0\n"

func readerLine(attempt, token string) string {
	return "holder s " + attempt + " - 1 " + token + " 1795252066000 5000 1\n"
}

func waiterLine(place, attempt string) string {
	return "waiter " + place + " x " + attempt + " - 1 1795252066000 5000\n"
}

// attempts are the holders and then the waiters of a record.
func attempts(rec Record) string {
	var list []string
	for _, h := range rec.Holders {
		list = append(list, h.Attempt)
	}
	list = append(list, "|")
	for _, w := range rec.Waiters {
		list = append(list, Number(uint64(w.Place)), w.Attempt)
	}
	return strings.Join(list, " ")
}

// What changes between two pages is as the later page says.
func TestThePagesOfARecordArePutTogether(t *testing.T) {
	one := readerLine("a/1", "5")
	for name, c := range map[string]struct {
		pages       []string
		want, asked string
	}{
		"in order": {
			[]string{
				lockLine + readerLine("b/1", "7") + waiterLine("9", "w/2") + "page 5 r",
				lockLine + one + waiterLine("4", "w/1") + "page 0 r",
			},
			"a/1 b/1 | 1 w/1 2 w/2", ",,5",
		},
		"shown twice": {[]string{lockLine + one + "page 5 r", lockLine + one + "page 0 r"}, "a/1 |", ",,5"},
		"a waiter was granted the lock": {
			[]string{lockLine + waiterLine("3", "a/1") + "page 5 r", lockLine + one + "page 0 r"}, "a/1 |", ",,5",
		},
		"a reader became a writer": {
			[]string{
				lockLine + readerLine("b/1", "7") + "page 5 r",
				lockLine + "holder x b/1 - 1 9 1795252066000 5000 1\n" + "page 0 r",
			}, "b/1 |", ",,5",
		},
		"a writer was there before": {
			[]string{
				lockLine + "holder x b/1 - 1 9 1795252066000 5000 1\n" + "page 5 r", lockLine + one + "page 0 r",
			}, "a/1 |", ",,5",
		},
		"the record is no more": {[]string{lockLine + one + "page 5 r", "absent"}, "|", ",,5"},
		"another server": {
			[]string{
				lockLine + readerLine("b/1", "7") + "page 5 r", lockLine + "page 6 q",
				lockLine + one + "page 7 q", lockLine + "page 0 q",
			}, "a/1 |", ",,5,,,7",
		},
		"one page": {[]string{strings.TrimSuffix(lockLine+waiterLine("1", "w/1"), "\n")}, "| 1 w/1", ""},
	} {
		var asked []string
		rec, err := ReadRecord(serving(&asked, c.pages...), nil)
		if err != nil || attempts(rec) != c.want || strings.Join(asked, ",") != c.asked {
			t.Errorf("%s: %q after %q, %v", name, attempts(rec), strings.Join(asked, ","), err)
		}
	}
}

// If each page is of another server, the reading ends with an error.
func TestThePagesOfManyServersAreNoRecord(t *testing.T) {
	var asked []string
	_, err := ReadRecord(serving(&asked,
		lockLine+"page 5 a", lockLine+"page 5 b", lockLine+"page 5 c", lockLine+"page 5 d", lockLine+"page 5 e",
		lockLine+"page 5 f", lockLine+"page 5 g", lockLine+"page 5 h", lockLine+"page 0 h"), nil)
	assert.Is(t, err, ErrAnswer)
}

// A reader of a record may have enough before its end.
func TestNoMorePagesAreReadThanEnough(t *testing.T) {
	var asked []string
	pages := serving(&asked, lockLine+"page 5 r", lockLine+readerLine("a/1", "5")+"page 6 r", lockLine+"page 0 r")
	rec, err := ReadRecord(pages, func(page *Record) bool { return len(page.Holders) > 0 }, "p")
	if err != nil || attempts(rec) != "a/1 |" || strings.Join(asked, " ") != "p p,5" {
		t.Errorf("%q after %q, %v", attempts(rec), asked, err)
	}
}

func TestAStrangeAnswerIsShownInPart(t *testing.T) {
	_, err := Parse(strings.Repeat("x", 10_000))
	assert.True(t, err != nil && len(err.Error()) <= 200, "it says %v", err)
}

func TestClientIsThePartOfTheAttemptBeforeItsNumber(t *testing.T) {
	assert.Equal(t, Client("abc/12"), "abc", "Client")
	assert.Equal(t, ClientKey("p", "abc"), "p:client:abc", "ClientKey")
	got := Millis(1500e6) + Number(7)
	assert.True(t, got == "15007", "got %q", got)
}
