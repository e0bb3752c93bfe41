package adapter

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// Whatever a server's refusal says, its code is one word in capitals, the message is
// unchanged, and no redirection leads to an invalid address.
func FuzzRefusals(f *testing.F) {
	for _, message := range []string{
		"", "ERR", "OOM command not allowed", "MOVED 3999 127.0.0.1:6381", "ASK 1 :6379", "MOVED x y", "MOVED 5",
		"ERR The user executing the script can't access", "NOSCRIPT No matching script", "WRONGTYPE\n", "é",
		"MOVED 1 ?:1",
	} {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		refused := Refusal(message)
		if refused.Message != message || refused.Code == "" || strings.ContainsAny(refused.Code, " \r\n") ||
			strings.ToUpper(refused.Code) != refused.Code {
			t.Errorf("%q is read as %+v", message, refused)
		}
		_, addr, _, ok := Redirection(refused)
		assert.False(t, ok && (addr == "" || addr[0] == ':' || addr[0] == '?' || strings.ContainsAny(addr, " \r\n")),
			"%q leads to %q", message, addr)
	})
}
