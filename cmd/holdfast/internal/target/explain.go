package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/quorum"
)

// Explain adds the address to an error without an answer, and the tool's own hint where
// the library's hint does not know the tool's flags.
func (s *Server) Explain(name string, err error) error {
	key := s.Key(name)
	if old := s.NameIn(s.Old, name); s.ByName || s.isWrong(s.Old, old, err) {
		key = old
	}
	return s.explainKey(key, err)
}

// isWrong reports whether err says that a key is no lock, and the key is that of name.
func (s *Server) isWrong(c *holdfast.Client, name string, err error) bool {
	if c == nil || !isWrongType(err) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), CloseTimeout)
	defer cancel()
	_, err = c.Holders(ctx, name)
	return isWrongType(err)
}

func isWrongType(err error) bool {
	refused, ok := errors.AsType[*holdfast.ServerError](err)
	return ok && refused.Code == "WRONGTYPE"
}

// ExplainJob is explain for the job of that name.
func (s *Server) ExplainJob(name string, err error) error {
	return s.explainKey(s.JobKey(name), err)
}

// ExplainAny is explain for one of several locks. The server does not say which of their keys
// holds something else, so each is read.
func (s *Server) ExplainAny(names []string, err error) error {
	for _, name := range names[1:] {
		if s.isWrong(s.Client, name, err) {
			return s.Explain(name, err)
		}
	}
	return s.Explain(names[0], err)
}

func (s *Server) explainKey(key string, err error) error {
	var refused *holdfast.ServerError
	switch {
	case errors.As(err, &refused) && (refused.Code == "NOAUTH" || refused.Code == "WRONGPASS"):
		return s.explainLogin(refused.Code)
	case errors.As(err, &refused) && refused.Code == "TLS":
		why, hint := TLSFailure(refused)
		return exit.With(exit.CodeUnreachable, fmt.Errorf("%s: %s", s.Address, why), hint)
	case errors.Is(err, holdfast.ErrLimit):
		return exit.With(exit.CodeUsage, err,
			"write the same --permits as the others, or take the server's with --server-limit")
	case isWrongType(err):
		return exit.With(exit.CodeProtocol, fmt.Errorf("the key %s holds a value that is not a lock", key),
			"use another name or another --prefix; holdfast has not changed the value")
	case exit.Of(err) == exit.CodeRefused && strings.Contains(err.Error(), "the 'scan' command"):
		return exit.With(exit.CodeRefused,
			fmt.Errorf("%s: the user may not run SCAN, which finds the locks", s.Address),
			"ACL SETUSER "+s.user()+" +scan; holdfast status NAME works without it")
	case errors.As(err, &refused) && refused.Code == "NOPERM":
		return exit.With(exit.CodeRefused, fmt.Errorf("%s, user %s: %w", s.Address, s.user(), err),
			holdfast.Hint(err)+"; holdfast doctor --acl prints all that a user needs")
	case refused == nil && redis.HasErrorPrefix(err, "NOPERM"):
		// What the library did not send: list --foreign reads other keys.
		return exit.With(exit.CodeRefused, fmt.Errorf("%s: %w", s.Address, err),
			"to let this user find the locks of other libraries, run ACL SETUSER "+s.user()+
				" '%R~*' +scan +type +pttl +getrange +hrandfield")
	}
	if wrong := s.explainPlace(err); wrong != nil {
		return wrong
	}
	if errors.Is(err, quorum.ErrUnsupported) {
		return exit.With(exit.CodeUsage, err, "use one server, Sentinels or a Cluster for this kind of lock")
	}
	if few, ok := errors.AsType[*quorum.NoMajorityError](err); ok {
		return s.explainQuorum(few, exit.Of(err))
	}
	if s.Targets[0].Topology == BySentinel && exit.Of(err) != exit.CodeRefused {
		if _, better := s.Targets[0].findPrimary(s.sentinel); better != nil {
			return better
		}
	}
	if exit.Of(err) != exit.CodeUnreachable || errors.As(err, &refused) {
		return err
	}
	return s.explainAway(err)
}

// explainLogin says which server refuses which login.
func (s *Server) explainLogin(code string) error {
	where := s.Address
	switch {
	case s.Targets[0].Topology == BySentinel:
		// The client library logs in at the Sentinels first, and its error does not say where it was refused.
		primary, refused := s.Targets[0].findPrimary(s.sentinel)
		if refused != nil {
			return refused
		}
		where = primary + ", the primary of " + where
	case len(s.Nodes) > 1:
		if refusing := s.refuseLogin(); len(refusing) > 0 {
			where = strings.Join(refusing, ", ")
		}
	}
	if code == "NOAUTH" {
		return exit.With(exit.CodeRefused, fmt.Errorf("%s requires a password", where),
			"put it into HOLDFAST_PASSWORD, or into a file for --password-file")
	}
	return exit.With(exit.CodeRefused, fmt.Errorf("%s: wrong user or password (user %s)", where, s.user()),
		"check the user in the URL, and the password in HOLDFAST_PASSWORD or --password-file")
}

// refuseLogin are the servers of a quorum that refuse the login.
func (s *Server) refuseLogin() (addresses []string) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	refused := make([]bool, len(s.Nodes))
	var all sync.WaitGroup
	for i, n := range s.Nodes {
		all.Go(func() {
			err := n.Conn.Ping(ctx).Err()
			refused[i] = redis.HasErrorPrefix(err, "NOAUTH") || redis.HasErrorPrefix(err, "WRONGPASS")
		})
	}
	all.Wait()
	for i, n := range s.Nodes {
		if refused[i] {
			addresses = append(addresses, n.Address)
		}
	}
	return addresses
}

// TLSFailure is why TLS failed, and what to do about it.
func TLSFailure(refused *holdfast.ServerError) (why, hint string) {
	why = strings.TrimPrefix(refused.Message, "TLS ")
	return strings.TrimPrefix(why, "tls: "), tlsHint(why)
}

// OtherScheme is what to write if only one of the two sides speaks TLS; "" if that is not likely.
func OtherScheme(why string, secure bool) string {
	switch {
	case secure && why == NoAnswer:
		return "; if it has no TLS, write redis:// in place of rediss://"
	case !secure && why == HungUp:
		return "; if it has TLS, write rediss:// in place of redis://"
	}
	return ""
}

// tlsHint is what to do about a refusal to use TLS, by its text.
func tlsHint(why string) string {
	switch is := func(text string) bool { return strings.Contains(why, text) }; {
	case is("the server refuses"):
		return "name a client certificate that the server accepts, and that has not expired, with --cert and --key"
	case is("does not speak TLS"):
		return "write redis:// in place of rediss://, or name the port that has TLS"
	case is("has expired or is not yet valid"):
		return "renew the server's certificate; if its dates are right, correct the clock of this machine"
	case is("unknown authority"):
		return "name the authority with --cacert"
	}
	return "write the host in the URL as the server's certificate names it, or renew the certificate with this name"
}

// explainAway says which server does not answer.
func (s *Server) explainAway(err error) error {
	hint := "check that the server is running at this address and that this machine can reach it; " +
		"--redis, HOLDFAST_REDIS or REDIS_URL set the address"
	why := Cause(err)
	hint += OtherScheme(why, s.Targets[0].Options.TLSConfig != nil)
	if !s.ByHand {
		hint = "start redis-server, or set your server with --redis URL or HOLDFAST_REDIS; " +
			"holdfast demo needs no server"
	}
	where := s.Address
	switch node := whoFailed(err); {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE): // it is not the server
		return exit.With(exit.CodeUnreachable, fmt.Errorf("cannot connect to %s: %s", where, why),
			"allow this process more open files (ulimit -n)")
	case node == "":
	case slices.ContainsFunc(s.Conns(), isCluster):
		where = node + ", a node of " + where
		hint = "start this node, or promote a replica of it; holdfast doctor checks every node"
	case s.Targets[0].Topology == BySentinel:
		where = node + ", the primary of " + where
		hint = "wait until the Sentinels have chosen another primary, or start this server"
	}
	return exit.With(exit.CodeUnreachable, fmt.Errorf("no server answers at %s: %s", where, why), hint)
}

func isCluster(rdb redis.UniversalClient) bool {
	_, yes := rdb.(*redis.ClusterClient)
	return yes
}

// whoFailed is the address that gave an error of the network; "" if the error does not say.
func whoFailed(err error) string {
	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		return unknown.Name
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
		return op.Addr.String()
	}
	return ""
}

// explainPlace says what to write if the URL leads to another kind of server than it says. It
// returns nil if err is not a sign of that.
func (s *Server) explainPlace(err error) error {
	var refused *holdfast.ServerError
	switch is := func(text string) bool { return strings.Contains(refused.Message, text) }; {
	case !errors.As(err, &refused):
		return nil
	case is("cluster support disabled"):
		return s.NoCluster()
	case refused.Code == "MOVED" && s.Quorum != nil:
		return exit.Usage("a server of this quorum belongs to a Cluster: "+say.OneLine(refused.Message),
			"name independent servers, or only the Cluster, by one of its nodes")
	case is("unknown command") && s.Targets[0].Topology == InCluster:
		return s.NoCluster()
	case is("SELECT is not allowed in cluster mode"):
		return exit.Usage(s.Address+": this Cluster has no database but 0",
			"leave the number out; a Cluster of Valkey 9 can have more (cluster-databases)")
	case is("DB index is out of range"):
		return exit.Usage(s.Address+": there is no such database on the server", "write a lower number, or none")
	case errors.Is(err, quorum.ErrSameServer):
		return exit.Usage("two servers of the quorum are the same: "+
			say.OneLine(strings.TrimPrefix(refused.Message, "QUORUM ")),
			"name each server once")
	case is("unknown command") && s.Targets[0].Topology == oneServer && len(s.Targets) == 1:
		if name := s.primaryOf(); name != "" {
			return exit.With(exit.CodeUnreachable, fmt.Errorf("a Sentinel answers at %s", s.Address),
				"write redis+sentinel://"+s.Targets[0].Options.Addr+"/"+name)
		}
	}
	return nil
}

// NoCluster is the error for a URL of a Cluster that leads to another server.
func (s *Server) NoCluster() error {
	return exit.Usage(s.Address+" is not a Cluster", "write redis://HOST:PORT for one server")
}

// primaryOf is the name of the first primary that the server watches, if it is a Sentinel.
func (s *Server) primaryOf() string {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	list, err := s.Nodes[0].Conn.Do(ctx, "SENTINEL", "MASTERS").Slice()
	if err != nil || len(list) == 0 {
		return ""
	}
	switch first := list[0].(type) {
	case map[any]any:
		return fmt.Sprint(first["name"])
	case []any:
		for i := 1; i < len(first); i += 2 {
			if first[i-1] == "name" {
				return fmt.Sprint(first[i])
			}
		}
	}
	return ""
}

// explainQuorum names each server that does not count, by the address that the user wrote.
func (s *Server) explainQuorum(few *quorum.NoMajorityError, code int) error {
	if code == exit.CodeInternal { // all servers answer, and too few count
		code = exit.CodeUnreachable
	}
	why := make([]string, len(few.Missing))
	for i, err := range few.Missing {
		name, rest, _ := strings.Cut(err.Error(), ": ")
		var number int
		if _, bad := fmt.Sscanf(name, "node %d", &number); bad == nil && 0 < number && number <= len(s.Nodes) {
			name = s.Nodes[number-1].Address
		}
		if short := Cause(err); short != say.Plain(err) {
			rest = short
		}
		if refused, ok := errors.AsType[*holdfast.ServerError](err); ok && refused.Code == "TLS" {
			rest, _ = TLSFailure(refused)
		}
		why[i] = name + ": " + say.OneLine(rest)
	}
	return exit.With(code,
		fmt.Errorf("%d of %d servers of the quorum can take part, too few for a majority: %s",
			few.Have, few.Nodes, strings.Join(why, "; ")),
		few.Hint()+"; holdfast doctor checks each of them")
}

// user is the name of the server's user.
func (s *Server) user() string {
	return cmp.Or(s.Targets[0].Options.Username, "default")
}

const (
	NoAnswer = "no answer in time" // time was the only reason
	HungUp   = "the connection was closed"
)

// Cause is the short reason in an error of the network.
func Cause(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	var late net.Error
	switch {
	case errors.As(err, &dns):
		return "no such host"
	case errors.As(err, &op) && op.Err != nil && !op.Timeout():
		if sys, ok := errors.AsType[*os.SyscallError](op.Err); ok {
			return sys.Err.Error() // without the name of the system call
		}
		return op.Err.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &op), errors.As(err, &late) && late.Timeout():
		return NoAnswer
	case errors.Is(err, io.EOF):
		return HungUp
	case strings.Contains(err.Error(), "redis: can't parse"), strings.Contains(err.Error(), "redis: invalid reply"):
		return "the program there is not a Redis or Valkey server"
	}
	return say.Plain(err)
}

// MayBePattern says how to look for several locks, if nobody has used a lock of that name and
// it looks like a pattern.
func (a *App) MayBePattern(name string) {
	if strings.ContainsAny(name, "*?[") {
		a.Say.Noticef("no lock has the name %s; holdfast list %s shows the locks that match it",
			say.OneLine(cli.Quote(name)), say.OneLine(cli.Quote(name)))
	}
}
