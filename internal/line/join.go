package line

import "time"

// Joining is what a reader does who finds that its process reads already.
type Joining uint8

// What a reader does.
const (
	Join  Joining = iota // share the hold, without the server
	Look                 // ask the server who waits, and decide then
	Stand                // stand in the server's line, behind those who wait there
)

// joinFor is for how long the server's word that nobody waits is good. A writer
// of another process is known of after that: so much later may a reader come
// and still be in before it.
const joinFor = 10 * time.Millisecond

// MayJoin decides whether one more reader may share a live hold of its process:
// not while anybody waits, or readers that keep coming would keep a writer out
// for ever. since is the age of the server's word that elsewhere wait there;
// writers says whether one of this process wants the lock.
func MayJoin(since time.Duration, elsewhere int, writers bool) Joining {
	switch {
	case writers:
		return Stand
	case since >= joinFor:
		return Look
	case elsewhere > 0:
		return Stand
	}
	return Join
}
