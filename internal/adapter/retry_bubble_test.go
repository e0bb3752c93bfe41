package adapter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/store"
)

func TestTheFailureOfARequestIsReadFromItsSocket(t *testing.T) {
	for _, test := range []struct {
		err  error
		want Failure
	}{
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, NotSent},
		{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, NotSent},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, Final},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, Broken},
		{&net.OpError{Op: "write", Err: syscall.EPIPE}, Broken},
		{errors.New("no socket's"), Final},
		{context.DeadlineExceeded, Final},
		{Unsent(context.DeadlineExceeded), NotSent},
		{fmt.Errorf("reading: %w", io.EOF), Broken},
	} {
		assert.Equal(t, FailureOf(test.err), test.want, "%v", test.err)
	}
}

// trial is a request that gets the errors in turn, and then succeeds.
type trial struct {
	errs []error
	sent int
	took time.Duration // of each try
}

func (tr *trial) send() (string, error) {
	time.Sleep(tr.took)
	tr.sent++
	if tr.sent <= len(tr.errs) {
		return "", tr.errs[tr.sent-1]
	}
	return "done", nil
}

// retry is a Retry as the stores have, with errors that name their failure.
func retry(patient bool) Retry {
	return Retry{
		Tries: 2, Failover: patient,
		Classify: func(_ context.Context, err error) Failure { return FailureOf(err) },
		Refusal: func(err error) *store.ServerError {
			var refused *store.ServerError
			errors.As(err, &refused)
			return refused
		},
	}
}

var (
	errReset   = &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	errNoPort  = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	errReplica = Refusal("READONLY You can't write against a read only replica.")
	errFull    = Refusal("OOM command not allowed")
)

// If a request is sent again after a broken connection, the caller learns that the first one
// may have run.
func TestARefusalAfterABrokenConnectionProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &trial{errs: []error{errReset, errFull}}
		_, err, broke := retry(false).Do(t.Context(), true, tr.send)
		assert.True(t, errors.Is(err, errFull) && errors.Is(broke, errReset),
			"ended with %v after %v; want errFull after errReset", err, broke)
		tr = &trial{errs: []error{errNoPort, errFull}}
		if _, err, broke := retry(true).Do(t.Context(), true, tr.send); !errors.Is(err, errFull) || broke != nil {
			t.Errorf("a request that found nobody ended with %v after %v", err, broke)
		}
	})
}

// Only a request with Failover outlasts servers that replace each other.
func TestARequestWithFailoverOutlastsTheChangeOfThePrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for patient, want := range map[bool]int{true: 4, false: 1} {
			tr := &trial{errs: []error{errReplica, errNoPort, errReplica}}
			answer, err, broke := retry(patient).Do(t.Context(), true, tr.send)
			assert.True(t, tr.sent == want && (err == nil) == patient && (answer == "done") == patient && broke == nil,
				"patient %v: sent %d times, %q, %v after %v", patient, tr.sent, answer, err, broke)
		}
	})
}

// The first repetition comes without a pause, but not after the deadline.
func TestNothingIsSentAgainAfterItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		tr := &trial{errs: []error{errReset, errReset, errReset}, took: 2 * time.Second}
		_, err, _ := retry(true).Do(ctx, true, tr.send)
		assert.True(t, tr.sent == 1 && errors.Is(err, context.DeadlineExceeded), "sent %d times: %v", tr.sent, err)
	})
}

// A request that must not run late is sent again only if it has certainly not run.
func TestOnlyARepeatableRequestIsSentAgainAfterABrokenConnection(t *testing.T) {
	for _, c := range []struct {
		errs    []error
		repeats bool
		sent    int
	}{
		{[]error{errReset}, true, 2},
		{[]error{errReset}, false, 1},
		{[]error{errNoPort}, false, 2},
		{[]error{errReplica, errNoPort}, false, 3},
		{[]error{errNoPort, errReset}, false, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr := &trial{errs: c.errs}
			_, err, broke := retry(true).Do(t.Context(), c.repeats, tr.send)
			assert.True(t, tr.sent == c.sent && (err == nil) == (c.sent > len(c.errs)) && broke == nil,
				"%v, repeatable %v: sent %d times: %v, %v", c.errs, c.repeats, tr.sent, err, broke)
		})
	}
}

// The last try ends with the context, while it connects. Why the one before failed says more.
func TestTheEndOfTheContextDoesNotHideWhyNothingWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, why := range []error{errNoPort, errReplica} {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			connecting := Unsent(&net.OpError{Op: "dial", Err: context.DeadlineExceeded})
			tr := &trial{errs: []error{why, connecting}, took: 2 * time.Second}
			_, err, broke := retry(true).Do(ctx, true, tr.send)
			cancel()
			assert.True(t, tr.sent == 2 && errors.Is(err, why) && broke == nil,
				"sent %d times: %v, %v", tr.sent, err, broke)
		}
	})
}

// Clients that lost their server together return one after the other.
func TestPausesAreRandomAndBounded(t *testing.T) {
	for _, failures := range []int{1, 3, 10, 1000} {
		longest := min(time.Second, 10*time.Millisecond<<min(failures, 10))
		least, most := longest, time.Duration(0)
		for range 100 {
			pause := Backoff(failures)
			least, most = min(least, pause), max(most, pause)
		}
		assert.True(t, least >= longest/2 && most <= longest && most-least >= longest/10,
			"after %d failures from %v to %v", failures, least, most)
	}
}
