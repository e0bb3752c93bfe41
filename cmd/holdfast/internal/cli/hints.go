package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// another are words that other tools have for flags of ours, each with the flag. The first
// flag that the command has is the right one.
var another = map[string][]string{
	"a": {"password-file"}, "auth": {"password-file"}, "pass": {"password-file"}, "password": {"password-file"},
	"addr": {"listen", "redis"}, "address": {"listen", "redis"}, "bind": {"listen"}, "db": {"redis"}, "h": {"redis"},
	"host": {"listen", "redis"}, "p": {"listen", "redis"}, "port": {"listen", "redis"}, "server": {"redis"},
	"user": {"redis"}, "uri": {"redis"}, "tls": {"redis"},
	"expire": {"ttl"}, "expiry": {"ttl"}, "lease": {"ttl"}, "l": {"ttl", "output"},
	"t": {"wait"}, "retries": {"wait"}, "retry": {"wait"}, "tries": {"wait"}, "max-wait": {"wait"},
	"read": {"shared"}, "reader": {"shared"}, "write": {"exclusive"}, "writer": {"exclusive"},
	"concurrency": {"permits"}, "count": {"permits"}, "limit": {"permits"}, "max": {"permits"},
	"semaphore": {"permits"}, "d": {"interval"}, "n": {"interval"}, "delay": {"interval"},
	"f": {"yes"}, "j": {"json"}, "o": {"json"}, "output": {"json"}, "label": {"tag"}, "meta": {"tag"},
}

// arguments are words that other tools have for flags, and that are arguments here.
var arguments = map[string]string{"name": "NAME", "lock": "NAME", "period": "PERIOD", "value": "VALUE"}

// ours is what to write in place of a word that another tool has for a flag; empty if nobody
// knows.
func ours(cmd *cobra.Command, word string) string {
	for _, name := range another[word] {
		flag := cmd.Flags().Lookup(name)
		switch {
		case flag == nil:
			continue
		case name == "redis":
			return "write --redis redis://USER@HOST:PORT/DB, or rediss:// for TLS"
		case flag.NoOptDefVal != "" || flag.Value.Type() == "bool":
			return "write --" + name
		}
		return "write --" + name + "=" + sample(flag)
	}
	if argument := arguments[word]; argument != "" && strings.Contains(cmd.Use, argument) {
		return argument + " is an argument: write it without --" + word
	}
	return ""
}

// foreign are flags of flock(1) and of other tools, with what to write in a command that
// acquires.
var foreign = map[string]string{
	"priority": "leave it out: this version has no priorities; waiters get the lock in order of arrival",
	"fair":     "leave it out: waiters always get the lock in order of arrival",
	"close":    "leave it out: the command never inherits the lock",
	"o":        "leave it out: the command never inherits the lock",
	"no-fork":  "leave it out: holdfast must keep running to renew the lease",
	"F":        "leave it out: holdfast must keep running to renew the lease",
	"unlock":   "leave it out: holdfast releases the lock when the command ends",
	"fcntl":    "leave it out: the lock is on a server, not in a file",
	"start":    "leave it out: the lock is on a server, not in a file",
	"length":   "leave it out: the lock is on a server, not in a file",
	"version":  "holdfast version prints the version",
	"V":        "holdfast version prints the version",
	"wire":     "only holdfast run holds locks of other libraries",
	"bridge":   "only holdfast run holds locks of other libraries",
	"try":      "write -n, or --wait DUR to limit the wait",

	"bridge-name": "only holdfast run holds locks of other libraries",
}

// FlagError turns an error of the flag parser into one that says what to write.
func FlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var lacking *pflag.ValueRequiredError
	help := cmd.CommandPath() + " --help lists the flags"
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		dashes, asWritten := "--", func(word string) bool { return word == "--"+name }
		if group := unknown.GetSpecifiedShortnames(); group != "" {
			dashes = "-"
			asWritten = func(word string) bool { return ShortFlags(word) && strings.HasSuffix(word, group) }
		}
		text := fmt.Sprintf("%s has no flag %s%s", cmd.CommandPath(), dashes, name)
		hint := foreign[name]
		if cmd.Flags().Lookup("ttl") == nil {
			hint = "" // it acquires nothing
		}
		if hint = cmp.Or(hint, ours(cmd, name)); hint != "" {
			return exit.Usage(text, hint+MayBeName(cmd, os.Args[1:], asWritten))
		}
		if like := closest(name, flagNames(cmd)); dashes == "--" && like != "" {
			return exit.Usage(text, "did you mean --"+like+"?")
		}
		if cmd.HasSubCommands() && ofCommand(cmd, name, dashes) {
			return exit.Usage(text, "write it after the command, as in "+cmd.Name()+" run "+dashes+name)
		}
		return exit.Usage(text, help+MayBeName(cmd, os.Args[1:], asWritten))
	case errors.As(err, &value):
		flag := value.GetFlag()
		if value.GetValue() == "" {
			return emptyValue(flag)
		}
		cause := plainCause(value.Unwrap())
		if flag.Value.Type() == "bool" {
			cause = fmt.Errorf("%q is neither true nor false", value.GetValue())
		}
		return exit.Usage(fmt.Sprintf("--%s: %v", flag.Name, cause),
			help+MayBeName(cmd, os.Args[1:], func(word string) bool {
				return ShortFlags(word) && word == "-"+flag.Shorthand+value.GetValue()
			}))
	case errors.As(err, &lacking):
		flag := lacking.GetFlag()
		return exit.Usage(fmt.Sprintf("--%s needs a value", flag.Name),
			fmt.Sprintf("write --%s=%s", flag.Name, sample(flag)))
	}
	return exit.Usage(err.Error(), help)
}

// plainCause is why a value is refused, in plain words if Go's parser of numbers has refused it.
func plainCause(err error) error {
	number, ok := errors.AsType[*strconv.NumError](err)
	switch {
	case !ok:
		return err
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%q is too large", number.Num)
	}
	return fmt.Errorf("%q is not a whole number", number.Num)
}

// LikeFlock refuses what flock(1) does with a file that is open: -u, and a file descriptor in
// place of a command. Here -u is --redis, and takes the next word.
func LikeFlock(cmd *cobra.Command, names []string, bare bool) error {
	const script = "for a lock around several commands, write them after --, as in holdfast run NAME -- sh -c '...', " +
		"or use holdfast acquire and holdfast release"
	url := cmd.Flags().Lookup("redis")
	unlock := url.Changed && slices.Contains(os.Args[1:], "-u") && !strings.ContainsAny(url.Value.String(), ":.@")
	switch {
	case unlock && cmd.CalledAs() == "flock":
		return exit.Usage(fmt.Sprintf("-u takes a server, and %q is not one: there is no unlock flag", url.Value),
			"leave -u out: holdfast releases the lock when the command ends; "+script+
				"; if it is a server, write redis://"+url.Value.String())
	case bare && len(names) == 1 && digits(names[0]):
		return exit.Usage("the command is missing; a lock on a server has no file descriptor "+names[0], script)
	}
	return nil
}

func digits(word string) bool { return word != "" && strings.Trim(word, "0123456789") == "" }

// ofCommand reports whether a flag that was given too early is one of run.
func ofCommand(root *cobra.Command, name, dashes string) bool {
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		return false
	}
	if dashes == "-" {
		return run.Flags().ShorthandLookup(name) != nil
	}
	return run.Flags().Lookup(name) != nil
}

// sample is a value that a flag would take.
func sample(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "DUR":
		return "10s"
	case "N":
		if f.Name == "permits" || f.Name == "weight" {
			return "3"
		}
		return "75"
	case "string":
		return "TEXT"
	}
	return f.Value.Type()
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return append(names, "timeout", "url")
}

// closest is the name that is most like what was written, or "" if none is.
func closest(written string, names []string) string {
	best, distance := "", max(2, len(written)/3)+1
	slices.Sort(names)
	for _, name := range names {
		if d := edits(written, name); d < distance {
			best, distance = name, d
		} else if distance > 1 && best == "" && len(written) > 2 && strings.HasPrefix(name, written) {
			best = name
		}
	}
	return best
}

// edits counts the letters to insert, drop or change to make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// operands finds the words of a command line that are neither flags nor values of
// flags. It walks the words as the flag parser does, and skips flags that the
// command does not have: strange is the first of those, or len(words).
func operands(cmd *cobra.Command, words []string) (at []int, strange int) {
	strange = len(words)
	for i := 0; i < len(words); i++ {
		word := words[i]
		if !strings.HasPrefix(word, "-") || word == "-" {
			at = append(at, i)
			continue
		}
		switch known, next := parsed(cmd.Flags(), word); {
		case !known:
			strange = min(strange, i)
		case next:
			i++
		}
	}
	return at, strange
}

// parsed reads one word of flags as the flag parser does: whether the command has all of
// them, and whether the next word is the value of the last.
func parsed(flags *pflag.FlagSet, word string) (known, next bool) {
	if name, long := strings.CutPrefix(word, "--"); long {
		name, _, inline := strings.Cut(name, "=")
		flag := flags.Lookup(name)
		return flag != nil, flag != nil && !inline && flag.NoOptDefVal == ""
	}
	for i := 1; i < len(word); i++ {
		flag := flags.ShorthandLookup(word[i : i+1])
		switch {
		case flag == nil:
			return false, false
		case flag.NoOptDefVal == "" || strings.HasPrefix(word[i+1:], "="):
			return true, i+1 == len(word)
		}
	}
	return true, false
}

// wordsBefore is how many words stand before the command in the command lines that may be
// written as those of flock(1) are: without --.
var wordsBefore = map[string]int{
	"run":   2, // run itself, and the name
	"every": 3, // every itself, the period and the name
}

// WithDashes puts -- before the command if a command line has none. The flags after the
// first word of the command are then the command's.
func WithDashes(root *cobra.Command, words []string) []string {
	cmd, _, err := root.Find(words)
	if err != nil || wordsBefore[cmd.Name()] == 0 || slices.Contains(words, "--") {
		return words
	}
	cmd.InheritedFlags() // so that the command knows the flags of all commands
	at, strange := operands(cmd, words)
	n := wordsBefore[cmd.Name()]
	// A strange flag before the command is a mistake, and the flag parser reports it.
	if len(at) <= n || strange < at[n] {
		return words
	}
	return slices.Insert(slices.Clone(words), at[n], "--")
}

// MayBeName is the part of a hint for a command line that has no name, but has a word
// that looks like a flag: it says what to write if that word is the name. It is empty
// if the command takes no name, or if no word matches.
func MayBeName(cmd *cobra.Command, words []string, match func(word string) bool) string {
	end := slices.Index(words, "--")
	if end < 0 {
		end = len(words)
	}
	i := slices.IndexFunc(words[:end], match)
	at, _ := operands(cmd, words[:end])
	if i < 0 || len(at) > 1 || cmd.Name() != "run" && cmd.Name() != "status" {
		return ""
	}
	// All flags stand before the name: after -- there are none.
	rest := WithoutSecrets(slices.Delete(slices.Clone(words[:end]), i, i+1))
	line := slices.Concat([]string{"holdfast"}, rest, []string{"--", words[i]})
	if cmd.Name() == "run" && !slices.Contains(rest, "-c") {
		line = append(line, "--", "COMMAND")
		if end+1 < len(words) {
			line = append(line[:len(line)-1], words[end+1:]...)
		}
	}
	return fmt.Sprintf("; if %s is the lock's name, write %s", Quote(words[i]), Quote(line...))
}

// ShortFlags matches words such as -nq: a group of flags, or a lock's name.
func ShortFlags(word string) bool {
	return len(word) > 2 && word[0] == '-' && word[1] != '-'
}

// WithoutSecrets is a command line that may be shown: without passwords in URLs.
func WithoutSecrets(words []string) []string {
	shown := slices.Clone(words)
	for i, word := range words {
		switch flag, _, inline := strings.Cut(word, "="); {
		case !passwordInURL.MatchString(word):
		case strings.HasPrefix(word, "--") && inline:
			shown[i] = flag + "=URL"
		case strings.HasPrefix(word, "-"):
			shown[i] = word[:2] + "URL"
		default:
			shown[i] = "URL"
		}
	}
	return shown
}

// passwordInURL matches a text that may have a password before an @, or in a parameter.
var passwordInURL = regexp.MustCompile(`(?s):.*@|\?.*=`)

// unquoted are the characters that mean nothing to a shell.
const unquoted = "%+,-./:=@_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Operand writes a lock's name as an argument: if it begins with a dash, after --.
func Operand(name string) string {
	if strings.HasPrefix(name, "-") {
		return "-- " + Quote(name)
	}
	return Quote(name)
}

// Quote writes words as a shell reads them.
func Quote(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool { return !strings.ContainsRune(unquoted, r) }) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
