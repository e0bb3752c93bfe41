package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestPushesAreReadExactly(t *testing.T) {
	attempt, a, err := ParsePush("granted c/7 1795252066322120 3")
	if err != nil || attempt != "c/7" || a.Token != 1795252066322120 || a.Waiting != 3 {
		t.Errorf("read %q, %+v, %v", attempt, a, err)
	}
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
		if _, _, err := ParsePush(s); err == nil {
			t.Errorf("ParsePush(%q) is accepted", s)
		}
	}
}

func TestAClientIsReadAsItAnnouncedItself(t *testing.T) {
	c, known, err := ParseClient("client billing%20job host 42 0.1.0 1795252066322")
	if err != nil || !known || c.App != "billing job" || c.Host != "host" || c.PID != 42 || c.Version != "0.1.0" ||
		c.Started.UnixMilli() != 1795252066322 {
		t.Errorf("read %+v, %v, %v", c, known, err)
	}
	if _, known, err := ParseClient("unknown"); known || err != nil {
		t.Errorf("an unknown client: %v, %v", known, err)
	}
	for _, s := range []string{"", "client", "clients a b 1 v 2", "client a b x v 2", "client a b 1 v"} {
		if _, known, err := ParseClient(s); known || err == nil {
			t.Errorf("ParseClient(%q) is accepted", s)
		}
	}
}

func TestAStrangeAnswerIsShownInPart(t *testing.T) {
	if _, err := Parse(strings.Repeat("x", 10_000)); err == nil || len(err.Error()) > 200 {
		t.Errorf("it says %v", err)
	}
}

func TestClientIsThePartOfTheAttemptBeforeItsNumber(t *testing.T) {
	assert.Equal(t, Client("abc/12"), "abc", "Client")
	assert.Equal(t, ClientKey("p", "abc"), "p:client:abc", "ClientKey")
	if got := Millis(1500e6) + Number(7); got != "15007" {
		t.Errorf("got %q", got)
	}
}
