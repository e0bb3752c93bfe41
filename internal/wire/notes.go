package wire

import (
	"net/url"
	"strings"
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
	_, number, _ := strings.Cut(attempt, "/")
	return number
}
