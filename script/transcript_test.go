package script_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/transcript"
)

// The specification gives the answers in the transcripts. To write its answers into the
// files: go test ./script -run TestTranscripts -rewrite.
func TestTranscripts(t *testing.T) {
	transcript.Rewrite(t, ".", transcript.Memory)
}

// The scripts on a server give the same answers.
func TestTranscriptsOnServer(t *testing.T) {
	transcript.Run(t, ".", transcript.Server(redistest.Start(t, redistest.Tenant(""),
		// The transcripts are of a quorum's server and of a Cluster's too.
		redistest.Allow("+info", "+spublish", "+pubsub|shardnumsub"))))
}
