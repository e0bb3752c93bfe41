package redistest

import "testing"

// replicator is the user that replicas log in as, so that their link can be
// cut and nobody else's: a proxy on it would be routed around by a Sentinel,
// and to stop a replica's process cuts nothing, for the kernel keeps the stream
// for it.
const replicator = "replicator"

// replicated lets a server have replicas that can be cut off, and be one.
func replicated(s *Server) {
	s.args = append(s.args, "--repl-timeout", "5",
		// A server that cannot save and becomes a replica would end at the first write
		// that it is sent.
		"--replica-ignore-disk-write-errors", "yes",
		"--user", replicator, "on", "nopass", "+psync", "+replconf", "+ping",
		"--masteruser", replicator, "--masterauth", "any")
}

// CutReplicas ends the links of s to its replicas, and lets none come back:
// what s is told from now on, they do not hear. The server must have been
// started by [StartSentinel] or [StartCluster].
func (s *Server) CutReplicas(t testing.TB) {
	t.Helper()
	s.Do(t, "ACL", "SETUSER", replicator, "off")
	s.Do(t, "CLIENT", "KILL", "TYPE", "replica")
	s.awaitReplicas(t, "0")
}

// HealReplicas undoes CutReplicas. The replicas that s still has come back.
func (s *Server) HealReplicas(t testing.TB) {
	t.Helper()
	s.Do(t, "ACL", "SETUSER", replicator, "on")
}
