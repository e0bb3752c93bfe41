package adapter

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// The messages of servers for a missing permission, word for word, from the versions that the
// tests run on.
func TestALackOfPermissionIsRecognisedOnEveryServer(t *testing.T) {
	for _, said := range []string{
		// Redis 7.0
		"NOPERM this user has no permissions to access one of the keys used as arguments",
		"NOPERM this user has no permissions to access one of the channels used as arguments",
		"NOPERM this user has no permissions to run the 'evalsha' command",
		"ERR The user executing the script can't run this command or subcommand script: 70, on @user_script:1.",
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments",
		// Redis 8, Valkey 8 and 9
		"NOPERM No permissions to access a key",
		"NOPERM No permissions to access a channel",
		"NOPERM User ann has no permissions to run the 'evalsha' command",
		"ERR ACL failure in script: User ann has no permissions to run the 'set' command script: 7, on @user_script:1.",
		"ERR ACL failure in script: User ann has no permissions to run the 'set' command script: on @user_script:1.",
		"ERR ACL failure in script: No permissions to access a key script: 70, on @user_script:1.",
	} {
		got := Refusal(said)
		assert.True(t, got.Code == "NOPERM" && got.Message == said, "%q is read as %+v", said, got)
	}
	for said, want := range map[string]string{
		"ERR value is not an integer or out of range":             "ERR",
		"ERR user_script:1: ACL failure in script: said a script": "ERR",
		"NOSCRIPT No matching script":                             "NOSCRIPT",
		"no code":                                                 "ERR",
		"DB index is out of range":                                "ERR",
		"ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.": "WAITAOF",
	} {
		got := Refusal(said)
		assert.True(t, got.Code == want, "%q is read as %+v", said, got)
	}
}

// What a server is known to answer in place of running a script proves that it has not run. The rest may come from a
// proxy that passes requests on, word for word from the code of some. rueidis removes the code ERR, go-redis does not.
func TestOnlyAKnownRefusalProvesThatAScriptHasNotRun(t *testing.T) {
	for said, mayHaveRun := range map[string]bool{
		"NOSCRIPT No matching script. Please use EVAL.":                    false,
		"BUSY Redis is busy running a script. You can only call":           false,
		"CLUSTERDOWN Hash slot not served":                                 false,
		"WRONGPASS invalid username-password pair or user is disabled.":    false,
		"ERR unknown command 'evalsha', with args beginning with:":         false,
		"ERR max number of clients reached":                                false,
		"ERR Error compiling script (new function): user_script:1:":        false,
		"ERR user_script:4: attempt to index a nil value script: 70, on @": false,
		"ERR acquire: mode is of no such form, or asks for no permit":      false,
		"ERR set_limit: the number of permits is below 0":                  false,
		"FORMAT the record holdfast:{x} is damaged":                        false,
		"unsupported command 'evalsha'":                                    false, // Envoy, before it passes it on
		"upstream failure":                                                 true,  // Envoy
		"upstream protocol error":                                          true,
		"ERR upstream failure":                                             true, // as rueidis' adapter reads it
		"ERR Connection timed out":                                         true, // twemproxy
		"ERR Broken pipe":                                                  true,
		"ERR server connection close":                                      true, // Predixy
		"ERR handle response, backend conn reset":                          true, // Codis
		"ERR Proxy error":                                                  true,
		"TIMEOUT the backend did not answer":                               true,
		"ERR":                                                              true,
		"":                                                                 true,
	} {
		got := Refusal(said)
		assert.Equal(t, got.MayHaveRun, mayHaveRun, "%q may have run", said)
		assert.Equal(t, got.MayHaveRun, got.MayHaveRun && got.Transient(), "%q is tried again", said)
	}
}

func TestRedirectionsAreReadExactly(t *testing.T) {
	for said, want := range map[string]string{
		"MOVED 3999 127.0.0.1:6381": "3999 127.0.0.1:6381 false",
		"ASK 3999 127.0.0.1:6381":   "3999 127.0.0.1:6381 true",
		"MOVED 3999 :6381":          "",
		"ASK 3999 ?:6381":           "",
		"MOVED 3999":                "",
		"MOVED x 127.0.0.1:6381":    "",
		"ERR MOVED 1 127.0.0.1:1":   "",
	} {
		slot, addr, ask, ok := Redirection(Refusal(said))
		got := ""
		if ok {
			got = fmt.Sprint(slot, " ", addr, " ", ask)
		}
		assert.Equal(t, got, want, "%q is read as", said)
	}
}
