package rueidis

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// noting notes the deadlines of reading.
type noting struct {
	net.Conn
	deadlines *[]time.Time
}

func (n noting) SetReadDeadline(at time.Time) error {
	*n.deadlines = append(*n.deadlines, at)
	return n.Conn.SetReadDeadline(at)
}

// When the answer to a renewal is there, whoever reads it is woken by a deadline that has passed. It reads the answer
// all the same, and its own deadline counts again. Other requests wake nobody.
func TestARenewalWakesItsReader(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.Must(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	assert.Must(t, err)
	server, err := l.Accept()
	assert.Must(t, err)
	defer server.Close()

	var deadlines []time.Time
	life, end := context.WithCancel(t.Context())
	w := &watched{
		Conn: noting{client, &deadlines}, raw: adapter.SocketOf(client),
		all:  &siblings{began: time.Now().Add(-time.Hour)},
		life: life, end: end,
	}
	defer w.Close()
	own := time.Now().Add(time.Hour)
	assert.Must(t, w.SetReadDeadline(own))
	extension := "*3" + strings.Replace(string(renewal), "EVALSHA", awaitedWord, 1)
	for request, want := range map[string][]time.Time{
		"*3" + string(renewal) + "\r\n$1\r\n0\r\n": {own, time.Unix(1, 0), own},
		"*2\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n":   {own},
		extension + "\r\n$1\r\n0\r\n":              {own}, // a caller waits for its answer
	} {
		assert.True(t, answersAtOnce([]byte(request)), "%q is not watched", request)
		deadlines = []time.Time{own}
		assert.Must(t, assert.Err(server.Write([]byte("+"))))
		assert.Must(t, assert.Err(w.Write([]byte(request))))
		b := make([]byte, 2)
		n, err := w.Read(b)
		assert.True(t, n == 1 && err == nil, "read %q, %v", b[:n], err)
		assert.True(t, slices.Equal(deadlines, want), "%q: the deadlines are %v, want %v", request, deadlines, want)
	}

	// Whoever reads may be woken again before anything has come.
	read := make(chan error, 1)
	go func() { read <- assert.Err(w.Read(make([]byte, 2))) }()
	for range 3 {
		w.wake()
		for woken := true; woken; runtime.Gosched() {
			w.mu.Lock()
			woken = w.woken
			w.mu.Unlock()
		}
	}
	assert.Must(t, assert.Err(server.Write([]byte("+"))))
	assert.NoError(t, <-read)
}

// A name is not taken for a command.
func TestWhatTheServerAnswersAtOnce(t *testing.T) {
	request := func(words ...string) string {
		text := fmt.Sprintf("*%d\r\n", len(words))
		for _, word := range words {
			text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
		}
		return text
	}
	script := func(owner string) string { return request("EVALSHA", "digest", "1", "key", "c/1", owner) }
	for text, want := range map[string]bool{
		request("PING"): true, script("ann"): true,
		script("WAIT"): true, script("WAITAOF"): true, script("WAITER"): true,
		script("ann") + request("WAIT", "1", "500"):         false,
		script("ann") + request("WAITAOF", "1", "0", "500"): false,
		request("SSUBSCRIBE", "channel"):                    false,
	} {
		assert.Equal(t, answersAtOnce([]byte(text)), want, "%q is answered at once", text)
	}
}
