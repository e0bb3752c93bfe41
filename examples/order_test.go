package examples_test

import "testing"

func TestOrder(t *testing.T) {
	t.Parallel()
	out := run(t, "order")
	says(t, out,
		`^payment: is in, entries: 1$`, `^payment: charges the card, entries: 2$`,
		`^customer: may not cancel now: .* is held by workflow of order 42`,
		`^shipping: is in, entries: 2$`, `^payment: leaves$`, `^customer: may not cancel now`,
		`^shipping: leaves$`, `^customer: is in`)
}
