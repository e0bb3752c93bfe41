package neighbour

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/store"
)

// acquire takes the lock, or makes the attempt wait for the neighbour's message.
//
// A waiter must be subscribed before the request that finds the lock held, or a release between
// the two would be missed. The first request is made without that: usually the lock is free.
func (s *Store) acquire(ctx context.Context, names []string, in *arguments) (string, error) {
	a := Attempt{Name: names[0], ID: in.text(), TTL: in.millis()}
	a.Record = in.millis() - a.TTL
	in.mode(&a)
	waiterTTL, prefix, owner := in.millis(), in.text(), in.owner()
	switch {
	case !in.ok():
		return "", nil
	case owner != "":
		return "", s.unsupported("Owner")
	}
	if err := s.carries(a.Mode); err != nil {
		return "", err
	}
	wait := waiterTTL > 0
	e := s.entryOf(a, prefix, waiterTTL)
	hears := wait && s.joinReady(e)
	got, err := s.try(ctx, e, wait)
	if err == nil && wait && !hears && busy(got) {
		if hears = s.subscribe(ctx, e); hears {
			got, err = s.try(ctx, e, wait)
		}
	}
	if err != nil {
		if definite(err) {
			s.forgetUnless(e, func(e *entry) bool { return e.unsure > 0 })
		}
		return "", err
	}
	return s.answer(e, got, wait, hears), nil
}

// busy reports whether the lock is held by others.
func busy(got Outcome) bool { return !got.Granted && !got.Gone && got.Limit == 0 }

// forgetUnless forgets an attempt of which the server keeps nothing, unless keep says otherwise.
func (s *Store) forgetUnless(e *entry, keep func(*entry) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !keep(e) {
		s.remove(attemptKey{e.Name, e.ID})
	}
}

// answer says the outcome of an acquire or a poll in the library's words.
func (s *Store) answer(e *entry, got Outcome, wait, hears bool) string {
	switch {
	case got.Granted:
		s.granted(e)
		return fmt.Sprintf("granted %d %d", got.Token, got.Waiting)
	case got.Gone:
		s.drop(e.Name, e.ID)
		return "gone"
	case got.Limit != 0:
		s.drop(e.Name, e.ID)
		return fmt.Sprintf("conflict %d", got.Limit)
	case !wait:
		s.drop(e.Name, e.ID)
		holder := "-"
		if got.Holder != "" {
			holder = wire.Owner(got.Holder)
		}
		return "busy " + millis(got.Left) + " " + holder
	}
	s.update(e, func(e *entry) { e.waiting = true })
	again := lookAfter(got.Left, e.TTL, s.traits.PollEvery, hears)
	return fmt.Sprintf("queued %d %s %s", got.Place, millis(again), placeholderNow)
}

const (
	// soonest bounds how soon a waiter looks again by its timer. The client adds some
	// milliseconds.
	soonest = 10 * time.Millisecond
	// unbounded stands for a time that nobody can tell. The client looks at every heartbeat.
	unbounded = time.Hour
)

// lookAfter returns how long a waiter waits for a message before it looks again. left is what the
// holders have, ttl what the waiter wants, and every the wire's own bound; hears says whether it hears
// messages. The result is never zero, which would make it ask without a pause, and never without a bound.
func lookAfter(left, ttl, every time.Duration, hears bool) time.Duration {
	if left < 0 {
		left = unbounded
	}
	if every > 0 {
		left = min(left, every)
	} else if !hears {
		left = min(left, max(ttl/30, soonest), time.Second)
	}
	return max(left, soonest)
}

// poll asks for the lock again. The attempt may have been granted it by a request whose answer
// was lost: the wire's Acquire is the same then.
func (s *Store) poll(ctx context.Context, names []string, in *arguments) (string, error) {
	id, ttl, record, waiterTTL, prefix, owner := in.text(), in.millis(), in.millis(), in.millis(), in.text(), in.owner()
	switch {
	case !in.ok():
		return "", nil
	case owner != "":
		return "", s.unsupported("Owner")
	}
	e := s.find(names[0], id)
	if e == nil {
		return "gone", nil // cancelled: a late poll does not bring it back
	}
	a := s.attempt(names[0], id)
	a.TTL, a.Record = ttl, record
	e = s.entryOf(a, prefix, waiterTTL)
	hears := s.joinReady(e)
	if !hears {
		hears = s.subscribe(ctx, e)
	}
	got, err := s.try(ctx, e, true)
	if err != nil {
		return "", err
	}
	return s.answer(e, got, true, hears), nil
}

// cancel ends an acquisition. If a request of it got no answer, that request may still
// arrive, and take the lock again. So the answer is then none, and the client goes on to cancel
// until such a grant would have expired.
func (s *Store) cancel(ctx context.Context, names []string, in *arguments) (string, error) {
	id := in.text()
	in.skipRecord()
	if !in.ok() {
		return "", nil
	}
	name := names[0]
	e := s.find(name, id)
	if e != nil {
		s.update(e, s.leave)
	}
	found, err := s.wire.Cancel(ctx, s.attempt(name, id))
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var seen entry
	if e != nil {
		if found && e.unsure > 0 && e.held.IsZero() {
			e.unsure-- // it was the effect of that request: no other was answered by a grant
		}
		seen = *e
	}
	answer, over := cancelled(found, seen.waiting, seen.unsure)
	if over {
		s.remove(attemptKey{name, id})
	} // else the entry stays until nobody asks any more
	return answer, nil
}

// cancelled is the answer to a cancel. found says whether the server had something of the attempt,
// waiting whether the attempt was in a queue, and unsure how many of its requests may still arrive. If
// there are any, it is not over.
func cancelled(found, waiting bool, unsure int) (answer string, over bool) {
	switch {
	case unsure > 0:
		return "none", false
	case found:
		return "released", true
	case waiting:
		return "withdrawn", true
	}
	return "none", true
}

// release gives a hold up. If an earlier request for the same got no answer, a hold that is gone before its
// lease is over was released by that.
func (s *Store) release(ctx context.Context, names []string, in *arguments) (string, error) {
	id := in.text()
	in.text() // the token: an attempt's ID is enough
	in.skipRecord()
	if !in.ok() {
		return "", nil
	}
	held, err := s.wire.Release(ctx, s.attempt(names[0], id))
	return s.left(names[0], id, held, err, "released")
}

// left is the answer to a request that ends a hold.
func (s *Store) left(name, id string, held bool, err error, word string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := attemptKey{name, id}
	e := s.entries[key]
	switch {
	case err != nil:
		if e != nil && !definite(err) {
			e.leaving = true
		}
		return "", err
	case held:
		s.remove(key)
		return word, nil
	case e != nil && e.leaving && time.Now().Before(e.trusted):
		s.remove(key)
		return "released", nil
	}
	return "gone", nil
}

// releaseAfter gives a hold up, and keeps the lock until its minimum time is over. Then the key
// expires, which the neighbour's waiters hear of by their own timers only.
func (s *Store) releaseAfter(ctx context.Context, names []string, in *arguments) (string, error) {
	id := in.text()
	in.text() // the token: an attempt's ID is enough
	minHold, keep := in.millis(), in.millis()
	in.skipRecord()
	if !in.ok() {
		return "", nil
	}
	left := keep
	if e := s.find(names[0], id); e != nil {
		s.update(e, func(e *entry) { left = max(left, minHold-time.Since(e.held)) })
	}
	a := s.attempt(names[0], id)
	if left < time.Millisecond {
		held, err := s.wire.Release(ctx, a)
		return s.left(a.Name, id, held, err, "released")
	}
	held, err := s.wire.Keep(ctx, a, left)
	return s.left(a.Name, id, held, err, "kept "+millis(left))
}

// renew extends several holds.
func (s *Store) renew(ctx context.Context, names []string, in *arguments) (string, error) {
	record, common := in.millis(), in.text()
	holds := make([]Attempt, len(names))
	for i, name := range names {
		id, ttl, owner := wire.ParseLeaseWord(in.text(), common)
		if owner != "" {
			return "", s.unsupported("Owner")
		}
		holds[i] = s.attempt(name, id)
		holds[i].TTL, holds[i].Record = in.millisIn(ttl), record
	}
	if !in.ok() {
		return "", nil
	}
	got, err := s.wire.Renew(ctx, holds)
	if err != nil {
		return "", err
	}
	if len(got) != len(holds) {
		return "", wire.BadAnswer(fmt.Sprintf("%d renewals of %d", len(got), len(holds)))
	}
	answer := []string{"renewed"}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range got {
		switch r {
		case Renewed:
			if e := s.entries[attemptKey{holds[i].Name, holds[i].ID}]; e != nil {
				e.trusted = time.Now().Add(holds[i].TTL)
				e.until = e.trusted.Add(record)
			}
			answer = append(answer, "0")
		case Unsure:
			answer = append(answer, "?")
		default:
			answer = append(answer, "-")
		}
	}
	return strings.Join(answer, " "), nil
}

// acquireAll takes several locks one by one, and gives all of them back if one is held. Between
// two of them, others may see the first ones held.
func (s *Store) acquireAll(ctx context.Context, names []string, in *arguments) (string, error) {
	a := Attempt{ID: in.text(), TTL: in.millis(), Mode: Exclusive, Count: 1}
	a.Record = in.millis()
	prefixes := make([]string, len(names))
	for i := range prefixes {
		prefixes[i] = in.text()
	}
	if !in.ok() {
		return "", nil
	}
	if err := s.carries(Exclusive); err != nil {
		return "", err
	}
	answer := []string{"granted"}
	for i, name := range names {
		a.Name = name
		e := s.entryOf(a, prefixes[i], 0)
		got, err := s.try(ctx, e, false)
		if err == nil && got.Granted {
			s.granted(e)
			answer = append(answer, strconv.FormatUint(got.Token, 10), strconv.Itoa(got.Waiting))
			continue
		}
		left := s.cancelAll(ctx, names[:i], a)
		switch {
		case err != nil && left != nil && definite(err):
			// The refusal is of this lock, and the earlier ones may still be held. So this is no
			// definite answer of all.
			return "", fmt.Errorf("neighbour: %w, after %s", left, err.Error())
		case err != nil:
			return "", err
		case left != nil:
			return "", left
		}
		said := strings.TrimPrefix(s.answer(e, got, false, false), "busy ")
		return fmt.Sprintf("busy %d %s", i+1, said), nil
	}
	return strings.Join(answer, " "), nil
}

// cancelAll gives back the locks of an acquisition that failed. Its error is never definite, because
// the client must then cancel all of them.
func (s *Store) cancelAll(ctx context.Context, names []string, a Attempt) error {
	for _, name := range names {
		a.Name = name
		if _, err := s.wire.Cancel(ctx, a); err != nil {
			return errors.New("the locks acquired so far were not released: " + err.Error())
		}
		s.drop(name, a.ID)
	}
	return nil
}

// evict ends the holds of a lock for an operator. The neighbour's formats have no place for who
// it was and why.
func (s *Store) evict(ctx context.Context, names []string, in *arguments) (string, error) {
	in.text() // who it was
	in.text() // and why
	word := in.text()
	if word == wire.Force {
		return "", s.unsupported("eviction by force: set Eviction.AtOnce instead, or write --at-once")
	}
	only := in.numberIn(word)
	in.skipRecord() // with the ID of the request
	in.owner()      // and its bound: the neighbour's record has no place for either, so it is sent once
	if len(in.words) > 0 {
		return "", s.unsupported("way to ask a holder to end: set Eviction.AtOnce, or write --at-once")
	}
	if !in.ok() {
		return "", nil
	}
	ended, err := s.wire.Evict(ctx, names[0], only)
	switch {
	case err != nil:
		return "", err
	case ended > 0:
		s.tellEvicted(names[0])
		return "evicted " + strconv.Itoa(ended), nil
	case only != 0:
		return "changed 0", nil
	}
	return "free", nil
}

// tellEvicted makes the clients of this process ask about their holds of the lock. Those of
// other processes find out at their next renewal.
func (s *Store) tellEvicted(name string) {
	s.mu.Lock()
	var pushes []push
	for key, e := range s.entries {
		if key.name == name && !e.held.IsZero() {
			pushes = append(pushes, push{e.channel, "evicted " + e.ID})
		}
	}
	s.mu.Unlock()
	for _, p := range pushes {
		s.deliver(p)
	}
}

// permissions is check_acl for the commands of a wire.
var permissions = NewScript("check_acl", Repeats, `#!lua flags=no-writes
local check = redis.acl_check_cmd
if not check then return 'unknown' end
local missing = {}
for i = 2, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '%S+') do
    if word == 'KEY' then word = KEYS[1] elseif word == 'CHANNEL' then word = ARGV[1] end
    words[#words + 1] = word
  end
  local known, may = pcall(check, unpack(words))
  if not (known and may) then missing[#missing + 1] = words[1] end
end
if #missing == 0 then return 'permitted' end
return 'missing ' .. table.concat(missing, ' ')`)

// someone is an attempt of nobody: a channel may have the attempt in its name.
const someone = "AAAAAAAAAAAAAAAAAAAAAA/0"

// checkACL asks whether the server's user may run the commands of the wire. Without the permission for its messages,
// the neighbour's waiters would hear of no release, and would wait for the rest of a lease that is over: that is
// refused, too.
func (s *Store) checkACL(ctx context.Context, names []string, _ *arguments) (string, error) {
	if len(s.traits.Commands) == 0 {
		return "unknown", nil
	}
	key, err := s.wire.Key(names[0])
	if err != nil {
		return "", badName(names[0], err)
	}
	channel := s.wire.Channel(Attempt{Name: names[0], ID: someone})
	answer, err := s.inner.Run(ctx, permissions, []string{key}, append([]string{channel}, s.traits.Commands...))
	if err != nil {
		return "", err
	}
	missing, _ := wire.ParseMissing(answer)
	for _, command := range missing {
		if command == "publish" || command == "spublish" {
			return "", &store.ServerError{Code: "NOPERM", Message: fmt.Sprintf(
				"NOPERM the user may not %s to %s, where programs with %s wait", command, channel, s.traits.Neighbour)}
		}
	}
	return answer, nil
}
