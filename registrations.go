// What the clients in a record have said of themselves: names, tags, waits.

package holdfast

import (
	"context"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// registrations are what clients reported about themselves, read once for each client.
type registrations struct {
	mu      lockorder.Mutex[registrations]
	clients map[string]*registration // by client ID

	waiters int // how many waiters of each lock have names, at most
}

// registration is what is known of a client.
type registration struct {
	noted bool
	info  *ClientInfo // nil if nothing is known of the client
}

// allNames is for records of which every client is named, and listedNames for one of many records.
const allNames, listedNames = 1 << 30, 100

func newRegistrations(waiters int) *registrations {
	return &registrations{clients: make(map[string]*registration), waiters: waiters}
}

// reports are what the clients in a record have said, by client ID.
type reports map[string]clientReport

type clientReport struct {
	info  *ClientInfo
	notes map[string]string
}

func (s reports) client(attempt string) *ClientInfo { return s[wire.Client(attempt)].info }

func (s reports) tags(attempt string) map[string]string {
	return wire.ParseTags(s[wire.Client(attempt)].notes[wire.TagsField(wire.NumberOf(attempt))])
}

func (s reports) waits(lock, attempt string) (list []WaitInfo) {
	notes, number := s[wire.Client(attempt)].notes, wire.NumberOf(attempt)
	for _, field := range []string{wire.WaitsField(number), wire.InnerField(number)} {
		for _, w := range wire.ParseWaits(notes[field]) {
			wait := WaitInfo{
				Name: w.Name, Holds: lock, HolderID: w.ID, ClientID: wire.Client(attempt), Client: s.client(attempt),
				Since: w.Since, Breaks: w.Breaks, id: w.ID, repeats: w.Repeats,
			}
			if _, local := wire.LocalClient(w.ID); local {
				wait.HolderID = ""
			}
			list = append(list, wait)
		}
	}
	return list
}

// of returns what the clients in a record have said. What it cannot read is missing, because
// a state without names is better than none. The notes are read for each record, unless the
// client has never written any.
func (reg *registrations) of(ctx context.Context, c *Client, r *wire.Record) reports {
	fields := make(map[string][]string)
	note := func(attempt string) {
		id := wire.Client(attempt)
		fields[id] = append(fields[id], wire.TagsField(wire.NumberOf(attempt)))
	}
	for _, h := range r.Holders {
		note(h.Attempt)
		id, number := wire.Client(h.Attempt), wire.NumberOf(h.Attempt)
		fields[id] = append(fields[id], wire.WaitsField(number), wire.InnerField(number))
	}
	for i, w := range r.Waiters {
		if i < reg.waiters {
			note(w.Attempt)
		}
	}
	all := reg.read(ctx, c, fields)
	for id, one := range all {
		if id == c.id {
			one.notes = c.waitNotes.Current(one.notes, fields[id])
			all[id] = one
		}
	}
	return all
}

// mostNotes is how many notes of one client a request asks for.
const mostNotes = 64

// read reads the clients that it does not know yet, and the notes of those that have written any.
func (reg *registrations) read(ctx context.Context, c *Client, fields map[string][]string) reports {
	all := make(reports, len(fields))
	var asked []request.ClientNotes
	reg.mu.Lock()
	for id, wanted := range fields {
		one := reg.clients[id]
		if one != nil {
			all[id] = clientReport{info: one.info}
		}
		if one != nil && !one.noted {
			continue
		}
		for part := range slices.Chunk(wanted, mostNotes) {
			asked = append(asked, request.ClientNotes{ID: id, Fields: part})
		}
	}
	reg.mu.Unlock()
	if len(asked) == 0 {
		return all
	}
	lines := c.sender.ReadClients(ctx, asked)
	reg.mu.Lock()
	defer reg.mu.Unlock()
	for i, line := range lines {
		id := asked[i].ID
		one := all[id]
		if line != nil {
			one.info = &ClientInfo{
				App: line.App, Host: line.Host, PID: line.PID, Version: line.Version, Started: line.Started,
			}
			if one.notes == nil {
				one.notes = make(map[string]string, len(line.Notes))
			}
			maps.Copy(one.notes, line.Notes)
		}
		all[id] = one
		reg.clients[id] = &registration{noted: line != nil && line.Noted, info: one.info}
	}
	return all
}

// clientInfo is what a client has said of itself, nil if nothing is known.
func (c *Client) clientInfo(ctx context.Context, id string) *ClientInfo {
	return newRegistrations(0).read(ctx, c, map[string][]string{id: {""}})[id].info
}
