package store

// Wrapper is a Store around another one. It hides none of the optional interfaces of the inner store, see [As].
type Wrapper interface {
	Store
	// Unwrap returns the inner store, or nil if there is none yet.
	Unwrap() Store
}

// As returns s as one of the optional interfaces ([Acker], [Batcher], [Scanner], …). If s is a [Wrapper] that
// does not have the interface itself, As looks in what it wraps. So a wrapper needs the methods only that it
// changes.
func As[T Store](s Store) (T, bool) {
	for s != nil {
		if t, ok := s.(T); ok {
			return t, true
		}
		w, ok := s.(Wrapper)
		if !ok {
			break
		}
		s = w.Unwrap()
	}
	var none T
	return none, false
}
