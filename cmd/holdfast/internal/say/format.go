package say

import "fmt"

// Format is the value of --log-format.
type Format string

func (f *Format) String() string { return string(*f) }

func (f *Format) Type() string { return "text|json" }

func (f *Format) Set(s string) error {
	if s != "text" && s != "json" {
		return fmt.Errorf("%q is not a log format: write text or json", s)
	}
	*f = Format(s)
	return nil
}
