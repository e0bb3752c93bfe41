package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// located is where the flags and the environment say that the server is.
func located(t *testing.T, args []string, env map[string]string) (p place, said string, err error) {
	t.Helper()
	s := &serverFlags{prefix: defaultPrefix}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.add(flags)
	assert.Must(t, flags.Parse(args))
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	assert.Must(t, fromEnvironment(flags, lookup))
	p, err = s.locate(lookup, func(text, _ string) { said += text })
	return p, said, err
}

func TestThePasswordIsOnlyInTheFullURL(t *testing.T) {
	for _, c := range []struct {
		args         []string
		env          map[string]string
		full, public string
	}{
		{nil, nil, "", ""},
		{nil, map[string]string{"REDIS_URL": "redis://:p@r"}, "redis://:p@r", "redis://r"},
		{
			nil, map[string]string{"REDIS_URL": "redis://r", "HOLDFAST_REDIS": "rediss://u:p@h:1/2"},
			"rediss://u:p@h:1/2", "rediss://u@h:1/2",
		},
		{
			[]string{"-u", "f:7"}, map[string]string{"HOLDFAST_REDIS": "redis://h", "HOLDFAST_PASSWORD": "q"},
			"redis://:q@f:7", "redis://f:7",
		},
		{[]string{"-u", "valkeys://h"}, nil, "rediss://h", "rediss://h"},
	} {
		p, said, err := located(t, c.args, c.env)
		assert.True(t, p.full == c.full && p.public == c.public && err == nil && said == "",
			"%v %v: %+v, %v, said %q", c.args, c.env, p, err, said)
	}
	_, said, err := located(t, []string{"-u", "redis://:s3cret@h"}, nil)
	if err != nil || strings.Contains(said, "s3cret") ||
		!strings.Contains(said, "every user of this machine can read") {
		t.Errorf("a password on the command line: %v, said %q", err, said)
	}
}

// Without its value, a flag would make this another run: --judge "" would begin one.
func TestNoFlagTakesAnEmptyValue(t *testing.T) {
	newCommand().Flags().VisitAll(func(f *pflag.Flag) {
		cmd := newCommand()
		cmd.SetArgs([]string{"--" + f.Name + "="})
		err := cmd.Execute()
		if refused, ok := errors.AsType[*exitError](err); !ok || refused.code != codeUsage ||
			!strings.Contains(err.Error(), "--"+f.Name) {
			t.Errorf("--%s=: %v, want a refusal", f.Name, err)
		}
	})
}

func TestWhatIsNotOneServerIsRefused(t *testing.T) {
	for url, want := range map[string]string{
		"redis://a redis://b redis://c": "one server of yours",
		"redis+sentinel://a,b/n":        "one server of yours",
		"unix:///run/redis.sock":        "a Unix socket",
		"redis://:s3cret@:6379":         "no host",
		"redis://":                      "no host",
		"redis://a:":                    "no port",
		"http://:s3cret@a":              "not a valid URL",
		"redis://:s3cret@a:b":           "not a valid URL",
	} {
		_, _, err := located(t, nil, map[string]string{"HOLDFAST_REDIS": url})
		exit, ok := errors.AsType[*exitError](err)
		if !ok || exit.code != codeUsage || exit.hint == "" || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
