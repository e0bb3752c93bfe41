package memstore

import "fmt"

// readLeader reads the leader of an election, changing nothing.
//
// Answers: leader TOKEN SINCE LEFT ATTEMPT VALUE · none LEFT.
func readLeader(st *step, _ *arguments) string {
	if !st.leads() {
		return fmt.Sprintf("none %d", st.msUntilFree())
	}
	return fmt.Sprintf("leader %d %d %d %s %s",
		st.fence, min(st.now, st.fence/1000), st.msUntilFree(), st.holder.name, st.said.value)
}

// leads reports whether the holder has proclaimed a value. A holder under an owner's name
// does not lead.
func (st *step) leads() bool {
	h := st.holder
	return h != nil && len(h.entries) == 0 && h.expiry > st.now &&
		st.said != nil && st.said.value != "" && st.said.token == text(st.fence)
}
