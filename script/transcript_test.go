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

// A script that says so may be sent again at once. The second copy gets the answer of the first.
func TestARepeatedScriptIsAnsweredAsOnce(t *testing.T) {
	transcript.RunTwice(t, ".", transcript.Memory)
}

func TestARepeatedScriptIsAnsweredAsOnceOnServer(t *testing.T) {
	transcript.RunTwice(t, ".", transcript.Server(transcript.Start(t)))
}

// A script that says so may arrive at any time later. Every other one would do harm.
func TestALateCopyOfAScriptDoesNoHarm(t *testing.T) {
	transcript.RunLate(t, ".", transcript.Memory)
}

func TestALateCopyOfAScriptDoesNoHarmOnServer(t *testing.T) {
	transcript.RunLate(t, ".", transcript.Server(transcript.Start(t)))
}
