package transcript

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// memory runs the specification. Its clock moves by a millisecond with each action, as a
// server's would, and with Advance.
type memory struct {
	t     *testing.T
	store *memstore.Store
	clock time.Time
	stops map[string]func()
	syncs int

	mu    sync.Mutex
	heard []Push
	sync  chan string
}

// Memory opens an empty memstore.
func Memory(t *testing.T) Driver {
	m := &memory{
		t:     t,
		store: memstore.New(),
		clock: time.UnixMilli(1_700_000_000_000),
		stops: map[string]func(){},
		sync:  make(chan string, 1),
	}
	m.store.SetClock(func() time.Time { return m.clock })
	t.Cleanup(func() {
		for _, stop := range m.stops {
			stop()
		}
	})
	return m
}

func (m *memory) Run(action *script.Script, keys, args []string) (string, error) {
	m.clock = m.clock.Add(time.Millisecond)
	return m.store.Run(context.Background(), action, keys, args)
}

// Listen subscribes. A message that is a number is a mark of Pushes and no push.
func (m *memory) Listen(channel string) {
	stop, err := m.store.Listen(context.Background(), channel, store.Listener{
		Message: func(payload string) {
			if _, err := strconv.Atoi(payload); err == nil {
				m.sync <- payload
				return
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			m.heard = append(m.heard, Push{channel, payload})
		},
	})
	assert.Must(m.t, err)
	m.stops[channel] = stop
}

func (m *memory) Unsubscribe(channel string) {
	m.stops[channel]()
	delete(m.stops, channel)
}

// Pushes sends a mark behind the pushes that are under way, and waits for it.
func (m *memory) Pushes() []Push {
	for channel := range m.stops {
		m.syncs++
		m.store.Publish(channel, strconv.Itoa(m.syncs))
		<-m.sync
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	heard := m.heard
	m.heard = nil
	return heard
}

func (m *memory) Advance(d time.Duration) int64 {
	m.clock = m.clock.Add(d)
	return 0
}

func (m *memory) Now() int64 { return m.clock.UnixMilli() }

func (m *memory) Fields(key string) map[string]string { return m.store.Dump(key) }

func (m *memory) TTL(key string) int64 {
	ttl := m.store.TTL(key)
	if ttl < 0 {
		return -1
	}
	return ttl.Milliseconds()
}

func (m *memory) Plant(key string, later bool) {
	if later {
		m.store.PlantNewerFormat(key)
	} else {
		m.store.PlantForeign(key)
	}
}
