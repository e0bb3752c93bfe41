package request_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// apart has the requests of this package on any number of keys, each for keys of which the user may
// not use one. Nil: all or none of the keys, so the refusal is for all.
var apart = map[*script.Script]func(t *testing.T, s *request.Sender, keys []string) (served []bool){
	script.Renew: func(t *testing.T, s *request.Sender, keys []string) (served []bool) {
		var holds []request.Renewal
		for _, key := range keys {
			holds = append(holds, request.Renewal{Key: key, Attempt: "c/1", TTL: 30 * time.Second})
		}
		renewals, _, err := s.Renew(t.Context(), time.Minute, request.Acks{}, holds)
		assert.Must(t, err)
		for _, r := range renewals {
			assert.True(t, r.Held == (r.Err == nil), "%+v", r)
			served = append(served, r.Held)
		}
		return served
	},
	script.AcquireFree: func(t *testing.T, s *request.Sender, keys []string) []bool {
		return alone(t, s, script.AcquireFree, keys, append([]string{"30000", "60000"}, attempts(keys, "c/2")...))
	},
	script.ReleaseIdle: func(t *testing.T, s *request.Sender, keys []string) []bool {
		return alone(t, s, script.ReleaseIdle, keys, attempts(keys, "c/1"))
	},
	script.ReadClient: func(t *testing.T, s *request.Sender, keys []string) (served []bool) {
		var asked []request.ClientNotes
		for i := range keys {
			id := fmt.Sprint(i)
			said := []string{"60000", "app", "host", "1", "v1", "5"}
			_, err := s.Run(t.Context(), script.RegisterClient, []string{wire.ClientKey("p", id)}, said)
			assert.True(t, (err == nil) == (i != 77), "registering %d: %v", i, err)
			asked = append(asked, request.ClientNotes{ID: id})
		}
		for _, line := range s.ReadClients(t.Context(), asked) {
			served = append(served, line != nil)
		}
		return served
	},
	script.Check: func(t *testing.T, s *request.Sender, keys []string) (served []bool) {
		for _, key := range keys { // for several at once see TestChecksThatComeTogetherShareRequests
			served = append(served, assert.Err(s.Check(t.Context(), key, 5)) == nil)
		}
		return served
	},
	script.AcquireAll: nil,
}

// alone sends a request, and says for which keys nothing has failed. The others are sent alone.
func alone(t *testing.T, s *request.Sender, a *script.Script, keys, args []string) (served []bool) {
	_, each, err := s.RunSeveral(t.Context(), s.Timeout, a, keys, args)
	assert.Must(t, err)
	for _, key := range keys {
		_, err := s.Run(t.Context(), script.Inspect, []string{key}, nil)
		served = append(served, err == nil)
	}
	assert.Equal(t, each, strings.Repeat("-", len(keys)), "each is sent alone")
	return served
}

func attempts(keys []string, attempt string) []string {
	return slices.Repeat([]string{attempt}, len(keys))
}

// A server refuses a request before the script runs, if the user lacks the permission for one of its
// keys. The leases of the other keys are renewed, and their requests are sent. Guarantee: I14.
func TestOneKeyWithoutPermissionEndsNoOther(t *testing.T) {
	for _, a := range script.All() {
		_, several := apart[a]
		assert.True(t, strings.Contains(a.Source(), "\n-- KEYS   n ") == several,
			"%s: is it a request on several keys? Then it must be in apart", a.Name)
		if apart[a] == nil {
			continue
		}
		m := memstore.New()
		s := request.New(request.Config{Store: m, Prefix: "p", Timeout: time.Second, Retention: "60000"})
		var keys []string
		for i := range 128 {
			key := fmt.Sprintf("p:{%d}", i)
			keys = append(keys, key)
			_, err := m.Run(context.Background(), script.Acquire, []string{key},
				[]string{"c/1", "30000", "90000", "x", "0", "p:push:"})
			assert.Must(t, err)
		}
		var requests atomic.Int32 // also from several goroutines
		m.FailRequest(func(_ string, keys []string) error {
			if requests.Add(1); slices.Contains(keys, "p:{77}") || slices.Contains(keys, "p:client:77") {
				return &store.ServerError{Code: "NOPERM", Message: "NOPERM No permissions to access a key"}
			}
			return nil
		})
		for i, served := range apart[a](t, s, keys) {
			assert.True(t, served == (i != 77), "%s: key %d is served: %v", a.Name, i, served)
		}
		if a == script.Renew {
			assert.AtMost(t, requests.Load(), 15, "requests for a renewal of 128 leases")
		}
	}
}

// If the server refuses all, a renewal does not send a request for each.
func TestARenewalThatIsRefusedForAllEndsSoon(t *testing.T) {
	m := memstore.New()
	s := request.New(request.Config{Store: m, Prefix: "p", Timeout: time.Second, Retention: "60000"})
	requests := 0
	refusal := &store.ServerError{Code: "NOPERM", Message: "NOPERM No permissions to access a key"}
	m.FailRequest(func(string, []string) error {
		requests++
		return refusal
	})
	var holds []request.Renewal
	for i := range 128 {
		holds = append(holds, request.Renewal{Key: fmt.Sprint(i), Attempt: "c/1", TTL: time.Second})
	}
	_, _, err := s.Renew(t.Context(), time.Minute, request.Acks{}, holds)
	assert.True(t, errors.Is(err, refusal), "the error is %v", err)
	assert.AtMost(t, requests, 61, "requests")
}

// What one client has written hides no other, whether it is a word that is none or a line more.
func TestAClientThatCannotBeReadHidesNoOther(t *testing.T) {
	s := request.New(request.Config{Store: memstore.New(), Prefix: "p", Timeout: time.Second, Retention: "60000"})
	odd := map[int][]string{
		3: {"60000", "x\nclient evil h 1 v 5", "host", "1", "v1", "5"}, 5: {"60000", "a b", "host", "1", "v1", "5"},
		7: {"60000", "app", "host", "99999999999999999999", "v1", "5"},
		9: {"60000", "app", "host", "1", "v1", "-1\nunknown"},
	}
	for _, ids := range [][]int{{3}, {5, 7}, {3, 5, 7, 9}} {
		var asked []request.ClientNotes
		for i := range 100 {
			said := []string{"60000", "app", "host", "1", "v1", "5"}
			if slices.Contains(ids, i) {
				said = odd[i]
			}
			_, err := s.Run(t.Context(), script.RegisterClient, []string{wire.ClientKey("p", fmt.Sprint(i))}, said)
			assert.Must(t, err)
			asked = append(asked, request.ClientNotes{ID: fmt.Sprint(i)})
		}
		for i, line := range s.ReadClients(t.Context(), asked) {
			known := line != nil && line.App == "app"
			assert.True(t, known != slices.Contains(ids, i), "with %d: client %d is %+v", ids, i, line)
		}
	}
}
