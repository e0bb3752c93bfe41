package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestAnAnswerOfCheckIsReadAsItIsWritten(t *testing.T) {
	const answer = "live\nunknown\nheld 7 c/1\nheld 8 -\nheld 9 %kept\nfree\n-"
	list, err := ParseChecks(answer, 7)
	assert.Must(t, err)
	var again []string
	for _, line := range list {
		again = append(again, line.String())
	}
	assert.Equal(t, strings.Join(again, "\n"), answer, "written again")
	for _, bad := range []string{
		"", "live", "live\nlive\nlive", "live\nheld", "free\nheld x c/1", "free\nheld 7", "free\nno", "-\nlive 1",
	} {
		list, err := ParseChecks(bad, 2)
		assert.Is(t, err, ErrAnswer)
		assert.Equal(t, len(list), 2, "lines of a bad answer")
		assert.True(t, !list[0].Live && !list[1].Live, "%q: %v", bad, list)
	}
}

func TestARecordAnswersACheck(t *testing.T) {
	exclusive := HolderLine{Mode: Exclusive, Attempt: "c/1", Token: 7}
	owned, kept, own := exclusive, exclusive, exclusive
	owned.Owner, kept.Kept, own.Attempt = "a b", true, "c/1"+Suffix(true, time.Second)
	for _, c := range []struct {
		holders []HolderLine
		want    string
	}{
		{nil, "free"},
		{[]HolderLine{exclusive}, "unknown"},
		{[]HolderLine{own}, "live"},
		{[]HolderLine{owned}, "live"},
		{[]HolderLine{kept}, "held 7 %kept"},
		{[]HolderLine{{Mode: Exclusive, Attempt: "c/2", Token: 8}}, "held 8 c/2"},
		{[]HolderLine{{Mode: Shared, Attempt: "c/2", Token: 8}}, "held 8 -"},
		{[]HolderLine{{Mode: Shared, Attempt: "c/2", Token: 8}, {Mode: Shared, Attempt: "c/3", Token: 6}}, "held 8 -"},
		{[]HolderLine{{Mode: Shared, Attempt: "c/2", Token: 8}, {Mode: Shared, Attempt: "c/3", Token: 7}}, "live"},
	} {
		r := Record{Fence: 9, Holders: c.holders}
		assert.Equal(t, r.Check(7).String(), c.want, "of %+v", c.holders)
	}
	r := Record{Fence: 9, Holders: []HolderLine{owned}}
	assert.Equal(t, r.Check(8).Holder, "a%20b", "an owner is written as in the record")
}
