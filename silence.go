package holdfast

import "fmt"

// endedError is the end of the context of a call.
type endedError struct {
	name    string
	end     error // the context's
	last    error // why the last request failed; nil if it was answered, or cut off by the end
	unknown bool  // a request may have taken effect
}

func (e *endedError) Error() string {
	s := fmt.Sprintf("holdfast: lock %q: ", e.name)
	if e.unknown {
		s += "outcome unknown: "
	}
	s += e.end.Error()
	if e.last != nil {
		s += "; the last request failed: " + e.last.Error()
	}
	return s
}

func (e *endedError) Is(target error) bool { return e.unknown && target == ErrUnknownOutcome }
func (e *endedError) Unwrap() error        { return e.end }
