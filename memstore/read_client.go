package memstore

import "strings"

// readClient reads what a client has said of itself.
//
// Answers: client APP HOST PID VERSION STARTED, then noted, then note FIELD VALUE · unknown.
func (s *Store) readClient(key string, args *arguments) (string, error) {
	c, err := s.clientAt(key)
	if c == nil {
		return "unknown", err
	}
	var answer strings.Builder
	answer.WriteString("client " + c.app + " " + c.host + " " + c.pid + " " + c.version + " " + c.started)
	if c.notes["noted"] != "" {
		answer.WriteString("\nnoted")
	}
	for args.left() {
		field := args.text()
		if value := c.field(field); value != "" {
			answer.WriteString("\nnote " + field + " " + value)
		}
	}
	return answer.String(), nil
}
