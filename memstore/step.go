package memstore

// step is one action on one record at one instant: what the shared rules work
// on. Its rules are in settle.go, fits.go, grant.go and advance.go.
type step struct {
	*record
	expires int64 // ms: until when the record lives; 0: it is new
	now     int64 // ms
	micros  int64 // the same instant

	retention     int64  // ms for which the record outlives its last lease
	channelPrefix string // channel prefix of the pushes

	// listening answers how many connections will hear a message.
	listening func(channel string) int
	pushes    []message // sent once the record is written

	// unfinished: the lock may be free, and others wait out of reach.
	unfinished bool
}

// message is what PUBLISH takes.
type message struct{ channel, payload string }

// extendRecord makes the record live for at least ms and the retention after it, and
// never shortens its life.
func (t *step) extendRecord(ms int64) { t.expires = max(t.expires, t.lifeEnd(ms)) }

// lifeEnd is the end of a life of ms and the retention after it. A fence that runs
// ahead of the clock (the clock was set back) is kept until the clock has
// passed it, so that tokens go on rising. So does a lease from before that last
// longer: the two are not added.
func (t *step) lifeEnd(ms int64) int64 {
	var ahead int64
	if t.fence > t.micros {
		ahead = (t.fence - t.micros + 999) / 1000
	}
	return t.now + max(ms, ahead) + t.retention
}

// msUntilFree is for how long the present holders can keep a waiter out, in ms.
func (t *step) msUntilFree() int64 {
	switch {
	case t.holder != nil:
		return max(t.holder.expiry-t.now, 0)
	case len(t.shares) > 0:
		return max(t.soonest-t.now, 0)
	}
	return 0
}
