package redistest

import "testing"

// replicator is the user of the replicas. So a test can cut the links of the replicas and no
// others. A proxy would not do, because a Sentinel makes replicas connect around it. To stop a
// replica's process would not do either, because the kernel keeps the stream for it.
const replicator = "replicator"

// replicated lets a server have replicas that can be cut off, or be such a replica.
func replicated(s *Server) {
	s.args = append(s.args, "--repl-timeout", "5",
		// Otherwise a server that cannot save, and becomes a replica, would end at the first
		// write that it receives.
		"--replica-ignore-disk-write-errors", "yes",
		"--user", replicator, "on", "nopass", "+psync", "+replconf", "+ping",
		"--masteruser", replicator, "--masterauth", "any")
}

// CutReplicas ends the links of s to its replicas and refuses new ones. The replicas do not get
// what is written to s from now on. [StartSentinel] or [StartCluster] must have started s.
func (s *Server) CutReplicas(t testing.TB) {
	t.Helper()
	s.Do(t, "ACL", "SETUSER", replicator, "off")
	s.Do(t, "CLIENT", "KILL", "TYPE", "replica")
	s.awaitReplicas(t, "0")
}

// HealReplicas reverses CutReplicas: the replicas that s still has connect again.
func (s *Server) HealReplicas(t testing.TB) {
	t.Helper()
	s.Do(t, "ACL", "SETUSER", replicator, "on")
}
