package assert

import (
	"strings"
	"sync"
)

// Log is a log that a test reads while others write it.
type Log struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

// Write appends p.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all that was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
