package lockorder

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Edge says that a goroutine that held the mutex Under locked the mutex Locked.
type Edge struct{ Under, Locked string }

var quoted = regexp.MustCompile("`([a-z]+\\.[A-Za-z]+)`")

// Table reads the edges of the page: each row names a mutex in its first cell, and those that may be locked under it
// in its last.
//
//	| `holdfast.hold` | one grant | `renewer.Renewer`, `holdfast.Lease` |
func Table(page string) (edges []Edge, mutexes []string) {
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 4 {
			continue
		}
		first := quoted.FindStringSubmatch(cells[1])
		if first == nil || strings.TrimSpace(cells[1]) != first[0] {
			continue
		}
		mutexes = append(mutexes, first[1])
		for _, under := range quoted.FindAllStringSubmatch(cells[len(cells)-2], -1) {
			edges = append(edges, Edge{first[1], under[1]})
		}
	}
	return edges, mutexes
}

// Differences says which edges the page does not name, and which way leads back to its beginning. A mutex may be
// locked under another one of its name, if the page says so: then it says in which order.
func Differences(page string, seen []Edge) (list []string) {
	named, _ := Table(page)
	for _, e := range seen {
		if !slices.Contains(named, e) {
			list = append(list, fmt.Sprintf("%s is locked under %s", e.Locked, e.Under))
		}
	}
	slices.Sort(list)
	if way := circle(named); way != nil {
		list = append(list, "a circle: "+strings.Join(way, " → "))
	}
	return list
}

// circle is a way along the edges that leads back to its beginning, or nil.
func circle(edges []Edge) []string {
	next := make(map[string][]string)
	for _, e := range edges {
		if e.Under == e.Locked {
			continue
		}
		next[e.Under] = append(next[e.Under], e.Locked)
	}
	done := make(map[string]bool)
	var walk func(way []string) []string
	walk = func(way []string) []string {
		at := way[len(way)-1]
		if i := slices.Index(way[:len(way)-1], at); i >= 0 {
			return way[i:]
		}
		if done[at] {
			return nil
		}
		for _, to := range next[at] {
			if found := walk(append(slices.Clone(way), to)); found != nil {
				return found
			}
		}
		done[at] = true
		return nil
	}
	for _, e := range edges {
		if found := walk([]string{e.Under}); found != nil {
			return found
		}
	}
	return nil
}
