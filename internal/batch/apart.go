package batch

import (
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

// mostParts bounds the requests for the parts of a refused one. It is enough for four refused items
// of 128. If the server refuses all, more requests would help nobody.
const mostParts = 60

// ConcernsAKey reports whether the server has refused a request because of a key: another key
// might have been served.
func ConcernsAKey(err error) bool {
	var refused *store.ServerError
	return errors.As(err, &refused) &&
		(refused.Code == "NOPERM" || refused.Code == "WRONGTYPE" || refused.Code == "FORMAT")
}

// Apart sends the halves of a request about n keys that the server has refused because of one of them, and
// so on. It returns the error of each item. Large parts come first. So if few items are refused, all others
// are served in time. send sends the items from one to another.
func Apart(n int, refusal error, send func(from, to int) error) []error {
	type part struct{ from, to int }
	each := make([]error, n)
	parts := []part{{0, n / 2}, {n / 2, n}}
	for sent := 0; len(parts) > 0; sent++ {
		p := parts[0]
		parts = parts[1:]
		err := refusal
		if sent < mostParts {
			err = send(p.from, p.to)
		}
		if ConcernsAKey(err) && p.to-p.from > 1 && sent < mostParts {
			middle := (p.from + p.to) / 2
			parts = append(parts, part{p.from, middle}, part{middle, p.to})
			continue
		}
		for i := p.from; i < p.to; i++ {
			each[i] = err
		}
	}
	return each
}
