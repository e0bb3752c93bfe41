package survey

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Foreign is a key that looks like the lock of another library.
type Foreign struct {
	Key       string
	Kind      string // "redsync", "redislock", "redisson", "holdfast" (on their wires), "string" (SET NX PX)
	Holder    string // the value, or the fields of a hash: whatever names the holder
	Count     int    // how often a Redisson holder has entered; 0 for others
	Shared    bool   // readers of Redisson hold it, and Holder is one of them
	Remaining time.Duration
}

// Library names the kind within a sentence.
func (f *Foreign) Library() string {
	switch f.Kind {
	case "string":
		return "SET NX PX, or a value that expires"
	case "holdfast":
		return "redsync or redislock, held by Holdfast"
	}
	return f.Kind
}

// latch begins the key by which Redisson remembers for a while that a lock was released.
const latch = "redisson_unlock_latch:"

var (
	redsyncValue   = regexp.MustCompile(`^[A-Za-z0-9+/]{22}==$`) // 16 random bytes in base64
	redislockValue = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)   // the same, in the form for URLs
	// An attempt of Holdfast: with a lock-delay, and on several servers with the number of the try.
	holdfastValue = regexp.MustCompile(`^[A-Za-z0-9_-]{22}/\d+(~\d+)?(\.\d+)?$`)
	// Java's thread, or an attempt of Holdfast.
	redissonField = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}:-?\d+(~\d+)?$`)
)

// longestValue is more than any lock library writes into a key.
const longestValue = 256

// ScanForeign calls found with the keys that match a pattern and look like locks of other
// libraries: a short string with a TTL, or Redisson's hash. Whether a string is a lock or a
// value that expires, nothing on the server tells.
func ScanForeign(
	ctx context.Context, nodes []redis.UniversalClient, pattern string, looked *atomic.Int64,
	found func([]Foreign) error,
) error {
	return each(ctx, nodes, pattern, looked, func(rdb redis.UniversalClient, keys []string) error {
		list, err := readForeign(ctx, rdb, keys)
		if err != nil || len(list) == 0 {
			return err
		}
		return found(list)
	})
}

// ReadForeign calls found if a key looks like the lock of another library on any node.
func ReadForeign(ctx context.Context, nodes []redis.UniversalClient, key string, found func(Foreign)) error {
	for _, rdb := range nodes {
		list, err := readForeign(ctx, rdb, []string{key})
		if err != nil {
			return err
		}
		if len(list) > 0 {
			found(list[0])
			return nil
		}
	}
	return nil
}

// readForeign reads the keys in two round trips.
func readForeign(ctx context.Context, rdb redis.UniversalClient, keys []string) ([]Foreign, error) {
	types, lives := make([]*redis.StatusCmd, len(keys)), make([]*redis.DurationCmd, len(keys))
	pipe := rdb.Pipeline()
	for i, key := range keys {
		types[i], lives[i] = pipe.Type(ctx, key), pipe.PTTL(ctx, key)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	texts, hashes := make([]*redis.StringCmd, len(keys)), make([]*redis.KeyValueSliceCmd, len(keys))
	pipe = rdb.Pipeline()
	for i, key := range keys {
		switch {
		case lives[i].Val() <= 0, strings.HasPrefix(key, latch):
		case types[i].Val() == "string":
			texts[i] = pipe.GetRange(ctx, key, 0, longestValue)
		case types[i].Val() == "hash":
			hashes[i] = pipe.HRandFieldWithValues(ctx, key, mostFields+1)
		}
	}
	if pipe.Len() == 0 {
		return nil, nil
	}
	// A key may have gone, or have another type by now.
	if _, err := pipe.Exec(ctx); redis.HasErrorPrefix(err, "NOPERM") {
		return nil, err
	}
	var list []Foreign
	for i, key := range keys {
		f := Foreign{Key: key, Remaining: lives[i].Val()}
		if texts[i] != nil && texts[i].Err() == nil && f.readText(texts[i].Val()) ||
			hashes[i] != nil && hashes[i].Err() == nil && f.readHash(hashes[i].Val()) {
			list = append(list, f)
		}
	}
	return list, nil
}

// readText says whose lock a string is.
func (f *Foreign) readText(value string) bool {
	switch {
	case value == "" || len(value) > longestValue:
		return false
	case redsyncValue.MatchString(value):
		f.Kind = "redsync"
	case redislockValue.MatchString(value):
		f.Kind = "redislock"
	case holdfastValue.MatchString(value):
		f.Kind = "holdfast"
	default:
		f.Kind = "string"
	}
	f.Holder = value
	return true
}

// mostFields is how many fields a hash may have that is taken for a lock: a mode, and holders.
const mostFields = 16

// readHash says whether a hash is a lock of Redisson: a field for each holder with a count,
// and for a read-write lock a field with its mode.
func (f *Foreign) readHash(fields []redis.KeyValue) bool {
	if len(fields) > mostFields {
		return false
	}
	for _, field := range fields {
		if field.Key == "mode" {
			f.Shared = field.Value == "read"
			continue
		}
		n, err := strconv.Atoi(field.Value)
		if err != nil || !redissonField.MatchString(strings.TrimSuffix(field.Key, ":write")) {
			return false
		}
		f.Kind, f.Holder, f.Count = "redisson", field.Key, n
	}
	return f.Kind != ""
}
