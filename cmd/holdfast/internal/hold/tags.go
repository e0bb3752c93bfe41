package hold

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/describe"
)

// tagsFlag is the value of --tag. Each use adds one tag.
type tagsFlag map[string]string

func (t *tagsFlag) String() string { return describe.Tags(*t) }
func (t *tagsFlag) Type() string   { return "KEY=VALUE" }

func (t *tagsFlag) Set(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found || key == "" {
		return errors.New("a tag is KEY=VALUE, as in order=42")
	}
	if *t == nil {
		*t = tagsFlag{}
	}
	if other, twice := (*t)[key]; twice && other != value {
		return fmt.Errorf("the tag %q has two values, %q and %q: write one", key, other, value)
	}
	(*t)[key] = value
	return nil
}

func tagFlag(flags *pflag.FlagSet, o *runOptions) {
	flags.Var(&o.tags, "tag", "describe the run to others, as in --tag order=42; inspect shows it (repeatable)")
	flags.Lookup("tag").DefValue = ""
}
