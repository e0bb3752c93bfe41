package wire

import "strings"

// LeaseWord writes a lease as renew takes it. common is the TTL of the request, in ms: a lease
// with that TTL and without an owner is written as its attempt alone.
func LeaseWord(attempt, ttl, owner, common string) string {
	switch {
	case owner != "":
		return attempt + " " + ttl + " " + owner
	case ttl != common:
		return attempt + " " + ttl
	}
	return attempt
}

// ParseLeaseWord reads what [LeaseWord] writes.
func ParseLeaseWord(word, common string) (attempt, ttl, owner string) {
	attempt, rest, _ := strings.Cut(word, " ")
	ttl, owner, _ = strings.Cut(rest, " ")
	if ttl == "" {
		ttl = common
	}
	return attempt, ttl, owner
}
