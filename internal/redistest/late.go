package redistest

import (
	"bufio"
	"slices"
	"strings"
	"sync"
	"time"
)

// use notes that something is about to pass over a connection, unless a fault makes the proxy forget it.
func (p *Proxy) use(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, i := range p.imposed {
		f := &i.fault
		rested, old := f.rest > 0 && now.Sub(l.used) > f.rest, f.age > 0 && now.Sub(l.made) > f.age
		if !l.forgotten && (rested || old) {
			l.forgotten = true
			i.forgotten++
		}
	}
	l.used = now
}

// keep remembers a request that sets up the connection, and plans the late copies of any other.
func (l *link) keep(frame []byte, words []string, serving *sync.WaitGroup) {
	if slices.Contains([]string{"HELLO", "AUTH", "SELECT"}, strings.ToUpper(words[0])) {
		l.setup = append(l.setup, frame)
		return
	}
	p := l.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.imposed {
		f := &i.fault
		if f.late == nil || !slices.ContainsFunc(f.lateOnly, func(c string) bool {
			return strings.EqualFold(c, words[0])
		}) {
			continue
		}
		if after, wanted := f.late(); wanted && !p.closed {
			again := copied{imposed: i, frames: append(slices.Clone(l.setup), frame), target: p.target}
			i.copies.Add(1)
			serving.Go(func() {
				defer i.copies.Done()
				again.send(after)
			})
		}
	}
}

// copied is a request that is sent once more, over a connection of its own. Its client does not get the answer.
type copied struct {
	imposed *Imposition
	frames  [][]byte // those that set up the connection, and the request
	target  string
}

// send sends the copy after a delay. It drops it if the fault is lifted before, or if the server is not there.
func (c copied) send(after time.Duration) {
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.imposed.lifted:
		return
	}
	p := c.imposed.proxy
	if !p.clear(c.imposed.lifted) {
		return
	}
	server, err := connect(c.target, p.identity != nil)
	if err != nil {
		return
	}
	defer reset(server)
	server.SetDeadline(time.Now().Add(Patience)) //nolint:errcheck // the writing and the reading tell
	if _, err := server.Write(slices.Concat(c.frames...)); err != nil {
		return
	}
	for r, left := bufio.NewReader(server), len(c.frames); left > 0; {
		answer, err := readFrame(r)
		if err != nil {
			return
		}
		if answer[0] != '>' {
			left--
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.imposed.copied++
}

// clear waits until no black hole is in force. It returns false if ended was closed before.
func (p *Proxy) clear(ended <-chan struct{}) bool {
	for {
		p.mu.Lock()
		shut, switched := p.worst().blackHole, p.switched
		p.mu.Unlock()
		if !shut {
			return true
		}
		select {
		case <-switched:
		case <-ended:
			return false
		}
	}
}
