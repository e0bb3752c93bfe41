package memstore

import (
	"fmt"
	"strconv"
	"strings"
)

// proclaim lets the leader say what it stands for, or that it stands down.
//
// Answers: proclaimed · gone.
func proclaim(t *step, args *arguments) string {
	attempt, token, value := args.text(), args.text(), args.text()
	watch := args.text()
	t.retention = args.whole()

	h := t.holder
	if h == nil || !h.is(attempt, "") || text(t.fence) != token || h.expiry <= t.now {
		return "gone"
	}
	t.keep(0)
	news := "leader "
	if t.value = token + " " + value; value == "" {
		t.value, news = "", "none "
	}
	t.pushes = append(t.pushes, message{watch, news + token})
	return "proclaimed"
}

// leader reads who leads, changing nothing.
//
// Answers: leader TOKEN SINCE LEFT ATTEMPT VALUE · none LEFT.
func leader(t *step, _ *arguments) string {
	token, said, found := strings.Cut(t.value, " ")
	n, _ := strconv.ParseInt(token, 10, 64)
	if !found || t.holder == nil || t.holder.expiry <= t.now || n != t.fence {
		return fmt.Sprintf("none %d", t.left())
	}
	return fmt.Sprintf("leader %d %d %d %s %s", n, min(t.now, t.fence/1000), t.left(), t.holder.name, said)
}
