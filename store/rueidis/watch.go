package rueidis

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/script"
)

const (
	// doubtAfter is how long a connection may owe an answer before the first question elsewhere.
	doubtAfter = 250 * time.Millisecond
	// suspectAfter is that of a connection to a server of which another one has just been found dead.
	suspectAfter = 25 * time.Millisecond
	// lastLook is how long to look for an answer before the connection is closed.
	lastLook = time.Millisecond
	// doubtAgain is how long a connection in doubt goes on if the server did not answer elsewhere
	// either, and how long one question may take.
	doubtAgain = time.Second
)

// Watch returns option with a dialer that watches the connections of the client. Without it, rueidis
// gives a dead connection up after ConnWriteTimeout, 10 s by default. With it, a connection that a
// router has forgotten is closed after a quarter of a second, and rueidis makes another one:
//
//	rdb, err := rueidis.NewClient(holdfastrueidis.Watch(rueidis.ClientOption{InitAddress: addrs}))
//
// If a request has no answer for that long, the watch makes one more connection to the same
// address by the same dialer, logs in, sends a script that no server knows, and closes it. If the server answers
// there, it would have answered the request before, so the connection is dead. If it does not, the server is slow
// or gone, or holds writes back: nothing is closed, and nothing is sent twice. There is at most one such question at
// a time for each connection, and none while requests are answered. The router may have forgotten the client's other
// connections to that server, too. So a request that moves to one of them waits there for a tenth of that time.
//
// Only scripts, SCAN, HELLO and rueidis' own PING are watched. A command that may be silent by right, such as BLPOP
// or WAIT, never closes its connection. But all requests that share a dead connection end with it.
//
// A renewal in the background looks for its answer before it lets other goroutines have its processor, and then every
// few milliseconds for a quarter of a second. That lets a lease live beside goroutines that use up the processor, see
// the package.
//
// Watch keeps the DialCtxFn, the DialFn, the Dialer and the TLSConfig of option.
func Watch(option rueidis.ClientOption) rueidis.ClientOption {
	dial, all := dialerOf(option), &siblings{began: time.Now(), conns: make(map[*watched]string)}
	option.DialCtxFn = func(ctx context.Context, dst string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
		c, err := dial(ctx, dst, d, cfg)
		if err != nil {
			return nil, err
		}
		w := &watched{Conn: c, raw: adapter.SocketOf(c), all: all, option: option}
		all.add(w, dst)
		w.again = func(ctx context.Context) (net.Conn, error) { return dial(ctx, dst, d, cfg) }
		w.life, w.end = context.WithCancel(context.Background())
		return w, nil
	}
	return option
}

type dialer func(ctx context.Context, dst string, d *net.Dialer, cfg *tls.Config) (net.Conn, error)

// dialerOf returns what rueidis dials with.
func dialerOf(option rueidis.ClientOption) dialer {
	switch {
	case option.DialCtxFn != nil:
		return option.DialCtxFn
	case option.DialFn != nil:
		return func(_ context.Context, dst string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
			return option.DialFn(dst, d, cfg)
		}
	}
	return func(ctx context.Context, dst string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
		if cfg != nil {
			return (&tls.Dialer{NetDialer: d, Config: cfg}).DialContext(ctx, "tcp", dst)
		}
		return d.DialContext(ctx, "tcp", dst)
	}
}

// siblings are the connections of a client. When one has been found dead, those to the same server that have
// heard nothing since are suspected. For example, a request waits a quarter of a second on connection 1 of four.
// Then it moves to connection 2, which rested as long: there a question is asked after 25 ms, and not after
// another quarter, which would be over the time limit of a quorum's request.
type siblings struct {
	began time.Time

	mu    sync.Mutex
	conns map[*watched]string // their addresses
}

func (all *siblings) add(w *watched, addr string) {
	w.heard.Store(w.now())
	all.mu.Lock()
	defer all.mu.Unlock()
	all.conns[w] = addr
}

func (all *siblings) remove(w *watched) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.conns, w)
}

// suspect is called when dead has been found dead. It owed an answer since then.
func (all *siblings) suspect(dead *watched, since int64) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for w, addr := range all.conns {
		if w != dead && addr == all.conns[dead] && w.heard.Load() < since {
			w.suspect.Store(true)
		}
	}
}

// watched is a connection that knows since when it owes an answer. Its instants are in ns since the client was made.
type watched struct {
	net.Conn
	raw    syscall.RawConn // of the socket; nil: none
	all    *siblings
	looks  adapter.Looks
	option rueidis.ClientOption
	again  func(context.Context) (net.Conn, error)
	life   context.Context // ends with the connection
	end    context.CancelFunc
	owes   atomic.Int64 // since when nothing has come although something was asked; 0: nothing is owed
	heard  atomic.Int64 // when something came
	armed  atomic.Bool  // the timer runs, or a question is under way

	suspect atomic.Bool // see siblings

	mu     sync.Mutex // guards the fields below, and the socket's deadline of reading
	timer  *time.Timer
	readBy time.Time // the deadline of reading, as rueidis has set it
	woken  bool      // the socket's deadline is in the past only to wake the reader
}

func (w *watched) now() int64 { return max(int64(time.Since(w.all.began)), 1) }

// patience is how long an answer may take before the question elsewhere.
func (w *watched) patience() time.Duration {
	if w.suspect.Load() {
		return suspectAfter
	}
	return doubtAfter
}

// Write implements [net.Conn].
func (w *watched) Write(b []byte) (int, error) {
	if answersAtOnce(b) && w.owes.CompareAndSwap(0, w.now()) {
		w.arm(w.patience())
	}
	n, err := w.Conn.Write(b)
	if err == nil && w.raw != nil && (bytes.Contains(b, renewal) || bytes.Equal(b, ping)) {
		w.lookForAnswer()
	}
	return n, err
}

// awaitedWord is the command of a renewal for which a caller waits, so that a watched connection knows it.
const awaitedWord = "evalsha"

// renewal is in a request that renews leases, and for which nobody waits. rueidis sends ping once a second, and other
// requests wait for its answer.
var (
	renewal = []byte("\r\nEVALSHA\r\n$40\r\n" + script.Renew.SHA1)
	ping    = []byte("*1\r\n$4\r\nPING\r\n")
)

// lookForAnswer keeps the processor until the answer to a renewal has arrived, but not for long, and makes the
// goroutine that reads it the next one. If there is no answer yet, that one dozes. Go would wake it last if others use
// up the processor: it looks at sockets when nothing else is to do, or a few times a second.
func (w *watched) lookForAnswer() {
	w.looks.Look(time.Duration(w.now()), w.raw, w.owed)
	w.wake()
}

// owed reports whether an answer is owed on a connection that is not closed.
func (w *watched) owed() bool { return w.owes.Load() != 0 && w.life.Err() == nil }

// wake makes the goroutine that reads look at the socket again.
func (w *watched) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = true
	_ = w.Conn.SetReadDeadline(time.Unix(1, 0))
}

// readOn sets the deadline that was there before lookForAnswer, and reports whether that has woken the reader.
func (w *watched) readOn() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.woken {
		return false
	}
	w.woken = false
	return w.Conn.SetReadDeadline(w.readBy) == nil
}

// SetReadDeadline implements [net.Conn].
func (w *watched) SetReadDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readBy, w.woken = at, false
	return w.Conn.SetReadDeadline(at)
}

// SetDeadline implements [net.Conn].
func (w *watched) SetDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readBy, w.woken = at, false
	return w.Conn.SetDeadline(at)
}

// prompt are the commands of the store that the server answers at once, and rueidis' own.
var prompt = [][]byte{
	[]byte("\r\nEVALSHA\r\n"), []byte("\r\n" + awaitedWord + "\r\n"), []byte("\r\nEVAL\r\n"), []byte("\r\nPING\r\n"),
	[]byte("\r\nSCAN\r\n"), []byte("\r\nHELLO\r\n"),
}

// waiting are the commands that wait for acknowledgements, from their first byte: an owner may be called WAIT.
var waiting = [][]byte{[]byte("*3\r\n$4\r\nWAIT\r\n"), []byte("*4\r\n$7\r\nWAITAOF\r\n")}

// answersAtOnce reports whether a write begins with a command that the server answers at once, and has none
// that waits for acknowledgements.
func answersAtOnce(b []byte) bool {
	has := func(b []byte) func([]byte) bool {
		return func(command []byte) bool { return bytes.Contains(b, command) }
	}
	return slices.ContainsFunc(prompt, has(b[:min(len(b), 24)])) && !slices.ContainsFunc(waiting, has(b))
}

// Read implements [net.Conn].
func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	for n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && w.readOn() {
		adapter.Doze(w.raw, w.owed)
		n, err = w.Conn.Read(b)
	}
	if n > 0 {
		w.heard.Store(w.now())
		w.owes.Store(0)
		w.suspect.Store(false)
	}
	return n, err
}

// Close implements [net.Conn].
func (w *watched) Close() error {
	w.end()
	w.all.remove(w)
	w.mu.Lock()
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	return w.Conn.Close()
}

// arm makes look run after d, unless it will run anyway. The timer of an earlier request may still run: that
// is too late for a suspect.
func (w *watched) arm(d time.Duration) {
	armed := !w.armed.CompareAndSwap(false, true)
	if armed && d == doubtAfter {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case armed && (w.timer == nil || !w.timer.Stop()): // look is running, and arms the timer again
	case w.timer == nil:
		w.timer = time.AfterFunc(d, w.look)
	default:
		w.timer.Reset(d)
	}
}

// look closes the connection if it is in doubt and the server answers elsewhere.
func (w *watched) look() {
	owes, next := w.owes.Load(), time.Duration(0)
	if owes != 0 && w.life.Err() == nil {
		if next = w.patience() - time.Duration(w.now()-owes); next <= 0 {
			if w.answersElsewhere() && w.owes.Load() == owes && !w.answerArrives() {
				w.all.suspect(w, owes)
				_ = w.Close()
				return
			}
			next = doubtAgain
		}
	}
	w.armed.Store(false)
	if w.owes.Load() != 0 && w.life.Err() == nil {
		w.arm(max(next, suspectAfter))
	}
}

// answersElsewhere makes a connection and asks. A refusal is an answer, too.
func (w *watched) answersElsewhere() bool {
	ctx, cancel := context.WithTimeout(w.life, doubtAgain)
	defer cancel()
	c, err := w.again(ctx)
	if err != nil {
		return false
	}
	defer c.Close() //nolint:errcheck // it is over either way
	unhook := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer unhook()
	question, lines := w.question(c.RemoteAddr())
	if _, err := c.Write(question); err != nil {
		return false
	}
	for r := bufio.NewReader(c); lines > 0 && err == nil; lines-- {
		_, err = r.ReadString('\n')
	}
	return err == nil
}

// question is what answersElsewhere asks, and how many lines are the answer. It is a script that no server knows:
// while a server holds writes back (CLIENT PAUSE, a failover that was asked for), it answers PING, but no script.
// Nor does it hold back what it refuses for want of a login. Behind Sentinel, addr may be that of a
// Sentinel, which has another password.
func (w *watched) question(addr net.Addr) (words []byte, lines int) {
	login := rueidis.AuthCredentials{Username: w.option.Username, Password: w.option.Password}
	if f := w.option.AuthCredentialsFn; f != nil {
		if own, err := f(rueidis.AuthCredentialsContext{Address: addr}); err == nil {
			login = own
		}
	}
	ask := []byte("*3\r\n$7\r\nEVALSHA\r\n$0\r\n\r\n$1\r\n0\r\n")
	if login.Password == "" || w.option.Sentinel.MasterSet != "" {
		return ask, 1
	}
	user := cmp.Or(login.Username, "default")
	words = fmt.Appendf(nil, "*3\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n",
		len(user), user, len(login.Password), login.Password)
	return append(words, ask...), 2
}

// answerArrives looks once more: a server that goes on answers everybody at the same time.
func (w *watched) answerArrives() bool {
	return w.raw != nil && adapter.Arrives(w.raw, lastLook)
}
