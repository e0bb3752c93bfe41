package memstore

// checkACL finds commands that the server's user may not run. The store has no users.
//
// Answers: permitted.
func checkACL() (string, error) { return "permitted", nil }
