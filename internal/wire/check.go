package wire

import "strings"

// CheckLine is the answer of check on one token.
type CheckLine struct {
	Live    bool   // a live hold has the token
	Unknown bool   // so has a hold that may have been handed over inside its process: it may be of an earlier lease
	Held    bool   // others hold the lock
	Unread  bool   // the step has not read all of the record, or cannot read it
	Token   uint64 // of others that hold: the highest of a live hold
	Holder  string // of others that hold: an attempt, or an owner's name as in the record; empty unless exclusive
}

// String writes the answer as check does.
func (c CheckLine) String() string {
	switch {
	case c.Live:
		return "live"
	case c.Unknown:
		return "unknown"
	case c.Held && c.Holder == "":
		return "held " + Number(c.Token) + " -"
	case c.Held:
		return "held " + Number(c.Token) + " " + c.Holder
	case c.Unread:
		return "-"
	}
	return "free"
}

// ParseChecks reads the answer of check on n tokens. It returns n lines after an error, too.
func ParseChecks(answer string, n int) ([]CheckLine, error) {
	list := make([]CheckLine, n)
	lines := strings.Split(answer, "\n")
	if len(lines) != n {
		return list, BadAnswer(answer)
	}
	for i, line := range lines {
		r := reader{words: strings.Split(line, " ")}
		switch r.word() {
		case "live":
			list[i].Live = true
		case "unknown":
			list[i].Unknown = true
		case "free":
		case "-":
			list[i].Unread = true
		case "held":
			list[i].Held, list[i].Token = true, r.token()
			if word := r.word(); word != "-" {
				list[i].Holder = word
			}
		default:
			r.bad = true
		}
		if r.bad || len(r.words) > 0 {
			return make([]CheckLine, n), BadAnswer(answer)
		}
	}
	return list, nil
}

// Check is the answer of check, by what inspect has answered.
func (r *Record) Check(token uint64) CheckLine {
	var c CheckLine
	for i := range r.Holders {
		h := &r.Holders[i]
		if h.Token == token && !h.Kept {
			return h.Check()
		}
		c.Held, c.Token = true, max(c.Token, h.Token)
		if h.Mode == Exclusive {
			c.Holder = h.holder()
		}
	}
	return c
}

// Check is the answer of check on the token of a holder. Leases that share a hold share its token. Of an exclusive
// hold without an owner, the process numbers the leases.
func (h *HolderLine) Check() CheckLine {
	live := h.Mode != Exclusive || h.Owner != "" || Own(h.Attempt)
	return CheckLine{Live: live, Unknown: !live}
}

// holder is how other clients see a holder.
func (h *HolderLine) holder() string {
	switch {
	case h.Kept:
		return KeptHolder
	case h.Owner != "":
		return Encode(h.Owner)
	}
	return h.Attempt
}
