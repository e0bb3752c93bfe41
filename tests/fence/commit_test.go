package fence_test

import (
	"bytes"
	"database/sql"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/fence/sqlfence"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// If the answer to a commit is lost, the write and its token are there, and the same lease may write
// again.
func TestALostAnswerToACommitIsTold(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, d database) {
		if d.server == nil {
			return // SQLite has no connection that could break
		}
		guard, _, p, db := guarded(t, d)
		proxy := newCutter(t, p.addr)
		far := place{p.database, proxy.addr, p.file}.open(t, 0)
		write := func() error {
			return guard.Do(within(t), far, "account/1", 5, func(tx *sql.Tx) error {
				_, err := tx.Exec("UPDATE account SET balance = 10")
				return err
			})
		}
		proxy.armed.Store(true)
		want(t, "the first", write(), sqlfence.ErrCommit)
		assert.False(t, proxy.armed.Load(), "the answer was not lost")
		assert.Equal(t, number(t, db, readBalance), 10, "the balance")
		seen, err := guard.Seen(within(t), db, "account/1")
		assert.True(t, seen == 5 && err == nil, "seen %d, %v", seen, err)
		want(t, "the repetition", write(), nil)
	})
}

// cutter passes what clients and a server say. When armed, it lets the next commit through, and
// closes the client's connection in place of its answer.
type cutter struct {
	addr  string
	armed atomic.Bool
	edit  func(sent []byte) []byte // what the server gets of what a client has sent
}

func newCutter(t *testing.T, server string) *cutter {
	t.Helper()
	return newEditor(t, server, func(sent []byte) []byte { return sent })
}

func newEditor(t *testing.T, server string, edit func(sent []byte) []byte) *cutter {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	assert.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	c := &cutter{addr: listener.Addr().String(), edit: edit}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // the test has ended
			}
			go c.pass(client, server)
		}
	}()
	return c
}

func (c *cutter) pass(client net.Conn, addr string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	var cut atomic.Bool
	go func() {
		defer server.Close()
		for buffer := make([]byte, 1<<16); ; {
			n, err := client.Read(buffer)
			if bytes.Contains(bytes.ToLower(buffer[:n]), []byte("commit")) && c.armed.CompareAndSwap(true, false) {
				cut.Store(true)
			}
			if _, sent := server.Write(c.edit(buffer[:n])); sent != nil || err != nil {
				return
			}
		}
	}()
	for buffer := make([]byte, 1<<16); ; {
		n, err := server.Read(buffer)
		if cut.Load() || err != nil {
			return
		}
		if _, err := io.Copy(client, bytes.NewReader(buffer[:n])); err != nil {
			return
		}
	}
}
