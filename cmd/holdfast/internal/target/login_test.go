package target

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// talker is a server that gives its own answer to every command of one word, and refuses the others.
func talker(t *testing.T, word, answer string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.Must(t, err)
	t.Cleanup(func() { l.Close() })
	serve := func(c net.Conn) {
		defer c.Close()
		for r := bufio.NewReader(c); ; {
			var words, size int
			if _, err := fmt.Fscanf(r, "*%d\r\n", &words); err != nil {
				return
			}
			said := "-ERR unknown command\r\n"
			for range words {
				if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
					return
				}
				part := make([]byte, size+2)
				if _, err := io.ReadFull(r, part); err != nil {
					return
				}
				if strings.EqualFold(string(part[:size]), word) {
					said = answer
				}
			}
			if _, err := io.WriteString(c, said); err != nil {
				return
			}
		}
	}
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go serve(c)
		}
	}()
	return l.Addr().String()
}

// The library's error of a refused login is the same, whether a Sentinel has refused it or the primary. The tool
// asks the Sentinels, and says which server refuses which login.
func TestARefusedLoginNamesTheServer(t *testing.T) {
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	for _, c := range []struct{ answer, want, hint string }{
		{wrong, "the Sentinel at ADDRESS refuses the login (user ann)", "HOLDFAST_SENTINEL_PASSWORD"},
		{"-NOAUTH Authentication required.\r\n", "the Sentinel at ADDRESS refuses the login (user ann)",
			"HOLDFAST_SENTINEL_PASSWORD"},
		{"*2\r\n$8\r\n10.0.0.1\r\n$4\r\n6379\r\n",
			"10.0.0.1:6379, the primary of redis+sentinel://ADDRESS/main: wrong user or password (user bob)",
			"HOLDFAST_PASSWORD or"},
	} {
		address := talker(t, "get-master-addr-by-name", c.answer)
		at, err := Parse("redis+sentinel://bob:x@" + address + "/main")
		assert.Must(t, err)
		s := &Server{Address: at.Address(), Targets: []*Target{at}, sentinel: &redis.Options{Username: "ann"}}
		err = s.Explain("a", fmt.Errorf("lock: %w", &holdfast.ServerError{Code: "WRONGPASS", Message: "WRONGPASS no"}))
		assert.Equal(t, err.Error(), strings.ReplaceAll(c.want, "ADDRESS", address), "the error")
		assert.Equal(t, exit.Of(err), exit.CodeRefused, "the code")
		assert.Contains(t, exit.HintOf(err), c.hint)
	}
}
