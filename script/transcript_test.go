package script_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/transcript"
)

// The specification gives the answers in the transcripts. To write its answers into the
// files: go test ./script -run TestTranscripts -rewrite.
func TestTranscripts(t *testing.T) {
	transcript.Rewrite(t, ".", transcript.Memory)
}

// The scripts on a server give the same answers.
func TestTranscriptsOnServer(t *testing.T) {
	transcript.Run(t, ".", transcript.Server(transcript.Start(t)))
}
