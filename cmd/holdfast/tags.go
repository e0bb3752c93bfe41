package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
)

// tagsFlag is the value of --tag. Each use adds one tag.
type tagsFlag map[string]string

func (t *tagsFlag) String() string { return tagText(*t) }
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

// tagText writes tags on one line. Only a value that would be misread is quoted.
func tagText(tags map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		words = append(words, tagWord(key)+"="+tagWord(tags[key]))
	}
	return strings.Join(words, " ")
}

func tagWord(text string) string {
	if strings.ContainsAny(text, " =\"") || say.OneLine(text) != text {
		return strconv.Quote(text)
	}
	return text
}
