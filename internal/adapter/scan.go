package adapter

import "strings"

// ScanPage is how many keys a server visits for one SCAN. It takes some ten microseconds, so that
// even a server that just lost its processor for a while delays nobody by a millisecond.
const ScanPage = 100

// ScanKeys reads the keys of one server that begin with prefix. ask sends one SCAN and
// returns the keys of the page and the next cursor.
func ScanKeys(
	prefix string, ask func(cursor uint64, pattern string) (keys []string, next uint64, err error),
	visit func(keys []string) error,
) error {
	pattern := literally.Replace(prefix) + "*"
	for cursor := uint64(0); ; {
		keys, next, err := ask(cursor, pattern)
		if err != nil {
			return err
		}
		if err := visit(keys); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// literally escapes what has a meaning in a pattern of SCAN.
var literally = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
