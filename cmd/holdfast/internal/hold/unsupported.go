package hold

// uses are the words of a command line that a topology may not be able to carry out.
func (o *runOptions) uses() []string {
	words := []string{o.verb}
	if o.owner != "" {
		words = append(words, "--owner")
	}
	if o.permits > 0 {
		words = append(words, "--permits")
	}
	return words
}
