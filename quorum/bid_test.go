package quorum

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// second is for the tables.
const second = time.Second

// What an answer means depends on what the attempt has.
func TestWhatAnAnswerMeansToAnAttempt(t *testing.T) {
	for _, test := range []struct {
		has  string
		said wire.Kind // or err
		err  error
		want majority.Reply
		then string
	}{
		{"holds", 0, io.EOF, majority.Granted, "holds"},
		{"holds", 0, context.DeadlineExceeded, majority.Granted, "holds"},
		{"queued", 0, context.DeadlineExceeded, majority.Queued, "queued"},
		{"queued", 0, io.EOF, majority.Failed, "queued"},
		{"", 0, context.DeadlineExceeded, majority.Failed, ""},
		{"holds", wire.Busy, nil, majority.Busy, ""},
		{"queued", wire.Busy, nil, majority.Busy, ""},
		{"", wire.Queued, nil, majority.Queued, "queued"},
		{"holds", wire.Queued, nil, majority.Granted, "holds"},
		{"queued", wire.Granted, nil, majority.Granted, "holds"},
	} {
		var b bid
		switch test.has {
		case "holds":
			b.granted(10*second, 20, 0, 9*second)
		case "queued":
			b.heard(wire.Answer{Kind: wire.Queued, Place: 7}, 9*second)
		}
		switch {
		case test.err != nil:
			b.failed(test.err, errors.Is(test.err, context.DeadlineExceeded))
		case test.said == wire.Granted:
			b.granted(12*second, 21, 0, 11*second)
		default:
			assert.False(t, b.heard(wire.Answer{Kind: test.said, Place: 2}, 11*second), "%+v: it is gone", test)
		}
		assert.Equal(t, b.reply, test.want, "%+v: the reply", test)
		assert.True(t, b.holds == (test.then == "holds") && b.queued == (test.then == "queued"), "%+v: %+v", test, b)
		if test.said == wire.Queued && test.has == "" {
			assert.True(t, b.askedAt == 11*second && b.lastAnswer.Place == 2, "%+v: %+v", test, b)
		}
	}
	b := bid{holds: true, queued: true}
	assert.True(t, b.heard(wire.Answer{Kind: wire.Gone}, 11*second) && b.ended && !b.holds && !b.queued, "gone: %+v", b)
}

// A grant is told several times, and in any order. It never counts from earlier, and its token never falls.
func TestAGrantThatIsToldAgainTakesNothingBack(t *testing.T) {
	var b bid
	assert.True(t, b.granted(12*second, 30, 2, 10*second), "the first")
	b.unconfirmed = true
	assert.False(t, b.granted(14*second, 20, 3, 9*second), "the second")
	assert.True(t, b.heldSince == 12*second && b.countsFrom == 10*second && b.token == 30 && b.waiters == 3, "%+v", b)
	assert.False(t, b.unconfirmed, "it must be confirmed")
	b.lastsFrom(10*second, 9*second)
	until := b.heldUntil
	b.lastsFrom(9*second, 9*second)
	assert.True(t, b.heldUntil == until && until > 18*second && until < 19*second, "it lasts until %v", b.heldUntil)
	b.asks(15 * second)
	assert.Equal(t, b.askedAt, 0, "a poll of a hold moves the time of the request")
}

// What a lease may rely on, and what may not be over yet.
func TestWhatALeaseMayRelyOn(t *testing.T) {
	for _, test := range []struct {
		b                      bid
		counts, hasHeld, lasts bool // for a lease from 10 s, renewed at 12 s, at 18 s; of 9 s
	}{
		{bid{}, true, false, false},
		{bid{holds: true, countsFrom: 10 * second, heldSince: 12 * second}, true, true, true},
		{bid{holds: true, countsFrom: 10*second - 1, heldSince: 12 * second}, false, true, true},
		{bid{holds: true, countsFrom: 10 * second, heldSince: 12*second + 1}, true, false, true},
		{bid{holds: true, countsFrom: 10 * second, heldSince: 12 * second, unconfirmed: true}, false, true, true},
		{bid{holds: true, countsFrom: 9 * second, heldSince: 12 * second}, false, true, false},
	} {
		assert.Equal(t, test.b.counts(10*second), test.counts, "%+v: it counts", test.b)
		assert.Equal(t, test.b.hasHeld(12*second), test.hasHeld, "%+v: it has held", test.b)
		assert.Equal(t, test.b.mayLast(18*second, 9*second), test.lasts, "%+v: it may last", test.b)
	}
}

// What must be cancelled, how often, and until when.
func TestWhatIsOwedToAnAttempt(t *testing.T) {
	for _, test := range []struct {
		b       bid
		nothing bool          // at 15 s
		until   time.Duration // of a lease of 9 s
	}{
		{bid{}, true, 9 * second},
		{bid{holds: true, askedAt: 10 * second, countsFrom: 12 * second}, false, 21 * second},
		{bid{queued: true, askedAt: 13 * second, countsFrom: 12 * second}, false, 22 * second},
		{bid{askedAt: 10 * second, unansweredUntil: 15*second + 1}, false, 19 * second},
		{bid{askedAt: 10 * second, unansweredUntil: 15 * second}, true, 19 * second},
	} {
		assert.Equal(t, test.b.hasNothing(15*second), test.nothing, "%+v: it has nothing", test.b)
		assert.Equal(t, test.b.cancelUntil(9*second), test.until, "%+v: what it had is over at", test.b)
	}
	var b bid
	b.unheard(10*second, 9*second)
	b.unheard(11*second, 9*second)
	for _, test := range []struct {
		now   time.Duration
		times int
		until time.Duration
	}{{20*second - 1, 3, 20 * second}, {20 * second, 1, 19 * second}} {
		times, until := b.owes(test.now, 1, 19*second)
		assert.True(t, times == test.times && until == test.until, "at %v: %d until %v", test.now, times, until)
	}
	times, until := b.owes(15*second, 1, 21*second)
	assert.True(t, times == 3 && until == 21*second, "a release at 12 s: %d until %v", times, until)
}
