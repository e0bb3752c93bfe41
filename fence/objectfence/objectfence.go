// Package objectfence refuses late writers to objects of a store with conditional requests,
// such as S3 and stores that speak its protocol, Google Cloud Storage and Azure Blob Storage.
//
//	guard := objectfence.Guard{Bucket: s3fence.Bucket{Client: client, Name: "billing"}}
//	…
//	err = guard.Put(ctx, "invoice/42", lease.Token(), data)
//	data, err := guard.Get(ctx, "invoice/42")
//
// The first line of the object contains the token, and a random word for each of the last calls that wrote
// the object. The guard reads the object, and writes it on the condition that it is still the same version. The
// random word makes every version different. A token in the metadata would not be enough: with S3, versions
// with the same content have the same ETag, so a late writer could take a new version for the old one. If an
// answer was lost, the words of earlier calls tell the writer that its write took effect, even if others have
// written since.
//
// So other programs read the object with [Guard.Get], or skip its first line. The guard holds the
// whole object in memory: it is for states and pointers. To publish large data, write the data
// under a name that is never used again, and guard the object that contains this name.
package objectfence

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/backoff"
)

// What a [Bucket] answers.
var (
	// ErrNotFound says that there is no such object.
	ErrNotFound = errors.New("objectfence: there is no such object")
	// ErrChanged says that the condition of a Put does not hold: nothing was written by it.
	ErrChanged = errors.New("objectfence: the object has changed")
)

// Bucket is a store with conditional requests. Its methods may be called from many goroutines.
type Bucket interface {
	// Get returns an object, and what names this version of it (its ETag). The store must answer
	// with the newest version. If there is none, the error is an [ErrNotFound].
	Get(ctx context.Context, key string) (body []byte, version string, err error)
	// Put writes an object if its version is the given one, or if version is "" and there is no
	// such object. The store compares and writes in one step. Otherwise the error is an
	// [ErrChanged]. After any other error the outcome is unknown.
	Put(ctx context.Context, key string, body []byte, version string) error
}

// Guard keeps the highest token of each object in the object. Its methods may be called from many
// goroutines.
//
// An object without a first line of the guard's was never guarded: it is all content, and its
// token is 0. So do not delete an object that must go on refusing late writers: put an empty
// one in its place.
type Guard struct {
	Bucket Bucket
}

// state is what an object has.
type state struct {
	token   uint64
	words   []string // random, one of each call that wrote it, the last one first; none: no guard wrote it
	content []byte
	version string // "": there is no object
}

const mark = "holdfast-fence "

// mostWords is how many calls an object remembers.
const mostWords = 64

// encode is the object that a call writes after s.
func encode(token uint64, word string, s state, content []byte) []byte {
	words := append([]string{word}, s.words...)
	words = words[:min(len(words), mostWords)]
	return append(fmt.Appendf(nil, "%s%d %s\n", mark, token, strings.Join(words, " ")), content...)
}

func decode(body []byte, version string) state {
	s := state{content: body, version: version}
	line, content, found := bytes.Cut(body, []byte("\n"))
	rest, marked := bytes.CutPrefix(line, []byte(mark))
	number, words, two := bytes.Cut(rest, []byte(" "))
	token, err := strconv.ParseUint(string(number), 10, 64)
	if !found || !marked || !two || err != nil {
		return s
	}
	s.token, s.words, s.content = token, strings.Fields(string(words)), content
	return s
}

func (g Guard) read(ctx context.Context, key string) (state, error) {
	if g.Bucket == nil {
		return state{}, fmt.Errorf("%w: a Guard needs a Bucket", fence.ErrInvalid)
	}
	body, version, err := g.Bucket.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return state{}, nil
	}
	if err == nil && version == "" {
		err = errors.New("objectfence: the store returned no version for the object, so it cannot be guarded")
	}
	return decode(body, version), err
}

// Get returns the content of an object. If there is none, the error is an [ErrNotFound].
func (g Guard) Get(ctx context.Context, key string) ([]byte, error) {
	s, err := g.read(ctx, key)
	if err == nil && s.version == "" {
		err = ErrNotFound
	}
	return s.content, err
}

// Put writes an object, or creates it. If it has seen a higher token, nothing is written, and the
// error is a [*fence.StaleError].
//
// After any other error the outcome is unknown. Put it again under the same lease: an equal token is
// accepted.
func (g Guard) Put(ctx context.Context, key string, token uint64, content []byte) error {
	return g.Update(ctx, key, token, func([]byte) ([]byte, error) { return content, nil })
}

// Update writes what f makes of the content of an object; nil is that of an object that does not
// exist. If another writer comes between, f is called again with the new content. So a write
// never depends on an old read. If the object has seen a higher token, f is not called, and the
// error is a [*fence.StaleError]. If f fails, nothing is written, and Update returns its error.
//
// After any other error the outcome is unknown: f may have to find out whether its change is there. If Update
// returns nil, f's change has been made once.
func (g Guard) Update(
	ctx context.Context, key string, token uint64, f func(content []byte) ([]byte, error),
) error {
	if err := fence.Check(key, token); err != nil {
		return err
	}
	return g.change(ctx, key, func(s state) (uint64, []byte, error) {
		// Not a late copy of this call: change knows those before it asks.
		if err := fence.Judge(key, token, s.token); err != nil {
			return 0, nil, err
		}
		content, err := f(s.content)
		return token, content, err
	})
}

// change writes what f makes of an object, and tries again while others write. Each try may be sent more than
// once by the client library of the store. For example: the first copy takes effect and its answer is lost,
// another call writes after it, and the second copy gets ErrChanged. The object then remembers the call.
func (g Guard) change(ctx context.Context, key string, f func(state) (uint64, []byte, error)) error {
	word, refusals := rand.Text()[:13], 0 // 65 random bits
	s, err := g.read(ctx, key)
	for err == nil {
		token, content, refused := f(s)
		if refused != nil {
			return refused
		}
		err = g.Bucket.Put(ctx, key, encode(token, word, s, content), s.version)
		if !errors.Is(err, ErrChanged) {
			return err
		}
		before := s
		if s, err = g.read(ctx, key); err != nil {
			return fmt.Errorf("%w: %w", errUnknown, err)
		}
		switch {
		case slices.Contains(s.words, word):
			return nil
		case !s.sameAs(before):
			refusals = 0
			if !s.remembersAllSince(before) {
				return errUnknown
			}
		default: // nobody has written, and the store says so
			if refusals++; refusals == mostRefusals {
				return fmt.Errorf("objectfence: the store refuses the version %q that it has just named for %q: "+
					"its conditional requests cannot guard the object", s.version, key)
			}
			err = pause(ctx, refusals)
		}
	}
	return err
}

// mostRefusals is how often a store may refuse the version that it has named. A replica that is late may
// name one that has gone.
const mostRefusals = 5

// errUnknown says that a write may have taken effect.
var errUnknown = errors.New("objectfence: too many others have written since, or a program without a guard: " +
	"it is not known whether the write took effect; read the object to find out")

// sameAs reports whether nobody has written since.
func (s state) sameAs(before state) bool {
	return s.version == before.version || len(s.words) > 0 && len(before.words) > 0 && s.words[0] == before.words[0]
}

// remembersAllSince reports whether every call that has written since is among the words.
func (s state) remembersAllSince(before state) bool {
	if len(before.words) == 0 {
		return 0 < len(s.words) && len(s.words) < mostWords
	}
	return slices.Contains(s.words, before.words[0])
}

// pause gives a replica that is late its time.
func pause(ctx context.Context, refusals int) error {
	timer := time.NewTimer(backoff.Default.After(refusals, mathrand.Float64()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errUnknown, context.Cause(ctx))
	}
}

// Raise implements [fence.Memory]: it shows token to an object, or creates an empty one. Call it
// before you read what another write depends on.
func (g Guard) Raise(ctx context.Context, key string, token uint64) error {
	return g.Update(ctx, key, token, func(content []byte) ([]byte, error) { return content, nil })
}

// Seen returns the highest token that the object was shown, or 0.
func (g Guard) Seen(ctx context.Context, key string) (uint64, error) {
	s, err := g.read(ctx, key)
	return s.token, err
}

// Reset makes the object forget its token, and keeps its content. It is for an operator, if the
// lock gives lower tokens than before, because its server lost the data and then the clock was set
// back. Stop all writers of the object first: until the next write, the oldest of them would be
// accepted.
//
// After an error the outcome is unknown; a repetition is safe.
func (g Guard) Reset(ctx context.Context, key string) error {
	s, err := g.read(ctx, key)
	if err != nil || s.token == 0 {
		return err
	}
	return g.change(ctx, key, func(s state) (uint64, []byte, error) { return 0, s.content, nil })
}
