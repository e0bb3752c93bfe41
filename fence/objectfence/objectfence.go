// Package objectfence refuses late writers to objects of a store with conditional requests,
// such as S3 and stores that speak its protocol, Google Cloud Storage and Azure Blob Storage.
//
//	guard := objectfence.Guard{Bucket: s3fence.Bucket{Client: client, Name: "billing"}}
//	…
//	err = guard.Put(ctx, "invoice/42", lease.Token(), data)
//	data, err := guard.Get(ctx, "invoice/42")
//
// The token stands in the first line of the object, with a random word. The guard reads the object and
// writes it on the condition that it is still the same. The random word makes every version
// different. A token in the metadata would not do: with S3, a version with the same content has the
// same ETag, so a late writer could take a new version for the old one that it has read.
//
// So other programs read the object with [Guard.Get], or skip its first line. The guard holds the
// whole object in memory: it is for states and pointers. To publish large data, write them
// under a name that is never used again, and guard the object that has this name.
package objectfence

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/fence"
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
	word    string // random, from the call that wrote it
	content []byte
	version string // "": there is no object
}

const mark = "holdfast-fence "

// encode is the object that a call writes.
func encode(token uint64, word string, content []byte) []byte {
	return append(fmt.Appendf(nil, "%s%d %s\n", mark, token, word), content...)
}

func decode(body []byte, version string) state {
	s := state{content: body, version: version}
	line, content, found := bytes.Cut(body, []byte("\n"))
	rest, marked := bytes.CutPrefix(line, []byte(mark))
	number, word, two := bytes.Cut(rest, []byte(" "))
	token, err := strconv.ParseUint(string(number), 10, 64)
	if !found || !marked || !two || err != nil {
		return s
	}
	s.token, s.word, s.content = token, string(word), content
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
// After any other error the outcome is unknown: f may have to find out whether its change is there.
func (g Guard) Update(
	ctx context.Context, key string, token uint64, f func(content []byte) ([]byte, error),
) error {
	if err := fence.Check(key, token); err != nil {
		return err
	}
	return g.change(ctx, key, func(s state) (uint64, []byte, error) {
		if err := fence.Judge(key, token, s.token); err != nil {
			return 0, nil, err
		}
		content, err := f(s.content)
		return token, content, err
	})
}

// change writes what f makes of an object. It tries again while others write, which ends: each
// further try means that one of them has succeeded.
func (g Guard) change(ctx context.Context, key string, f func(state) (uint64, []byte, error)) error {
	word := rand.Text()
	for {
		s, err := g.read(ctx, key)
		if err != nil {
			return err
		}
		if s.word == word {
			return nil // an earlier try has arrived, though its answer was lost, and was sent again
		}
		token, content, err := f(s)
		if err != nil {
			return err
		}
		err = g.Bucket.Put(ctx, key, encode(token, word, content), s.version)
		if !errors.Is(err, ErrChanged) {
			return err
		}
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
