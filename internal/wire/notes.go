package wire

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// TagsField is the field of a client's record with the tags of one attempt.
func TagsField(number string) string { return "tags:" + number }

// Tags writes tags as one word: equal tags are written alike. No tags are the empty word.
func Tags(tags map[string]string) string {
	values := make(url.Values, len(tags))
	for key, value := range tags {
		values.Set(key, value)
	}
	return values.Encode()
}

// ParseTags reads tags. It returns nil if there are none, or if word is something else.
func ParseTags(word string) map[string]string {
	values, err := url.ParseQuery(word)
	if err != nil || len(values) == 0 {
		return nil
	}
	tags := make(map[string]string, len(values))
	for key := range values {
		tags[key] = values.Get(key)
	}
	return tags
}

// NumberOf is the part of an attempt that its client counts.
func NumberOf(attempt string) string {
	rest, _ := cutDelay(attempt)
	_, number, _ := strings.Cut(rest, "/")
	return strings.TrimSuffix(number, ownMark)
}

// PauseField is the field of a client's record with the longest pause of its process, in ms.
const PauseField = "pause"

// WaitsField is the field of a client's record that says what a goroutine waits for that
// holds one attempt's lock.
func WaitsField(number string) string { return "waits:" + number }

// InnerField is the field of a client's record that says what other processes wait for that run
// under one attempt's lock: holdfast run inside holdfast run. They write it.
func InnerField(number string) string { return "inner:" + number }

// WaitNote is one wait.
type WaitNote struct {
	Name    string    // of the lock
	ID      string    // the attempt that waits, or that of [LocalWait]
	Since   time.Time // by the client's clock
	Breaks  bool      // it ends rather than stay in a deadlock
	Repeats uint64    // how often the client has said so again: a higher number is a later word
}

// localMark begins the ID of a wait inside a process. No client has it in its ID.
const localMark = "~"

// LocalWait is the ID of a wait for another goroutine of the client's own process.
func LocalWait(client string, number uint64) string { return localMark + client + "/" + Number(number) }

// LocalClient returns the client of a local wait.
func LocalClient(id string) (client string, local bool) {
	id, local = strings.CutPrefix(id, localMark)
	return Client(id), local
}

// Waits writes waits as one word.
func Waits(list []WaitNote) string {
	var b strings.Builder
	for i, w := range list {
		if i > 0 {
			b.WriteByte(';')
		}
		flag := "-"
		if w.Breaks {
			flag = "b"
		}
		since := strconv.FormatInt(w.Since.UnixMilli(), 10)
		b.WriteString(url.QueryEscape(w.Name) + "," + w.ID + "," + since + "," + flag + "," +
			Number(w.Repeats))
	}
	return b.String()
}

// ParseWaits reads waits. It skips those that it does not understand.
func ParseWaits(word string) (list []WaitNote) {
	for one := range strings.SplitSeq(word, ";") {
		parts := strings.Split(one, ",")
		if len(parts) < 4 {
			continue
		}
		name, bad := url.QueryUnescape(parts[0])
		since, wrong := strconv.ParseInt(parts[2], 10, 64)
		if bad != nil || wrong != nil || name == "" {
			continue
		}
		one := WaitNote{Name: name, ID: parts[1], Since: time.UnixMilli(since), Breaks: parts[3] == "b"}
		if len(parts) > 4 {
			one.Repeats, _ = strconv.ParseUint(parts[4], 10, 64)
		}
		list = append(list, one)
	}
	return list
}
