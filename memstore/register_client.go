package memstore

import "strconv"

// client is what a client has said of itself.
type client struct {
	app, host, pid, version, started string
	notes                            map[string]string // the other fields
}

// field returns a field of the client's record.
func (c *client) field(name string) string {
	switch name {
	case "app":
		return c.app
	case "host":
		return c.host
	case "pid":
		return c.pid
	case "version":
		return c.version
	case "started":
		return c.started
	}
	return c.notes[name]
}

// registerClient writes down what a client says of itself, so that people can find it.
//
// Answers: announced.
func (s *Store) registerClient(key string, args *arguments) (string, error) {
	ttl := args.whole()
	c := &client{args.text(), args.text(), args.text(), args.text(), args.text(), map[string]string{}}
	var notes [][2]string
	for args.left() {
		note := [2]string{args.text()}
		if args.left() {
			note[1] = args.text()
		}
		notes = append(notes, note)
	}
	if err := args.problem("register_client"); err != nil {
		return "", err
	}
	before, err := s.clientAt(key)
	if err != nil {
		return "", err
	}
	if before != nil {
		c.notes = before.notes
	}
	if len(notes) > 0 {
		c.notes["noted"] = "1"
	}
	for _, note := range notes {
		if c.notes[note[0]] = note[1]; note[1] == "" {
			delete(c.notes, note[0])
		}
	}
	expires := s.now().UnixMilli() + ttl
	switch {
	case ttl == 0:
		delete(s.entries, key)
		return "announced", nil
	case before != nil: // others may have registered it for longer
		expires = max(expires, s.entries[key].expires)
	}
	s.entries[key] = &entry{client: c, expires: expires}
	return "announced", nil
}

// clientAt returns the client's record at key, nil if there is none.
func (s *Store) clientAt(key string) (*client, error) {
	at := s.lookup(key)
	if at == nil {
		return nil, nil
	}
	if at.client == nil {
		return nil, refuse("WRONGTYPE", "Operation against a key that holds no client: "+strconv.Quote(key))
	}
	return at.client, nil
}
