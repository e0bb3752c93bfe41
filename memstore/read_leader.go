package memstore

import "fmt"

// readLeader reads the leader of an election, changing nothing.
//
// Answers: leader TOKEN SINCE LEFT ATTEMPT VALUE · none LEFT.
func readLeader(t *step, _ *arguments) string {
	if !t.leads() {
		return fmt.Sprintf("none %d", t.msUntilFree())
	}
	return fmt.Sprintf("leader %d %d %d %s %s",
		t.fence, min(t.now, t.fence/1000), t.msUntilFree(), t.holder.name, t.said.value)
}

// leads reports whether the holder has proclaimed a value. A holder under an owner's name
// does not lead.
func (t *step) leads() bool {
	h := t.holder
	return h != nil && len(h.entries) == 0 && h.expiry > t.now &&
		t.said != nil && t.said.value != "" && t.said.token == text(t.fence)
}
