package locker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integrate/locker"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
)

var eviction = holdfast.Eviction{By: "a test", Reason: "to see what happens"}

func newClient(t *testing.T, s *memstore.Store) *holdfast.Client {
	t.Helper()
	client, err := holdfast.New(s, holdfast.Config{})
	assert.Must(t, err)
	t.Cleanup(client.Abandon)
	return client
}

// never fails the test if it hears of anything.
func never(t *testing.T) func(error) {
	return func(err error) { t.Errorf("heard of %v", err) }
}

func TestALockerExcludesOtherProcessesAndItsOwnGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		mine := locker.New(newClient(t, s).Mutex("a"), never(t))
		theirs := locker.New(newClient(t, s).Mutex("a"), never(t))
		inside, most := 0, 0
		done := make(chan struct{}, 20)
		for i := range cap(done) {
			l := mine
			if i%2 == 0 {
				l = theirs
			}
			go func() {
				l.Lock()
				inside++
				most = max(most, inside)
				time.Sleep(time.Second)
				inside--
				l.Unlock()
				done <- struct{}{}
			}()
		}
		for range cap(done) {
			<-done
		}
		assert.True(t, most == 1, "%d were inside at a time", most)
	})
}

func TestALostLockIsReportedAndNeverReleasesTheNextHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, memstore.New())
		heard := make(chan error, 9)
		l := locker.New(client.Mutex("a"), func(err error) { heard <- err })
		l.Lock()
		n, err := client.Evict(t.Context(), "a", eviction)
		assert.MustTrue(t, n == 1 && err == nil, "evicted %d holders: %v", n, err)
		var lost *holdfast.LostError
		err = <-heard
		assert.True(t, errors.As(err, &lost), "heard of %v", err)

		// The lock is free at the server. The next goroutine waits all the same, for this one.
		second := make(chan struct{})
		go func() {
			l.Lock()
			close(second)
		}()
		synctest.Wait()
		select {
		case <-second:
			t.Fatal("two goroutines are inside after the loss")
		default:
		}
		l.Unlock()
		<-second
		state, err := client.Holders(t.Context(), "a")
		assert.True(t, state.Held() && err == nil, "the second hold: held %v, %v", state.Held(), err)
		l.Unlock()
		state, err = client.Holders(t.Context(), "a")
		assert.True(t, !state.Held() && err == nil, "after the last Unlock: held %v, %v", state.Held(), err)
		synctest.Wait()
		if len(heard) != 0 {
			t.Errorf("heard of %v too", <-heard)
		}
	})
}

func TestALockThatCannotBeAcquiredNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, memstore.New())
		assert.Must(t, client.Close(t.Context()))
		heard := make(chan error, 1)
		l := locker.New(client.Mutex("a"), func(err error) { heard <- err })
		for range 2 { // the second one shows that the first left nothing locked
			func() {
				defer func() {
					err, _ := recover().(error)
					assert.Is(t, err, holdfast.ErrClosed)
				}()
				l.Lock()
				t.Error("Lock returned without the lock")
			}()
			assert.Is(t, <-heard, holdfast.ErrClosed)
		}
	})
}

func TestMisuseOfALockerPanics(t *testing.T) {
	client := newClient(t, memstore.New())
	for name, misuse := range map[string]func(){
		"no mutex":    func() { locker.New(nil, func(error) {}) },
		"no function": func() { locker.New(client.Mutex("a"), nil) },
		"not locked":  func() { locker.New(client.Mutex("a"), func(error) {}).Unlock() },
	} {
		func() {
			defer func() {
				text, _ := recover().(string)
				assert.True(t, strings.HasPrefix(text, "BUG: "), "%s: the panic is %q", name, text)
			}()
			misuse()
		}()
	}
	state, err := client.Holders(context.Background(), "a")
	assert.True(t, !state.Held() && err == nil, "held %v, %v", state.Held(), err)
}
