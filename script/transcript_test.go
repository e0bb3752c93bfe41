package script_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/transcript"
)

// The transcripts beside the scripts hold for the specification. To write
// down what it answers: go test ./script -run TestTranscripts -rewrite.
func TestTranscripts(t *testing.T) {
	transcript.Rewrite(t, ".", transcript.Memory)
}

// They hold for the scripts as a server runs them.
func TestTranscriptsOnServer(t *testing.T) {
	transcript.Run(t, ".", transcript.Server(redistest.Start(t, redistest.Tenant(""),
		// The transcripts are of a quorum's server and of a Cluster's too.
		redistest.Allow("+info", "+spublish", "+pubsub|shardnumsub"))))
}
