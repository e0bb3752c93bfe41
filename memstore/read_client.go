package memstore

// readClient reads what a client has said of itself.
//
// Answers: client APP HOST PID VERSION STARTED · unknown.
func (s *Store) readClient(key string) (string, error) {
	c, err := s.clientAt(key)
	if c == nil {
		return "unknown", err
	}
	return "client " + c.app + " " + c.host + " " + c.pid + " " + c.version + " " + c.started, nil
}
