package otel

// Remembered returns how many locks and how many holds the spans remember.
func (o *Observer) Remembered() (locks, open int) {
	o.spans.mu.Lock()
	defer o.spans.mu.Unlock()
	return len(o.spans.last), len(o.spans.open)
}
