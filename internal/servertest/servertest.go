// Package servertest gives tests a real server that is not Redis: PostgreSQL, MariaDB or PgBouncer, as
// a system's packages install it, a MySQL that the environment names, or an S3 server. A server runs on
// a free port of the loopback interface, with its data in a temporary directory, and is gone when it is
// stopped.
//
// It never skips a test: if a server's programs are missing, the error says what to install.
// scripts/databases.sh does so for make test-all.
package servertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience limits the wait for a server that begins or ends.
const patience = time.Minute

// Server is a running server.
type Server struct {
	Addr string // host:port; the user is Superuser, without a password

	kind Kind
	cmd  *exec.Cmd
	dir  string
	log  string
	done chan struct{} // closed when the process has ended
}

// Kind is a product.
type Kind struct {
	Name      string
	Superuser string

	program string   // the server, as a file on PATH or in a directory below
	places  []string // patterns of directories that are not on everybody's PATH
	install string
	prepare func(find func(string) (string, error), data string) (*exec.Cmd, error)
	args    func(data string, port int) []string
}

// PostgreSQL runs postgres. Its database is called postgres.
var PostgreSQL = Kind{
	Name: "PostgreSQL", Superuser: "postgres", program: "postgres",
	places:  []string{"/usr/lib/postgresql/*/bin", "/usr/libexec/postgresql*", "/opt/homebrew/opt/postgresql*/bin"},
	install: "apt-get install postgresql",
	prepare: func(find func(string) (string, error), data string) (*exec.Cmd, error) {
		initdb, err := find("initdb")
		if err != nil {
			return nil, err
		}
		return exec.CommandContext(context.Background(), initdb,
			"-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"), nil
	},
	args: func(data string, port int) []string {
		return []string{
			"-D", data, "-p", strconv.Itoa(port), "-h", "127.0.0.1", "-k", "",
			"-c", "shared_buffers=16MB", "-c", "fsync=off",
		}
	},
}

// MariaDB runs mariadbd. It has no database besides its own.
var MariaDB = Kind{
	Name: "MariaDB", Superuser: "root", program: "mariadbd",
	places:  []string{"/usr/sbin", "/usr/libexec", "/opt/homebrew/opt/mariadb*/bin"},
	install: "apt-get install mariadb-server",
	prepare: func(find func(string) (string, error), data string) (*exec.Cmd, error) {
		installDB, err := find("mariadb-install-db")
		if err != nil {
			return nil, err
		}
		return exec.CommandContext(context.Background(), installDB, "--no-defaults", "--datadir="+data,
			"--auth-root-authentication-method=normal", "--skip-test-db"), nil
	},
	args: func(data string, port int) []string {
		return []string{
			"--no-defaults", "--datadir=" + data, "--port=" + strconv.Itoa(port), "--bind-address=127.0.0.1",
			"--socket=" + filepath.Join(data, "socket"), "--innodb-flush-log-at-trx-commit=0",
		}
	},
}

// EnvMySQL names the environment variable that names a MySQL server: the file mysqld. Few systems have a package of it
// beside MariaDB's, so its tests are run only if it is set.
const EnvMySQL = "HOLDFAST_TEST_MYSQL"

// MySQL runs the mysqld of [EnvMySQL]. It has no database besides its own.
var MySQL = Kind{
	Name: "MySQL", Superuser: "root", program: cmp.Or(os.Getenv(EnvMySQL), "mysqld"),
	install: "name its file mysqld in " + EnvMySQL,
	prepare: func(find func(string) (string, error), data string) (*exec.Cmd, error) {
		mysqld, err := find(cmp.Or(os.Getenv(EnvMySQL), "mysqld"))
		if err != nil {
			return nil, err
		}
		return exec.CommandContext(context.Background(), mysqld, "--no-defaults", "--datadir="+data,
			"--initialize-insecure"), nil
	},
	args: func(data string, port int) []string {
		return []string{
			"--no-defaults", "--datadir=" + data, "--port=" + strconv.Itoa(port), "--bind-address=127.0.0.1",
			"--socket=" + filepath.Join(data, "socket"), "--innodb-flush-log-at-trx-commit=0",
			"--mysqlx=OFF", "--secure-file-priv=NULL", // no second port, and no directory of a package
		}
	},
}

// PgBouncer runs pgbouncer in front of a PostgreSQL. All its clients share one connection to a database, each for the
// time of a transaction.
func PgBouncer(postgres string) Kind {
	host, at, _ := strings.Cut(postgres, ":")
	return Kind{
		Name: "PgBouncer", Superuser: "postgres", program: "pgbouncer", places: []string{"/usr/sbin"},
		install: "apt-get install pgbouncer",
		args: func(data string, port int) []string {
			file := filepath.Join(data, "ini")
			ini := fmt.Appendf(nil, "[databases]\n* = host=%s port=%s user=postgres\n"+
				"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\n"+
				"pool_mode = transaction\ndefault_pool_size = 1\n", host, at, port)
			_ = os.WriteFile(file, ini, 0o644) //nolint:gosec // its user reads it; without it, it does not start
			return []string{file}
		},
	}
}

// VersityGW runs versitygw, an S3 server over a directory of a file system with extended attributes.
// Its superuser's secret is [Secret].
var VersityGW = Kind{
	Name: "the Versity S3 Gateway", Superuser: "test", program: "versitygw",
	places:  []string{"../../bin", "../bin", "bin"}, // of the repository
	install: "sh scripts/databases.sh",
	args: func(data string, port int) []string {
		return []string{
			"--port", "127.0.0.1:" + strconv.Itoa(port), "--access", "test", "--secret", Secret, "--quiet",
			"posix", data,
		}
	},
}

// Secret is the secret of the superuser of an S3 server.
const Secret = "secret-of-the-tests"

// Durable is the kind as it comes: each commit is on the disk before it is answered. Tests need no
// such care, but measurements do.
func (k Kind) Durable() Kind {
	args := k.args
	k.args = func(data string, port int) []string {
		list := args(data, port)
		for i, arg := range list {
			list[i] = strings.NewReplacer("fsync=off", "fsync=on", "at-trx-commit=0", "at-trx-commit=1").Replace(arg)
		}
		return list
	}
	return k
}

// end is the signal at which a server ends as in a crash. PostgreSQL has more processes and shared
// memory, and removes them at SIGQUIT. MariaDB may miss that while it begins.
func (k Kind) end() os.Signal {
	if k.Name == PostgreSQL.Name {
		return syscall.SIGQUIT
	}
	return os.Kill
}

// Start runs a server until it is stopped, or until this process ends.
func Start(kind Kind) (*Server, error) {
	find := func(name string) (string, error) {
		path, err := lookPath(name, kind.places)
		if err != nil {
			return "", fmt.Errorf("servertest: there is no %s for %s: %s", name, kind.Name, kind.install)
		}
		return path, nil
	}
	program, err := find(kind.program)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "servertest")
	if err != nil {
		return nil, err
	}
	s := &Server{kind: kind, dir: dir, log: filepath.Join(dir, "log")}
	if err := s.start(kind, program, find); err != nil {
		text, _ := os.ReadFile(s.log) // it is only an explanation
		return nil, errors.Join(fmt.Errorf("servertest: %s: %w\n%s", kind.Name, err, text), s.Stop())
	}
	return s, nil
}

// lookPath finds a program on PATH, or else in the last directory that matches a pattern.
func lookPath(name string, places []string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		// A link from elsewhere does not have the other programs beside it, but finds its files.
		return path, nil
	}
	for _, pattern := range places {
		dirs, _ := filepath.Glob(pattern) // the patterns are well-formed
		for _, dir := range slices.Backward(dirs) {
			if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return filepath.Abs(found)
			}
		}
	}
	return "", err
}

func (s *Server) start(kind Kind, program string, find func(string) (string, error)) error {
	owner, err := s.own()
	if err != nil {
		return err
	}
	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	data := filepath.Join(s.dir, "owned", "data")
	prepare := exec.CommandContext(context.Background(), "mkdir", data)
	if kind.prepare != nil {
		if prepare, err = kind.prepare(find, data); err != nil {
			return err
		}
	}
	if err := s.run(prepare, owner, log); err != nil {
		return err
	}
	if err := prepare.Wait(); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s.cmd = exec.CommandContext(context.Background(), program, kind.args(data, port)...)
	if err := s.run(s.cmd, owner, log); err != nil {
		s.cmd = nil
		return err
	}
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait() // it was killed
	}()
	return s.answers()
}

// run starts a program of the server. Its temporary files are its own too: MariaDB removes, when it
// starts, all of MariaDB's that it finds where temporary files are, also those of another server.
func (s *Server) run(cmd *exec.Cmd, owner *user.User, log *os.File) error {
	owned := filepath.Join(s.dir, "owned")
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, owned
	cmd.Env = append(os.Environ(), "TMPDIR="+owned)
	return startTied(cmd, owner, s.kind.end())
}

// own makes the directory in which the server may write. These servers refuse to be root, so
// then it belongs to an ordinary user, who is returned.
func (s *Server) own() (*user.User, error) {
	owned := filepath.Join(s.dir, "owned")
	if err := os.Mkdir(owned, 0o700); err != nil || os.Getuid() != 0 {
		return nil, err
	}
	owner, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(owner.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(owner.Gid)
	if err != nil {
		return nil, err
	}
	return owner, errors.Join(os.Chmod(s.dir, 0o711), os.Chown(owned, uid, gid)) //nolint:gosec // to pass through
}

func freePort() (int, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// answers waits until the server accepts a connection, or has ended. PostgreSQL accepts some before
// it is ready and refuses what they ask for: its drivers say so, and the caller pings again.
func (s *Server) answers() error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		if conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", s.Addr); err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-s.done:
			return errors.New("the server ended before it answered")
		case <-limit.C:
			return errors.New("the server does not answer")
		}
	}
}

// Stop ends the server as a crash would, and removes its data.
func (s *Server) Stop() error {
	if s.cmd != nil {
		if err := s.cmd.Process.Signal(s.kind.end()); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-s.done
	}
	return os.RemoveAll(s.dir)
}

// Ready calls ping until it succeeds: a server that has begun may refuse for a moment.
func (s *Server) Ready(ctx context.Context, ping func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("servertest: the server at %s is not ready: %w", s.Addr, err)
		}
	}
}
