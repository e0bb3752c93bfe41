package memstore

import "strings"

// readClient reads what clients have said of themselves. Of one client, each argument is a note
// that the caller wants; of several, the notes of each are one argument.
//
// Answers, for each client: client APP HOST PID VERSION STARTED, then noted, then note FIELD
// VALUE · unknown.
func (s *Store) readClient(keys []string, args *arguments) (string, error) {
	answers := make([]string, len(keys))
	for i, key := range keys {
		var fields []string
		switch {
		case len(keys) == 1:
			fields = args.words
		case i < len(args.words):
			fields = strings.Fields(args.words[i])
		}
		c, err := s.clientAt(key)
		if c == nil || err != nil {
			answers[i] = "unknown"
			continue
		}
		lines := []string{"client " + c.app + " " + c.host + " " + c.pid + " " + c.version + " " + c.started}
		if c.notes["noted"] != "" {
			lines = append(lines, "noted")
		}
		for _, field := range fields {
			if value := c.field(field); value != "" {
				lines = append(lines, "note "+field+" "+value)
			}
		}
		answers[i] = strings.Join(lines, "\n")
	}
	return strings.Join(answers, "\n"), nil
}
