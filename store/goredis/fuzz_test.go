package goredis_test

import (
	"context"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// answering is a connection to a server that does not know HELLO and gives every later request
// the same bytes.
func answering(reply string) net.Conn {
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		said, buf := "-ERR unknown command 'HELLO'\r\n", make([]byte, 64<<10)
		for {
			if _, err := server.Read(buf); err != nil {
				return
			}
			if _, err := server.Write([]byte(said)); err != nil {
				return
			}
			said = reply
		}
	}()
	return client
}

// announced is a length beyond a million: go-redis allocates any announced length before the
// data arrives, and a store cannot prevent that.
var announced = regexp.MustCompile(`[$*%>~=!|(][0-9+_-]{7,}`)

// Whatever bytes come back, Run, Server and Listen return without a panic, and anything that
// is no answer is an error.
func FuzzReplies(f *testing.F) {
	for _, reply := range []string{
		"$8\r\nreleased\r\n", "+OK\r\n", ":1\r\n", "$-1\r\n", "*-1\r\n", "-ERR no\r\n", "-MOVED 1 h:1\r\n",
		"-NOSCRIPT\r\n",
		"$9999\r\n", "*999\r\n", "%1\r\n+a\r\n+b\r\n", "\r\n", "-\r\n", "$1\r\n", ">3\r\n+message\r\n+a\r\n+b\r\n",
		"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", "*4\r\n+server\r\n+x\r\n+version\r\n:7\r\n", "_\r\n",
		"#t\r\n", "",
	} {
		f.Add(reply)
	}
	logging.Disable()
	f.Fuzz(func(t *testing.T, reply string) {
		if announced.MatchString(reply) {
			return
		}
		rdb := redis.NewClient(&redis.Options{
			Addr: "hostile", DisableIdentity: true, MaxRetries: -1, PoolSize: 2,
			DialTimeout: 50 * time.Millisecond, ReadTimeout: 50 * time.Millisecond,
			Dialer: func(context.Context, string, string) (net.Conn, error) { return answering(reply), nil },
		})
		defer rdb.Close()
		st := goredis.New(rdb)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		answer, err := st.Run(ctx, script.Inspect, []string{"k"}, nil)
		assert.False(t, err != nil && answer != "", "%q: the answer %q, and %v", reply, answer, err)
		assert.False(t, err == nil && (strings.HasPrefix(reply, "*") || strings.HasPrefix(reply, "-") || reply == ""),
			"%q is taken for the answer %q", reply, answer)
		_, _ = st.Server(ctx)
		listener := store.Listener{Message: func(string) {}, Look: func(bool) {}}
		if stop, err := st.Listen(ctx, "a", listener); err == nil {
			stop()
		}
	})
}
