package rules_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// Bad input. A key that holds something else is reported, and left as it is.
func TestAKeyOfAnotherTypeIsLeftAlone(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c, _ := w.local(t, holdfast.Config{})
		for i, put := range [][]any{
			{"SET", "", "value"}, {"RPUSH", "", "value"}, {"SADD", "", "value"}, {"XADD", "", "1-1", "f", "v"},
		} {
			name := fmt.Sprint("x", i)
			put[1] = harness.Key(name)
			w.Do(t, put...)
			before := w.Do(t, "DUMP", put[1])
			for what, try := range map[string]func() error{
				"Lock":    func() error { _, err := c.Mutex(name).Lock(harness.Within(t)); return err },
				"TryLock": func() error { _, err := c.Mutex(name).TryLock(harness.Within(t)); return err },
				"Inspect": func() error { _, err := c.Inspect(harness.Within(t), name); return err },
				"Evict": func() error {
					_, err := c.Evict(harness.Within(t), name, holdfast.Eviction{By: "a", Reason: "b"})
					return err
				},
			} {
				err := try()
				if !refused(err, "WRONGTYPE") || !strings.Contains(err.Error(), strconv.Quote(name)) ||
					!strings.Contains(holdfast.Hint(err), "another name") {
					t.Errorf("%s of a %v: %v", what, put[0], err)
				}
			}
			if after := w.Do(t, "DUMP", put[1]); after != before || w.Do(t, "PTTL", put[1]) != int64(-1) {
				t.Errorf("the %v was changed", put[0])
			}
		}
		// A lock whose record is overwritten while it is held is lost, and no
		// other lock with it.
		a, seen := w.local(t, holdfast.Config{TTL: 6 * time.Second})
		broken, whole := harness.Lock(t, a.Mutex("broken")), harness.Lock(t, a.Mutex("whole"))
		w.Do(t, "SET", harness.Key("broken"), "value")
		harness.Lost(t, broken, holdfast.LossNotHeld)
		seen.Renewed(t, "whole")
		assert.True(t, broken.Release(harness.Within(t)) != nil, "the release of a lost lease succeeded")
		harness.Release(t, whole)
		assert.Equal(t, w.Do(t, "GET", harness.Key("broken")), "value", "the value is now")
	})
}

// Bad input. A replica is refused: what it grants would be worth nothing.
func TestAReplicaIsRefused(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		replica := redistest.Start(t, redistest.ReplicaOf(w.Server))
		c, _ := w.client(t, replica.Addr(), holdfast.Config{})
		for what, try := range map[string]func() error{
			"Lock":    func() error { _, err := c.Mutex("x").Lock(harness.Within(t)); return err },
			"Inspect": func() error { _, err := c.Inspect(harness.Within(t), "x"); return err },
		} {
			err := try()
			if !refused(err, "REPLICA") || !strings.Contains(err.Error(), replica.Addr()) ||
				!strings.Contains(err.Error(), "replica") || !strings.Contains(holdfast.Hint(err), "primary") {
				t.Errorf("%s: %v (%s)", what, err, holdfast.Hint(err))
			}
		}
		// A primary that becomes a replica under a client refuses by itself.
		a, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		harness.Lock(t, a.Mutex("y"))
		w.Do(t, "REPLICAOF", "127.0.0.1", "1")
		// A Lock goes on trying: it may be one again.
		_, err := a.Mutex("z").TryLock(harness.Within(t))
		if !refused(err, "READONLY") || !strings.Contains(holdfast.Hint(err), "primary") {
			t.Errorf("TryLock: %v (%s)", err, holdfast.Hint(err))
		}
		a.Abandon()
	})
}

// Bad input. Nobody answers: the error names the address, says that nothing
// is held, and comes soon.
func TestNoServerIsNamed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		proxy := redistest.NewProxy(t, w.Addr())
		c, _ := w.client(t, proxy.Addr(), holdfast.Config{})
		proxy.RefuseNew(true)
		proxy.Cut()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for what, try := range map[string]func() error{
			"Lock":    func() error { _, err := c.Mutex("x").Lock(short); return err },
			"TryLock": func() error { _, err := c.Mutex("x").TryLock(harness.Within(t)); return err },
			"Inspect": func() error { _, err := c.Inspect(harness.Within(t), "x"); return err },
		} {
			err := try()
			var answer *holdfast.ServerError
			assert.True(t, err != nil && !errors.As(err, &answer) && strings.Contains(err.Error(), proxy.Addr()),
				"%s: %v", what, err)
		}
		proxy.Pass()
		harness.Release(t, harness.Lock(t, c.Mutex("x"))) // it is no state to stay in
	})
	addr := redistest.ClosedAddr(t)
	c, _ := harness.Client(t, harness.GoRedis.Server(t, addr, harness.Login{}, 0), holdfast.Config{})
	_, err := c.Mutex("x").TryLock(harness.Within(t))
	if err == nil || !strings.Contains(err.Error(), addr) ||
		!strings.Contains(holdfast.Hint(err), "check that the server is running") {
		t.Errorf("TryLock: %v (%s)", err, holdfast.Hint(err))
	}
}

// Bad input. A server that is too old is refused before any action is sent.
func TestAnOldServerIsRefused(t *testing.T) {
	for _, a := range harness.Adapters {
		t.Run(a.Name, func(t *testing.T) {
			addr := oldServer(t)
			c, _ := harness.Client(t, a.Server(t, addr, harness.Login{}, 0), holdfast.Config{})
			_, err := c.Mutex("x").Lock(harness.Within(t))
			if !refused(err, "VERSION") || !strings.Contains(err.Error(), addr) ||
				!strings.Contains(err.Error(), "6.2.14") || !strings.Contains(holdfast.Hint(err), "7.0") {
				t.Errorf("Lock: %v (%s)", err, holdfast.Hint(err))
			}
		})
	}
}

// oldServer answers HELLO as Redis 6.2 does, and knows nothing else.
func oldServer(t *testing.T) string {
	t.Helper()
	listener := redistest.Listen(t)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				answerAsOld(conn)
			}()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-over
	})
	return listener.Addr().String()
}

func answerAsOld(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		words, err := readCommand(r)
		if err != nil {
			return
		}
		switch strings.ToUpper(words[0]) {
		case "HELLO":
			io.WriteString(conn, "%6\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n6.2.14\r\n"+
				"$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:7\r\n"+
				"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n")
		case "CLIENT", "PING":
			io.WriteString(conn, "+OK\r\n")
		default:
			fmt.Fprintf(conn, "-ERR unknown command `%s`\r\n", words[0])
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	number := func(kind string) (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(line), kind))
	}
	n, err := number("*")
	words := make([]string, n)
	for i := 0; i < n && err == nil; i++ {
		var size int
		if size, err = number("$"); err == nil {
			word := make([]byte, size+2)
			_, err = io.ReadFull(r, word)
			words[i] = string(word[:size])
		}
	}
	return words, err
}
