// The options, for which kinds each is, and what contradicts what.

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

// MutexOption is an option of [Client.Mutex]: every [Option] and every
// [LockOption], and [Reentrant], [Owner] and [MinHold].
type MutexOption interface {
	set(*lockOptions) error
	forMutex()
}

// RWMutexOption is an option of [Client.RWMutex]: every [Option] and every
// [LockOption], and [ReadTTL].
type RWMutexOption interface {
	set(*lockOptions) error
	forRWMutex()
}

// SemaphoreOption is an option of [Client.Semaphore]: every [Option] and every
// [LockOption].
type SemaphoreOption interface {
	set(*lockOptions) error
	forSemaphore()
}

// MultiMutexOption is an option of [Client.MultiMutex]: every [Option]. It
// applies to each of the locks.
type MultiMutexOption interface {
	set(*lockOptions) error
	forMultiMutex()
}

// PeriodicOption is an option of [Client.Periodic]: every [Option], and
// [StartAt] and [RetryOnError].
type PeriodicOption interface {
	set(*lockOptions) error
	forPeriodic()
}

// ElectionOption is an option of [Client.Election]: every [Option] and every
// [LockOption].
type ElectionOption interface {
	set(*lockOptions) error
	forElection()
}

// Option is an option of every kind: [TTL], [NoRenewal], [MaxRenewals],
// [MaxHold], [MaxWait], [WaitReplicas] and [WaitAOF].
//
// An option has the type of the kinds for which it has a meaning. With another
// kind it does not compile. If a value cannot work, or if two options
// contradict each other, the first use of the lock reports that as an
// [ErrInvalid], and sends nothing.
type Option interface {
	MutexOption
	RWMutexOption
	SemaphoreOption
	MultiMutexOption
	PeriodicOption
	ElectionOption
}

// LockOption is an option of every kind that acquires one lock in one call:
// [Tries].
type LockOption interface {
	MutexOption
	RWMutexOption
	SemaphoreOption
	ElectionOption
}

// setting is what an option does. The types around it say for which kinds.
type setting func(*lockOptions) error

func (s setting) set(ch *lockOptions) error { return s(ch) }

type mutexOption struct{ setting }

func (mutexOption) forMutex() {}

type rwMutexOption struct{ setting }

func (rwMutexOption) forRWMutex() {}

type periodicOption struct{ setting }

func (periodicOption) forPeriodic() {}

type lockOption struct{ setting }

func (lockOption) forMutex()     {}
func (lockOption) forRWMutex()   {}
func (lockOption) forSemaphore() {}
func (lockOption) forElection()  {}

type anyOption struct{ lockOption }

func (anyOption) forMultiMutex() {}
func (anyOption) forPeriodic()   {}

func anyKind(s setting) Option { return anyOption{lockOption{s}} }

// choose applies the options to what a kind begins with. It refuses a nil
// option, a value that cannot work, and a contradiction.
func choose[O interface{ set(ch *lockOptions) error }](
	c *Client, name string, kind lockOptions, options []O,
) (lockOptions, error) {
	kind.wait, kind.ttl = -1, c.cfg.TTL
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
		kind.read = min(kind.read, leasetime.TTLFor(kind.maxHold))
	}
	return kind, nil
}

// validate refuses options that contradict each other, or what the client has.
// It is the one place for that: an option by itself knows only its own values.
func (ch *lockOptions) validate(c *Client) error {
	_, acker := c.store.(store.Acker)
	switch {
	case ch.noRenewal && ch.maxRenewals > 0:
		return invalid("NoRenewal and MaxRenewals exclude each other: leave one of them out")
	case ch.maxHold > 0 && ch.minHold > ch.maxHold:
		return invalid("MinHold is %v and MaxHold %v: a lock cannot stay taken for longer than it is held at most, "+
			"raise MaxHold", ch.minHold, ch.maxHold)
	case ch.tries > 0 && ch.wait >= 0:
		return invalid("MaxWait and Tries exclude each other: the one waits in line, the other does not; " +
			"leave one of them out")
	case ch.ack.Wanted() && !acker:
		return invalid("%s: this store cannot wait for acknowledgements: leave the option out", ackOptions(ch.ack))
	case ch.ack.Wanted() && ch.ack.Total() >= c.cfg.RequestTimeout:
		return invalid("%s: the waiting may take %v: it must end within Config.RequestTimeout, which is %v",
			ackOptions(ch.ack), ch.ack.Total(), c.cfg.RequestTimeout)
	}
	return nil
}

// TTL sets how long a lease lasts unless it is renewed, in place of
// [Config.TTL]: whole milliseconds, from 10 ms to 365 days. For an RWMutex it
// sets the lease of the writers, and that of the readers unless [ReadTTL] does.
// The TTL of a [Periodic] is not longer than its period. For every kind.
func TTL(d time.Duration) Option {
	return anyKind(func(ch *lockOptions) error {
		if err := checkTTL(d); err != nil {
			return invalid("%v", err)
		}
		ch.ttl = d
		return nil
	})
}

// ReadTTL sets how long a lease of a reader lasts, where it is to be another
// time than a writer's, which [TTL] sets: whole milliseconds, from 10 ms to 365
// days. For an RWMutex.
func ReadTTL(d time.Duration) RWMutexOption {
	return rwMutexOption{func(ch *lockOptions) error {
		if err := checkTTL(d); err != nil {
			return invalid("%v", err)
		}
		ch.read = d
		return nil
	}}
}

// MaxWait limits how long a call waits for the lock, from the beginning of the
// call. After d the call gives up with a [*HeldError]. The error names the
// holder if the server says in a moment who that is. If no server could be
// asked, its Err says why.
//
// If d is 0, the call tries once. A negative d is refused. Without MaxWait the
// call waits until its context ends. MaxWait and [Tries] exclude each other.
//
// A [Periodic] is different: with MaxWait, [Periodic.Do] waits up to d for the
// next period, and without it does not wait. For every kind.
func MaxWait(d time.Duration) Option {
	return anyKind(func(ch *lockOptions) error {
		if d < 0 {
			return invalid("the wait limit is %v: use 0 to try once, or leave it out to wait for the context", d)
		}
		ch.wait = d
		return nil
	})
}

// Tries makes a call try n times in place of waiting in line. Two tries are
// about interval apart: between half of it and one and a half of it, by chance.
// After the last try the call gives up with a [*HeldError], whose Tries is n.
//
// Between two tries the server keeps nothing of the call: no place in the line,
// no subscription. So callers that try have no order among themselves, and
// everybody who waits comes before them.
//
// Tries is for a program that wants to bound its requests. Where subscriptions
// are not permitted it is not needed: Lock finds that out, and polls by itself.
//
// n is at least 1, and interval is from 1 ms to 365 days. Tries and [MaxWait]
// exclude each other. For Mutex, RWMutex, Semaphore and Election.
func Tries(n int, interval time.Duration) LockOption {
	return lockOption{func(ch *lockOptions) error {
		switch {
		case n < 1:
			return invalid("%d tries were asked for: at least one is needed", n)
		case interval < time.Millisecond || interval > maxTTL:
			return invalid("the interval between tries is %v: it must be from 1ms to %v", interval, maxTTL)
		}
		ch.tries, ch.pace = n, interval
		return nil
	}}
}

// NoRenewal makes leases that end after their TTL unless [Lease.Extend] extends
// them. No other goroutine of the process takes such a lease over: each begins
// with a whole TTL. NoRenewal and [MaxRenewals] exclude each other. For every
// kind.
func NoRenewal() Option {
	return anyKind(func(ch *lockOptions) error {
		ch.noRenewal = true
		return nil
	})
}

// MaxRenewals renews a lease n times at most. After that the lease ends when
// its TTL does, and is lost with the reason [LossLimit].
//
// A renewal goes out after a third of the TTL. Two things are not counted:
// [Lease.Extend], and the renewal that confirms a grant after a wait, which goes
// out at once.
//
// n is at least 1. MaxRenewals and [NoRenewal] exclude each other. For every
// kind.
func MaxRenewals(n int) Option {
	return anyKind(func(ch *lockOptions) error {
		if n < 1 {
			return invalid("at most %d renewals were asked for: use NoRenewal for none", n)
		}
		ch.maxRenewals = int32(min(n, math.MaxInt32))
		return nil
	})
}

// MaxHold limits how long a lease lasts in all, from its grant. After d the
// lease is lost with the reason [LossLimit], and neither a renewal nor
// [Lease.Extend] makes it longer. The server lets another client in soon after
// the loss, not before: a hundredth of the TTL and some milliseconds later.
//
// A TTL that is longer than d is cut to it. d is from 10 ms to 365 days, and not
// shorter than [MinHold]. For every kind.
func MaxHold(d time.Duration) Option {
	return anyKind(func(ch *lockOptions) error {
		if d < leasetime.MinTTL || d > maxTTL {
			return invalid("the longest hold is %v: it must be from %v to %v", d, leasetime.MinTTL, maxTTL)
		}
		ch.maxHold = d
		return nil
	})
}

// MinHold keeps the lock taken until d has passed since its grant, by the
// server's clock, though it is released earlier. Before that the server grants
// it to nobody, not even to this process. So a job does not run twice when it is
// shorter than the clocks of the machines that start it are apart.
//
// MinHold takes effect with the release. If a process dies before, its lock is
// free when its lease ends, be that earlier or later than d. With [Owner] the
// last entry that is released decides.
//
// d is from 1 ms to 365 days, and not longer than [MaxHold]. For a Mutex.
func MinHold(d time.Duration) MutexOption {
	return mutexOption{func(ch *lockOptions) error {
		if d < time.Millisecond || d > maxTTL {
			return invalid("the shortest hold is %v: it must be from 1ms to %v", d, maxTTL)
		}
		ch.minHold = d
		return nil
	}}
}

// Reentrant lets a goroutine acquire a lock again under the context of a live
// lease of it. Without Reentrant that is an [ErrDeadlock]. It needs no network.
//
// Each acquisition gives a lease of its own, with the token of the first one:
// there is one hold, and a resource that checks tokens lets all its writers in.
// The leases are released in any order, and the lock is free when the last one
// is. If the hold is lost, all leases end. The TTL, the limits and the renewal
// of the first lease hold for all. For a Mutex.
func Reentrant() MutexOption {
	return mutexOption{func(ch *lockOptions) error {
		ch.reentrant = true
		return nil
	}}
}

// Owner acquires the lock under a name. A client that uses the same owner name,
// in any process, joins the current holders: it does not wait in line. Everybody
// else is kept out, and the lock is free when the last holder has released it.
// It is for work that several processes do together, or one after another: the
// second enters before the first leaves. Under the context of a lease of the
// same owner it is [Reentrant].
//
// All entries have one token and one lease on the server, and each entry renews
// that lease. If a process dies, the lock is held while others of its owner are
// in, and then until the lease ends. Each entry is kept in the lock's record
// and makes its requests a little dearer: use Owner for some entries, not for
// thousands. A quorum refuses it, and takes nothing.
//
// name has 1 to 512 bytes of UTF-8. It is no secret and no proof: every program
// that knows the name can enter. For a Mutex.
func Owner(name string) MutexOption {
	return mutexOption{func(ch *lockOptions) error {
		switch {
		case name == "":
			return invalid("the owner has no name: give one that the other process knows, such as order/42")
		case len(name) > wire.MaxName:
			return invalid("the owner's name has %d bytes, the limit is %d: shorten it or use a digest of it",
				len(name), wire.MaxName)
		case !utf8.ValidString(name):
			return invalid("the owner's name is not valid UTF-8: encode binary names, for example as hex")
		}
		ch.owner = wire.Owner(name)
		return nil
	}}
}

// StartAt makes periods begin at fixed times by the server's clock: one begins
// offset after 1970 began in UTC, and one every period from there. For example,
// Periodic("lottery", 24*time.Hour, StartAt(12*time.Hour)) has periods from noon
// to noon, UTC. offset is in whole milliseconds, and may be negative or longer
// than a period. For a Periodic.
func StartAt(offset time.Duration) PeriodicOption {
	return periodicOption{func(ch *lockOptions) error {
		if offset%time.Millisecond != 0 {
			return invalid("the offset is %v: the server counts whole milliseconds, use %v",
				offset, offset.Truncate(time.Millisecond))
		}
		ch.aligned, ch.offset = true, offset
		return nil
	}}
}

// RetryOnError makes a failed run give its period back: if the function returns
// an error, the next caller in the same period runs it again. A run that panics,
// loses its lease or dies with its process still counts. For a Periodic.
func RetryOnError() PeriodicOption {
	return periodicOption{func(ch *lockOptions) error {
		ch.again = true
		return nil
	}}
}

// WaitReplicas makes a grant count only when so many replicas have it (WAIT),
// and a renewal too. If a grant is not acknowledged within timeout, the client
// gives it back, and the lock call fails with an [*AckError]. If a renewal is
// not, the client tries again until the old deadline of the lease.
//
// WaitReplicas narrows the window in which a failover loses a grant. It does not
// close it: the replica that is promoted may be one that has not acknowledged.
// Ask for all replicas that can be promoted, and still check tokens.
//
// Each grant costs one more round trip. replicas is at least 1. timeout is in
// whole milliseconds, at least 1 ms, and below [Config.RequestTimeout]. With
// [WaitAOF] too, the longer timeout counts for both, and twice that time must be
// below it. A store that cannot wait for replicas refuses the option as
// [ErrInvalid]. For every kind.
func WaitReplicas(replicas int, timeout time.Duration) Option {
	return anyKind(func(ch *lockOptions) error {
		if replicas < 1 {
			return invalid("WaitReplicas of %d replicas: at least one must acknowledge", replicas)
		}
		ch.ack.Need.Replicas = replicas
		return setAckLimit(&ch.ack, "WaitReplicas", timeout)
	})
}

// WaitAOF is [WaitReplicas] for disks: a grant counts when the primary, and so
// many replicas, have synced it to their append-only files (WAITAOF). So it
// survives the crash of all of them. If replicas is 0, the primary alone counts.
// For every kind.
//
// It needs Redis 7.2 or Valkey 7.2 with appendonly on. An older server is
// refused before anything is taken, if it tells its version.
func WaitAOF(replicas int, timeout time.Duration) Option {
	return anyKind(func(ch *lockOptions) error {
		if replicas < 0 {
			return invalid("WaitAOF on %d replicas: use 0 for the primary alone", replicas)
		}
		ch.ack.Need.LocalAOF, ch.ack.Need.ReplicaAOF = 1, replicas
		return setAckLimit(&ch.ack, "WaitAOF", timeout)
	})
}

// setAckLimit notes for how long an option waits.
func setAckLimit(a *request.Acks, option string, limit time.Duration) error {
	if limit < time.Millisecond || limit%time.Millisecond != 0 {
		return invalid("%s: the limit is %v: the server counts whole milliseconds, from 1ms on", option, limit)
	}
	a.Limit = max(a.Limit, limit)
	return nil
}

// ackOptions names those that asked for this.
func ackOptions(a request.Acks) string {
	switch {
	case a.Need.LocalAOF == 0:
		return "WaitReplicas"
	case a.Need.Replicas == 0:
		return "WaitAOF"
	}
	return "WaitReplicas and WaitAOF"
}
