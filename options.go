// The options of all kinds of locks.

package holdfast

import (
	"math"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/store"
)

// Option is an option of every kind. These are all options, and the kinds that take them:
//
//	TTL, LockDelay, NoRenewal, MaxRenewals, MaxHold,
//	MaxWait, Tags, WaitReplicas, WaitAOF
//	                                 Option          every kind
//	Tries, BreakDeadlock, Checked    LockOption      every kind but Periodic
//	Reentrant, Owner, MinHold        MutexOption     Mutex
//	ReadTTL                          RWMutexOption   RWMutex
//	ServerLimit                      SemaphoreOption Semaphore
//	StartAt, DoneOnSuccess           PeriodicOption  Periodic
//
// An option has the type of the kinds for which it has a meaning. With another
// kind it does not compile. If a value cannot work, or if two options
// contradict each other, the first use of the lock returns an [ErrInvalid]. It sends nothing.
type Option interface {
	LockOption
	PeriodicOption
}

// LockOption is an option of every kind of lock: [Client.Mutex], [Client.RWMutex], [Client.Semaphore],
// [Client.MultiMutex] and [Client.Election]. Every [Option] is one, and so are [Tries], [BreakDeadlock] and
// [Checked].
// With a MultiMutex it applies to each of the locks.
type LockOption interface {
	MutexOption
	RWMutexOption
	SemaphoreOption
	forEveryLock()
}

// MutexOption is an option of [Client.Mutex]: every [LockOption], [Reentrant], [Owner] and [MinHold].
type MutexOption interface {
	set(*lockOptions) error
	forMutex()
}

// RWMutexOption is an option of [Client.RWMutex]: every [LockOption], and [ReadTTL].
type RWMutexOption interface {
	set(*lockOptions) error
	forRWMutex()
}

// SemaphoreOption is an option of [Client.Semaphore]: every [LockOption], and [ServerLimit].
type SemaphoreOption interface {
	set(*lockOptions) error
	forSemaphore()
}

// PeriodicOption is an option of [Client.Periodic]: every [Option], [StartAt] and [DoneOnSuccess].
type PeriodicOption interface {
	set(*lockOptions) error
	forPeriodic()
}

// setting is the effect of an option. The types around it say for which kinds the option
// is.
type setting func(*lockOptions) error

func (s setting) set(o *lockOptions) error { return s(o) }

type mutexOption struct{ setting }

func (mutexOption) forMutex() {}

type rwMutexOption struct{ setting }

func (rwMutexOption) forRWMutex() {}

type semaphoreOption struct{ setting }

func (semaphoreOption) forSemaphore() {}

type periodicOption struct{ setting }

func (periodicOption) forPeriodic() {}

type lockOption struct{ setting }

func (lockOption) forMutex()     {}
func (lockOption) forRWMutex()   {}
func (lockOption) forSemaphore() {}
func (lockOption) forEveryLock() {}

type anyOption struct{ lockOption }

func (anyOption) forPeriodic() {}

func anyKind(s setting) Option { return anyOption{lockOption{s}} }

// choose applies the options to the defaults of a kind. It refuses a nil option, an invalid
// value, and a contradiction.
func choose[O interface{ set(o *lockOptions) error }](
	c *Client, name string, kind lockOptions, options []O,
) (lockOptions, error) {
	kind.maxWait, kind.ttl = -1, c.cfg.TTL
	for _, option := range options {
		if any(option) == nil {
			return kind, invalid("an option of the lock %q is nil: leave it out", name)
		}
		if err := option.set(&kind); err != nil {
			return kind, err
		}
	}
	if err := kind.validate(c); err != nil {
		return kind, err
	}
	kind.noLocalQueue = kind.noLocalQueue || kind.owner != ""
	if kind.maxHold > 0 {
		kind.ttl = min(kind.ttl, leasetime.TTLFor(kind.maxHold))
		kind.readTTL = min(kind.readTTL, leasetime.TTLFor(kind.maxHold))
	}
	return kind, nil
}

// validate refuses options that contradict each other or the client's configuration. It is
// the only function that does this, because an option alone knows only its own values.
func (o *lockOptions) validate(c *Client) error {
	_, acker := store.As[store.Acker](c.store)
	switch {
	case o.tooLong(max(o.ttl, o.readTTL)) != nil:
		return o.tooLong(max(o.ttl, o.readTTL))
	case o.noRenewal && o.maxRenewals > 0:
		return invalid("NoRenewal and MaxRenewals cannot be combined: leave one of them out")
	case o.maxHold > 0 && o.minHold > o.maxHold:
		return invalid("MinHold (%v) is longer than MaxHold (%v): use a shorter MinHold or a longer MaxHold",
			o.minHold, o.maxHold)
	case o.tries > 0 && o.maxWait >= 0:
		return invalid("MaxWait and Tries cannot be combined: leave one of them out")
	case o.tries > 0 && o.breaksDeadlock:
		return invalid("Tries and BreakDeadlock cannot be combined: a call with Tries does not join the wait queue")
	case o.ack.Wanted() && !acker:
		return invalid("%s: this store cannot wait for acknowledgements: leave the option out", ackOptions(o.ack))
	case o.ack.Wanted() && o.ack.Total() >= c.cfg.RequestTimeout:
		return invalid("%s: the wait may take %v, but must take less than Config.RequestTimeout (%v): "+
			"use a shorter timeout", ackOptions(o.ack), o.ack.Total(), c.cfg.RequestTimeout)
	}
	return nil
}

// TTL sets how long a lease lasts if it is not renewed, in place of [Config.TTL]. d is in
// whole milliseconds, from 10 ms to 365 days.
//
// For an RWMutex it sets the lease of writers, and also that of readers unless [ReadTTL] is
// given. The TTL of a [Periodic] must not be longer than its period. For every kind.
func TTL(d time.Duration) Option {
	return anyKind(func(o *lockOptions) error {
		if err := checkTTL(d); err != nil {
			return invalid("%v", err)
		}
		o.ttl = d
		return nil
	})
}

// LockDelay keeps a lost lock held. The lease lasts for the TTL and d on the server, and its holder
// trusts it for the TTL. So until d after the holder has stopped trusting it, no other client
// gets the lock. A lease that is released frees it at once.
//
// Use it if what the lock protects cannot check tokens. These three meet no next holder then: a
// process that was paused for less than d past its trust deadline, a write that travels for less
// than d, and a server whose clock is set forward by less than d. So choose d above the longest
// pause that you have seen, the time limit of a request to the resource, and any step of that clock.
//
// If a process dies, the lock is free after the TTL and d. A lease that was lost is not freed by its
// Release either: that keeps the lock for d from then on, or until the lease on the server has ended.
// After a wait, a grant costs one more request, unless d is shorter than half a second.
//
// d is in whole milliseconds and at least 0, which is the default. d and the TTL together are at most
// 365 days. Goroutines hand a lease over only to one with the same d. A re-entry has that of the first
// lease. For every kind.
func LockDelay(d time.Duration) Option {
	return anyKind(func(o *lockOptions) error {
		switch {
		case d < 0:
			return invalid("the lock-delay is %v: it must be at least 0", d)
		case d%time.Millisecond != 0:
			return invalid("the lock-delay is %v: the server counts in whole milliseconds: use %v",
				d, d.Truncate(time.Millisecond))
		}
		o.delay = d
		return nil
	})
}

// tooLong returns the error for a TTL that is too long together with the lock-delay, or nil.
func (o *lockOptions) tooLong(ttl time.Duration) error {
	if o.delay <= maxTTL-ttl {
		return nil
	}
	return invalid("the TTL (%v) and the lock-delay (%v) are together longer than %v: use a shorter LockDelay or TTL",
		ttl, o.delay, maxTTL)
}

// ReadTTL sets how long a reader's lease lasts, if that differs from a writer's lease,
// which [TTL] sets. d is in whole milliseconds, from 10 ms to 365 days. For an RWMutex.
func ReadTTL(d time.Duration) RWMutexOption {
	return rwMutexOption{func(o *lockOptions) error {
		if err := checkTTL(d); err != nil {
			return invalid("%v", err)
		}
		o.readTTL = d
		return nil
	}}
}

// MaxWait limits how long a call waits for the lock, from the beginning of the call. After
// d the call gives up with a [*HeldError]. The error names the holder if the server answers
// that question quickly. If the client could not ask a server, the error's Err says why.
//
// If d is 0, the call tries once. A negative d is refused. Without MaxWait the call waits
// until its context ends. MaxWait and [Tries] cannot be combined.
//
// A [Periodic] is different. With MaxWait, [Periodic.Do] waits up to d for the next period.
// Without MaxWait it does not wait. For every kind.
func MaxWait(d time.Duration) Option {
	return anyKind(func(o *lockOptions) error {
		if d < 0 {
			return invalid("MaxWait is %v: use 0 to try once, or leave it out to wait until the context ends", d)
		}
		o.maxWait = d
		return nil
	})
}

// Tries makes a call try n times. The call does not enter the wait queue. The pause between
// two tries is random, from half of interval to one and a half times interval. After the
// last try the call gives up with a [*HeldError], whose Tries is n.
//
// Between two tries the server keeps nothing of the call: no position in the wait queue,
// and no subscription. So callers that try have no order among themselves, and every waiter
// comes before them.
//
// Use Tries to bound the number of requests. It is not needed where subscriptions are not
// permitted: Lock detects that, and polls.
//
// n is at least 1, and interval is from 1 ms to 365 days. Tries and [MaxWait] exclude each
// other. For every kind but Periodic, which does not wait in a queue.
func Tries(n int, interval time.Duration) LockOption {
	return lockOption{func(o *lockOptions) error {
		switch {
		case n < 1:
			return invalid("the number of tries is %d: it must be at least 1", n)
		case interval < time.Millisecond || interval > maxTTL:
			return invalid("the interval between tries is %v: it must be from 1ms to %v", interval, maxTTL)
		}
		o.tries, o.interval = n, interval
		return nil
	}}
}

// NoRenewal makes leases that end after their TTL unless [Lease.Extend] extends them. Such
// a lease is never handed over to another goroutine of the process: each lease begins with
// its full TTL. NoRenewal and [MaxRenewals] cannot be combined. For every kind.
func NoRenewal() Option {
	return anyKind(func(o *lockOptions) error {
		o.noRenewal = true
		return nil
	})
}

// MaxRenewals limits the renewals of a lease to n. After that the lease ends with its TTL,
// and is lost with the reason [LossLimit].
//
// The client sends a renewal after each third of the TTL. Two things do not count:
// [Lease.Extend], and the renewal that confirms a grant after a wait, which the client
// sends at once.
//
// n is at least 1. MaxRenewals and [NoRenewal] cannot be combined. For every kind.
func MaxRenewals(n int) Option {
	return anyKind(func(o *lockOptions) error {
		if n < 1 {
			return invalid("MaxRenewals is %d: it must be at least 1, use NoRenewal for none", n)
		}
		o.maxRenewals = int32(min(n, math.MaxInt32))
		return nil
	})
}

// MaxHold limits how long a lease lasts in all, from its grant. After d the lease is lost
// with the reason [LossLimit]. Neither a renewal nor [Lease.Extend] makes it longer. The
// server grants the lock to another client only after the loss: a hundredth of the TTL and
// some milliseconds later.
//
// If the TTL is longer than d, it is cut to d. d is from 10 ms to 365 days, and not shorter
// than [MinHold]. For every kind.
func MaxHold(d time.Duration) Option {
	return anyKind(func(o *lockOptions) error {
		if d < leasetime.MinTTL || d > maxTTL {
			return invalid("MaxHold is %v: it must be from %v to %v", d, leasetime.MinTTL, maxTTL)
		}
		o.maxHold = d
		return nil
	})
}

// MinHold keeps the lock held until d has passed since its grant, by the server's clock,
// also if the holder releases it earlier. Until then the server grants the lock to nobody,
// not even to this process. For example, several machines start the same short job by their
// own clocks. If d is longer than the difference of their clocks, the job runs once.
//
// MinHold takes effect with the release. If a process dies before its release, the lock is
// free when the lease ends, which may be earlier or later than d. With [Owner] the entry
// that is released last decides.
//
// d is from 1 ms to 365 days, and not longer than [MaxHold]. For a Mutex.
func MinHold(d time.Duration) MutexOption {
	return mutexOption{func(o *lockOptions) error {
		if d < time.Millisecond || d > maxTTL {
			return invalid("MinHold is %v: it must be from 1ms to %v", d, maxTTL)
		}
		o.minHold = d
		return nil
	}}
}

// Reentrant lets a caller acquire a lock again under the context of a live lease of that
// lock. Without Reentrant that is an [ErrDeadlock]. A re-entry sends no request.
//
// Each acquisition returns a lease of its own, with the token of the first one. There is
// one hold, and a resource that checks tokens accepts the writes of all its leases. The
// leases can be released in any order, and the lock is free when the last one is released.
// If the hold is lost, all leases end. The first lease decides about TTL, limits and
// renewal. For a Mutex.
func Reentrant() MutexOption {
	return mutexOption{func(o *lockOptions) error {
		o.reentrant = true
		return nil
	}}
}

// Owner acquires the lock under a name. A client that uses the same owner name, in any process,
// joins the current holders. It does not queue. All other clients wait, and the lock is free
// when the last holder has released it. Use Owner for work that several processes do together.
// It also suits work that one process hands to the next, if the second acquires the lock before
// the first releases it. Under the context of a lease of the same owner, it is a re-entry as
// with [Reentrant].
//
// All entries share one token and one lease on the server, and each entry renews that
// lease. If a process dies, the other entries of its owner keep the lock. If there are
// none, the lock is free when the lease ends. The lock's record stores each entry, which
// makes each request a little slower. So use Owner for a few entries, not for thousands. A
// quorum refuses Owner, and acquires nothing.
//
// name has 1 to 512 bytes of UTF-8. It is not a secret and proves nothing: every program
// that knows the name can enter. For a Mutex.
func Owner(name string) MutexOption {
	return mutexOption{func(o *lockOptions) error {
		switch {
		case name == "":
			return invalid("the owner's name is empty: use a name that the other processes know, such as order/42")
		case len(name) > wire.MaxName:
			return invalid("the owner's name has %d bytes, the limit is %d: shorten it or use a digest of it",
				len(name), wire.MaxName)
		case !utf8.ValidString(name):
			return invalid("the owner's name is not valid UTF-8: encode binary names, for example as hex")
		}
		o.owner = wire.Owner(name)
		return nil
	}}
}

// BreakDeadlock makes a call fail with a [*DeadlockError] if the call is part of a deadlock: it
// holds a lock that another call needs, and waits for one that the other call holds. The other
// call may be in this process or in another one. If several calls in the deadlock have this
// option, the one that began to wait last fails, by the clocks of the servers. That call leaves
// the wait queue. Its caller still holds its leases: release them, and try again.
//
// The library knows what a call holds by its context: use [Lease.Context], or the context that
// Do passes on. It looks for a deadlock when such a call has waited for a third of the TTL, and
// again after each such time: at least a second, and at most a minute. Behind hundreds of
// waiters it looks less often: in a queue of a thousand, every five minutes. After the library
// has first seen a deadlock, every client in it must confirm that its call still waits under
// its leases. Only then does the deadlock count. So it takes about half of the TTL to find one.
// A process that has died is in no deadlock, nor is a call that has ended. Without
// BreakDeadlock, a call in a deadlock goes on waiting, and the deadlock is still reported: by
// an observe.EventDeadlock, and to the logger.
//
// If a goroutine waits under a lease, the library assumes that nobody releases that lease
// before the wait has ended. Two calls that see different parts of several deadlocks at the
// same moment may both fail, although the failure of one would be enough.
//
// The library cannot see waits for anything but its locks, leases that are not in the context,
// calls that only try ([Tries]), and clients of other versions or prefixes. On the wire of another library it sees no
// waiters, and finds no deadlock. Of a lock with [Owner], it sees one holder. It sees at most eight waits under one
// hold, and no cycle of more than 64 locks.
//
// It costs nothing while a lock is free. For every kind but Periodic, which does not wait in a
// queue.
func BreakDeadlock() LockOption {
	return lockOption{func(o *lockOptions) error {
		o.breaksDeadlock = true
		return nil
	}}
}

// Checked makes leases for [Client.Check]: the server knows the whole token of each. So the goroutines of a
// process do not hand a lock over among themselves, and its readers do not share a hold. Each lease has a
// hold of its own, and its ID says so ([Lease.HolderID]).
//
// The price: a release and the next grant in the same process are two requests, one after the other. Without
// Checked, a hand-over takes microseconds. Leases with [NoRenewal], [MaxHold], [MaxRenewals], [MinHold] or
// [Owner], permits, leaderships, and readers that are not upgraded can be checked without it. For every kind but
// Periodic, which does not need it.
func Checked() LockOption {
	return lockOption{func(o *lockOptions) error {
		o.checked = true
		return nil
	}}
}

const (
	mostTags    = 16  // on one lock
	maxTagKey   = 64  // bytes
	maxTagValue = 256 // bytes
)

// Tags describe an acquisition to people: an order number, a deployment, a name. The server
// shows them while the call waits and while the lease lasts, see [Holder.Tags] and
// [Waiter.Tags]. They are no secret, and nothing depends on them.
//
// The client writes them in the background, a moment after the grant. So a lock that is held
// for less than 20 ms may never show its tags, and no call waits for them. If the request
// fails, they appear up to five minutes later. A re-entry has the tags of the first lease.
// Readers of one process share a hold only if they have the same tags.
//
// There are at most 16 tags. A key has 1 to 64 bytes of UTF-8, and a value at most 256. For
// every kind.
func Tags(tags map[string]string) Option {
	return anyKind(func(o *lockOptions) error {
		if len(tags) > mostTags {
			return invalid("there are %d tags: at most %d are allowed", len(tags), mostTags)
		}
		for key, value := range tags {
			switch {
			case key == "":
				return invalid("a tag has an empty key: give it a name, such as order")
			case len(key) > maxTagKey:
				return invalid("the key of the tag %.16q… has %d bytes, the limit is %d", key, len(key), maxTagKey)
			case len(value) > maxTagValue:
				return invalid("the value of the tag %q has %d bytes, the limit is %d", key, len(value), maxTagValue)
			case !utf8.ValidString(key) || !utf8.ValidString(value):
				return invalid("the tag %q is not valid UTF-8: encode binary data, for example as hex", key)
			}
		}
		o.tags = wire.Tags(tags)
		return nil
	})
}

// ServerLimit makes a semaphore take the limit that the server remembers, and not that of this
// program. [Semaphore.SetLimit] and holdfast limit change it. So programs with different limits work
// beside each other, as during a deploy. The limit of [Client.Semaphore] counts if the server
// remembers none: before the first use, and if the semaphore was idle for [Config.Retention], or after
// SetLimit for 30 days. For a Semaphore.
func ServerLimit() SemaphoreOption {
	return semaphoreOption{func(o *lockOptions) error {
		o.serverLimit = true
		return nil
	}}
}

// StartAt makes periods begin at fixed times by the server's clock. One period begins
// offset after the start of 1970 in UTC, and another one after each period. For example,
// Periodic("lottery", 24*time.Hour, StartAt(12*time.Hour)) has periods from noon to noon,
// UTC. offset is in whole milliseconds, and may be negative or longer than a period. For a
// Periodic.
func StartAt(offset time.Duration) PeriodicOption {
	return periodicOption{func(o *lockOptions) error {
		if offset%time.Millisecond != 0 {
			return invalid("the offset is %v: the server counts in whole milliseconds: use %v",
				offset, offset.Truncate(time.Millisecond))
		}
		o.aligned, o.offset = true, offset
		return nil
	}}
}

// mostRuns is the limit of DoneOnSuccess.
const mostRuns = 1_000_000

// DoneOnSuccess makes a period count as used when a run has succeeded: its function returned
// nil, and the lease was held until then. Without this option, a period counts as used when a run
// begins.
//
// A run that ends in any other way is followed by another one in the same period, with the next
// caller: after an error, a panic, a lost lease, an eviction, or the death of its process. The next
// run begins when the lease of the failed one has ended. After tries runs without a success, the
// period counts as used. If a period begins with its run, so does the period of a further run.
//
// If the client cannot tell the server of a success, the job runs once more. For a Periodic.
func DoneOnSuccess(tries int) PeriodicOption {
	return periodicOption{func(o *lockOptions) error {
		if tries < 1 || tries > mostRuns {
			return invalid("DoneOnSuccess allows %d tries: it must allow from 1 to %d", tries, mostRuns)
		}
		o.runs = tries
		return nil
	}}
}

// WaitReplicas makes a grant count only when that many replicas have acknowledged it
// (WAIT). The same is true of a renewal. If a grant is not acknowledged within timeout, the
// client releases it, and the lock call fails with an [ErrNotAcked]. If a renewal is not
// acknowledged, the client retries until the lease's old deadline.
//
// WaitReplicas narrows the window in which a failover loses a grant, but does not close it.
// The promoted replica may be one that has not acknowledged. So ask for all replicas that
// can be promoted, and still check tokens.
//
// Each grant needs one more round trip. replicas is at least 1. timeout is in whole
// milliseconds, at least 1 ms, and below [Config.RequestTimeout]. With [WaitAOF] too, the
// longer timeout applies to both, and twice that time must be below
// [Config.RequestTimeout]. If the store cannot wait for replicas, the error is an
// [ErrInvalid]. For every kind.
func WaitReplicas(replicas int, timeout time.Duration) Option {
	return anyKind(func(o *lockOptions) error {
		if replicas < 1 {
			return invalid("WaitReplicas asks for %d replicas: it must ask for at least 1", replicas)
		}
		o.ack.Need.Replicas = replicas
		return setAckLimit(&o.ack, "WaitReplicas", timeout)
	})
}

// WaitAOF is [WaitReplicas] for disks. A grant counts only when the primary and that many
// replicas have synced it to their append-only files (WAITAOF). So the grant survives a
// crash of all of them. If replicas is 0, only the primary must sync it. For every kind.
//
// It needs Redis 7.2 or Valkey 7.2 with appendonly on. If an older server reports its
// version, the call fails before it acquires anything.
func WaitAOF(replicas int, timeout time.Duration) Option {
	return anyKind(func(o *lockOptions) error {
		if replicas < 0 {
			return invalid("WaitAOF asks for %d replicas: use 0 for the primary alone", replicas)
		}
		o.ack.Need.LocalAOF, o.ack.Need.ReplicaAOF = 1, replicas
		return setAckLimit(&o.ack, "WaitAOF", timeout)
	})
}

// setAckLimit stores the time limit of the acknowledgements.
func setAckLimit(a *request.Acks, option string, limit time.Duration) error {
	if limit < time.Millisecond || limit%time.Millisecond != 0 {
		return invalid("%s: the timeout is %v: it must be in whole milliseconds, at least 1ms", option, limit)
	}
	a.Limit = max(a.Limit, limit)
	return nil
}

// ackOptions names the options that asked for acknowledgements.
func ackOptions(a request.Acks) string {
	switch {
	case a.Need.LocalAOF == 0:
		return "WaitReplicas"
	case a.Need.Replicas == 0:
		return "WaitAOF"
	}
	return "WaitReplicas and WaitAOF"
}
