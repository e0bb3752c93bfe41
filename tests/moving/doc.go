// Package moving has the code of docs/moving: the same work under another library's lock, under
// both during a rollout, and under Holdfast. Its tests cross the three on a real server, and
// compare the pages with the files.
package moving
