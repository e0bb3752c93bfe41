package contract_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/memstore"
)

func TestAConfigThatCannotWorkIsRefusedWithTheFieldsName(t *testing.T) {
	for _, test := range []struct {
		cfg  holdfast.Config
		want string // empty: it is good
	}{
		{holdfast.Config{}, ""},
		{holdfast.Config{TTL: 10 * time.Millisecond, MaxLocalHandOvers: -1, App: "a", Prefix: "a:b/c"}, ""},
		{holdfast.Config{Prefix: "a b"}, "Config.Prefix"},
		{holdfast.Config{Prefix: strings.Repeat("a", 65)}, "Config.Prefix"},
		{holdfast.Config{TTL: 9 * time.Millisecond}, "at least 10ms"},
		{holdfast.Config{TTL: -time.Second}, "Config.TTL"},
		{holdfast.Config{TTL: time.Second + time.Microsecond}, "whole milliseconds"},
		{holdfast.Config{TTL: 400 * 24 * time.Hour}, "Config.TTL"},
		{holdfast.Config{Retention: time.Microsecond}, "from 1ms"},
		{holdfast.Config{Retention: 25 * time.Hour}, "Config.Retention"},
		{holdfast.Config{RequestTimeout: time.Microsecond}, "Config.RequestTimeout"},
		{holdfast.Config{TTL: time.Second, RequestTimeout: 501 * time.Millisecond}, "more than half of the TTL"},
		{holdfast.Config{App: strings.Repeat("a", 129)}, "Config.App"},
	} {
		c, err := holdfast.New(memstore.New(), test.cfg)
		switch {
		case test.want == "" && (err != nil || c.ID() == ""):
			t.Errorf("%+v: %v", test.cfg, err)
		case test.want != "" && (!errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%+v: %v", test.cfg, err)
		}
	}
	assert.Is(t, assert.Err(holdfast.New(nil, holdfast.Config{})), holdfast.ErrInvalid)
}

func TestEveryClientHasAnIdentityOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		c, err := holdfast.New(memstore.New(), holdfast.Config{})
		assert.Must(t, err)
		assert.MustTrue(t, !seen[c.ID()] && len(c.ID()) == 22, "ID %q", c.ID())
		seen[c.ID()] = true
	}
}

func TestHintsSayWhatToDo(t *testing.T) {
	refused := func(code, message string) error {
		return fmt.Errorf("holdfast: %w", &holdfast.ServerError{Code: code, Message: message})
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("something"), ""},
		{refused("ERR", "ERR something"), ""},
		{refused("ERR", "ERR DB index is out of range"), "database"},
		{refused("ERR", "ERR SELECT is not allowed in cluster mode"), "database"},
		{refused("ERR", "ERR This instance has cluster support disabled"), "single server"},
		{refused("NOAUTH", "NOAUTH Authentication required."), "password"},
		{refused("READONLY", "READONLY You can't write"), "primary"},
		{refused("MOVED", "MOVED 1 127.0.0.1:7000"), "Cluster"},
		{refused("OOM", "OOM command not allowed"), "maxmemory"},
		{refused("VERSION", "VERSION too old"), "7.0"},
		{refused("ERR", "ERR unknown command 'evalsha', with args beginning with: 'x'"), "rename-command"},
		{refused("ERR", "ERR unknown command `EVAL`, with args beginning with: `x`"), "rename-command"},
		{refused("ERR", "ERR Error compiling script (new function): user_script:1: unexpected symbol"), "memstore"},
		{fmt.Errorf("%w: redis: connection pool timeout", holdfast.ErrUnreachable), "PoolSize"},
		{&holdfast.LostError{Reason: holdfast.LossExpired}, "check what your code wrote"},
		{
			&holdfast.LostError{Reason: holdfast.LossExpired, Err: refused("MISCONF", "MISCONF x")},
			"disk and refuses writes",
		},
		{&holdfast.LostError{Err: refused("WRONGPASS", "WRONGPASS x")}, "user name"},
		{refused("NOPERM", "NOPERM User x has no permissions to run the 'evalsha' command"), "+evalsha"},
		{refused("NOPERM", "NOPERM No permissions to access a key"), "~holdfast"},
		{refused("NOPERM", "NOPERM User x has no permissions to access the 'holdfast:{a}' key"), "~holdfast"},
		{refused("NOPERM", "NOPERM No permissions to access a channel"), "&holdfast"},
		{refused("NOPERM", "ERR ACL failure in script: User x has no permissions to run the 'set'"), "+evalsha"},
		{refused("NOPERM", "ERR ACL failure in script: No permissions to access a key script: 7"), "~holdfast"},
		{refused("NOPERM", "ERR ACL failure in script: No permissions to access a channel script: 7"), "&holdfast"},
		{holdfast.ErrDeadlock, "hand the lease to"},
		{refused("CLIENT", "CLIENT the go-redis client is closed: close the Holdfast client first"), ""},
		{fmt.Errorf("%w", holdfast.ErrNotHeld), "token"},
		{fmt.Errorf("%w: %w", holdfast.ErrNotHeld, holdfast.ErrReleased), "acquire"},
		{fmt.Errorf("%w: %w", holdfast.ErrNotHeld, holdfast.ErrClosed), "another client"},
		{&holdfast.LostError{Reason: holdfast.LossExpired}, "token"},
		{fmt.Errorf("%w: %w", holdfast.ErrUnknownOutcome, &net.OpError{Op: "dial", Err: errLink}), "address"},
		{holdfast.ErrUnknownOutcome, "TTL"},
		{&holdfast.HeldError{}, ""},
		{&holdfast.HeldError{Err: fmt.Errorf("rueidis: a:1: %w", os.ErrDeadlineExceeded)}, "over the network"},
		{&holdfast.HeldError{Err: io.EOF}, "over the network"},
		{wire.BadAnswer("nonsense"), "update"},
	} {
		hint := holdfast.Hint(test.err)
		assert.False(t, !strings.Contains(hint, test.want) || test.want == "" && hint != "",
			"%v: hint %q, want %q in it", test.err, hint, test.want)
	}
}

func TestErrorsTellWhatHappened(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{&holdfast.HeldError{Name: "a"}, `holdfast: lock "a" is held`},
		{
			&holdfast.HeldError{Name: "a", HeldBy: "c/1", Remaining: time.Second, Waited: 1500 * time.Microsecond},
			`holdfast: lock "a" is held by c/1; the current lease ends in 1s unless it is renewed (waited 2ms)`,
		},
		{
			&holdfast.LostError{Name: "a", Reason: holdfast.LossExpired},
			`holdfast: lease of "a" lost: no renewal was confirmed in time`,
		},
		{
			&holdfast.LostError{Name: "a", Reason: holdfast.LossNotHeld},
			`holdfast: lease of "a" lost: the server no longer has this hold`,
		},
		{
			&holdfast.LostError{Name: "a", Reason: holdfast.LossEvicted},
			`holdfast: lease of "a" lost: an operator evicted the holder`,
		},
		{&holdfast.ServerError{Code: "OOM", Message: "OOM no room"}, "holdfast: server: OOM no room"},
	} {
		assert.Equal(t, test.err.Error(), test.want, "the text of the error")
	}
}
