package memstore

// checkACL tells which commands the server's user may not run: here is no user.
//
// Answers: permitted.
func checkACL() (string, error) { return "permitted", nil }
