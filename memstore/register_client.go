package memstore

import "strconv"

// client is what a client has said of itself.
type client struct {
	app, host, pid, version, started string
}

// registerClient writes down what a client says of itself, so that people can find it.
//
// Answers: announced.
func (s *Store) registerClient(key string, args *arguments) (string, error) {
	ttl := args.whole()
	c := &client{args.text(), args.text(), args.text(), args.text(), args.text()}
	if err := args.problem("register_client"); err != nil {
		return "", err
	}
	if _, err := s.clientAt(key); err != nil {
		return "", err
	}
	s.entries[key] = &entry{client: c, expires: s.now().UnixMilli() + ttl}
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
