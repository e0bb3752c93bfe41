package hold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
)

// savedTerm is what a state file has: the term of a leader, for the time after a restart. A
// later format may add fields under the same number, if an older holdfast may ignore them.
type savedTerm struct {
	Format   int    `json:"format"`
	Election string `json:"election"`
	Prefix   string `json:"prefix"`
	HolderID string `json:"holder_id"`
	Term     string `json:"term"`
	Lock     string `json:"lock"` // the identity of the lock file, see proc.Identity; empty: unknown
}

const (
	stateFormat = 1
	// maxState bounds a state file. A name has up to 512 bytes, and JSON may need six for each.
	maxState = 16 << 10
	// dying is the time that a killed process may take to end.
	dying = time.Second
	// guardianTime is the longest time that a guardian takes to end a command: the longest
	// default of --kill-after, and what it then spends on processes that do not end.
	guardianTime = maxGrace + 15*time.Second
)

// stateFile is the file of --state. Its lock is on a file of its own, because FILE is replaced
// at each change. The guardian of the command keeps the lock, too. So the process that gets the
// lock knows that the former leader has ended, and that its command was ended.
type stateFile struct {
	path     string
	lock     *os.File
	identity string     // of the lock
	saved    *savedTerm // the term to resume; nil: none
	leads    bool       // the file has our own term
}

// badState is a mistake about the file, which was left as it is.
func badState(hint, format string, args ...any) error {
	return exit.Usage("--state: "+fmt.Sprintf(format, args...), hint)
}

// openState locks the file and reads it. It returns the signal that ended the wait for a
// guardian that is still at work, if one did.
func (r *session) openState(path, prefix string) (*stateFile, os.Signal, error) {
	s := &stateFile{path: path}
	sig, err := s.acquire(r)
	if err == nil && sig == nil {
		err = s.read(r.names[0], prefix)
	}
	if err == nil && sig == nil {
		err = s.tryToWrite()
	}
	if err != nil || sig != nil {
		s.close()
		return nil, sig, err
	}
	return s, nil, nil
}

// openLock opens the file of the lock, or makes it. It changes no file but one that it has made: a link to a file
// of somebody else is not followed, and what has other contents than such a file is left as it is.
func (s *stateFile) openLock() error {
	name := s.path + ".lock"
	var err error
	if s.lock, err = proc.OpenOwn(name, os.O_RDWR|os.O_CREATE); err != nil {
		return s.unwritable(err)
	}
	if pid, err := s.user(); err != nil || pid < 0 {
		return badState("give --state another FILE, or remove "+name+" if nobody needs it",
			"%s is not the lock file of a state file", name)
	}
	return nil
}

// acquire gets the lock of the file. If the process that used the file has ended, it waits for
// that one's guardian.
func (s *stateFile) acquire(r *session) (os.Signal, error) {
	if err := s.openLock(); err != nil {
		return nil, err
	}
	const step = 20 * time.Millisecond
	told := false
	for waited := time.Duration(0); ; waited += step {
		mine, err := proc.Lock(s.lock)
		switch {
		case err != nil:
			return nil, badState("put the file on a file system that supports file locks",
				"cannot lock %s.lock: %v", s.path, err)
		case mine:
			s.identity = proc.Identity(s.lock)
			err = s.lock.Truncate(0)
			if err == nil {
				_, err = s.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
			}
			if err != nil {
				return nil, s.unwritable(err)
			}
			return nil, nil
		}
		pid, _ := s.user()
		pid = max(pid, 0)
		runs := pid == 0 || proc.Runs(pid)
		switch {
		case runs && waited >= dying:
			return nil, exit.With(int(r.busyCode),
				fmt.Errorf("--state: another holdfast elect%s is using %s", processText(pid), s.path),
				"give each process a file of its own, or end the other process first")
		case waited >= guardianTime:
			return nil, exit.With(int(r.busyCode),
				fmt.Errorf("--state: %s is still locked, by the guardian of process %d", s.path, pid),
				"end what is left of the command (ps shows the guardian as lock-guardian), and try again")
		case !runs && !told && waited >= dying:
			told = true
			r.say.Noticef("holdfast (process %d) has ended; waiting for its command to end", pid)
		}
		if sig := r.sleep(step); sig != nil {
			return sig, nil
		}
	}
}

// user is the process that has the lock, as it has written into the lock file; 0: not known, -1: the file has
// something else. It reads by the open file: the name may be that of another file now.
func (s *stateFile) user() (int, error) {
	text, err := io.ReadAll(io.NewSectionReader(s.lock, 0, maxState))
	if err != nil || len(text) == 0 {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSuffix(string(text), "\n"))
	if err != nil || pid < 1 || len(text) > len("18446744073709551615\n") {
		return -1, nil //nolint:nilerr // the contents are the answer
	}
	return pid, nil
}

func processText(pid int) string {
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

func (s *stateFile) unwritable(err error) error {
	if errors.Is(err, proc.ErrNotOwn) {
		return badState("name a file that holdfast makes", "%s.lock is not a regular file", s.path)
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return badState("name a file in a directory that this user may write to: holdfast also makes "+
		filepath.Base(s.path)+".lock there", "cannot write %s: %v", s.path, err)
}

// read reads the file. It accepts nothing that it would not have written.
func (s *stateFile) read(election, prefix string) error {
	f, err := proc.OpenOwn(s.path, os.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, proc.ErrNotOwn):
		return badState("name a file that holdfast makes", "%s is not a regular file", s.path)
	}
	const own = "name another file; or, if nobody needs this one, remove it; holdfast then starts a new campaign"
	var text []byte
	if err == nil {
		defer f.Close() //nolint:errcheck // it was read only
		text, err = io.ReadAll(io.LimitReader(f, maxState+1))
	}
	if err != nil {
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			err = path.Err
		}
		return badState("let this user read and write the file, or name another one", "cannot read %s: %v", s.path, err)
	}
	var saved savedTerm
	if len(text) == 0 {
		return badState(own, "%s is empty", s.path)
	}
	if json.Unmarshal(text, &saved) != nil || saved.Format < 1 || len(text) > maxState {
		return badState(own, "%s is not a state file of holdfast elect, or is damaged", s.path)
	}
	switch term, err := strconv.ParseUint(saved.Term, 10, 64); {
	case saved.Format != stateFormat:
		return badState("use the newer holdfast, or name another file", "%s was written by a newer holdfast", s.path)
	case err != nil || term == 0 || !strings.Contains(saved.HolderID, "/") || saved.Election == "":
		return badState(own, "%s is not a state file of holdfast elect, or is damaged", s.path)
	case saved.Election != election || saved.Prefix != prefix:
		return badState("give each election a file of its own", "%s belongs to the election %q (prefix %q)",
			s.path, saved.Election, saved.Prefix)
	}
	s.saved = &saved
	return nil
}

// tryToWrite finds out before the election whether the term can be saved then.
func (s *stateFile) tryToWrite() error {
	f, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".*")
	if err != nil {
		return s.unwritable(err)
	}
	f.Close()           //nolint:errcheck // nothing was written
	os.Remove(f.Name()) //nolint:errcheck // nothing is in it
	return nil
}

// save writes the term of a leadership. When it returns, the term survives a crash of the
// machine. After an error the file is as it was.
func (s *stateFile) save(election, prefix string, l *holdfast.Leadership) error {
	text, err := screen.JSON(savedTerm{
		stateFormat, election, prefix, l.HolderID(), tokenText(l.Token()), s.identity,
	})
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".*") // mode 0600
	if err != nil {
		return s.unwritable(err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.path)
	}
	if err != nil {
		os.Remove(f.Name()) //nolint:errcheck // the first error tells more
		return s.unwritable(err)
	}
	s.leads, s.saved = true, nil
	s.syncDirectory()
	return nil
}

// syncDirectory makes the name durable. Not every system can; without it, a crash of the machine may
// bring the file before back, whose term is over.
func (s *stateFile) syncDirectory() {
	if dir, err := os.Open(filepath.Dir(s.path)); err == nil {
		dir.Sync()  //nolint:errcheck // see above
		dir.Close() //nolint:errcheck // it was read only
	}
}

// forget removes the file, because its term is over.
func (s *stateFile) forget(r *session) {
	s.saved, s.leads = nil, false
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.say.Warnf("remove it by hand; it does no harm: its term is over", "cannot remove the state file: %v", err)
	}
	s.syncDirectory()
}

func (s *stateFile) close() {
	if s.lock != nil {
		s.lock.Close() //nolint:errcheck // the lock goes with it
	}
}

// lead becomes leader: it resumes the saved term, or campaigns. It saves the new term before
// it returns.
func (o *electOptions) lead(ctx context.Context, r *session, e *holdfast.Election) (*holdfast.Leadership, error) {
	s := r.state
	if s == nil {
		return e.Campaign(ctx, o.value)
	}
	l, err := o.resume(ctx, r, e)
	if err == nil && l == nil {
		l, err = e.Campaign(ctx, o.value)
	}
	if err != nil {
		return nil, err
	}
	if err := s.save(o.names[0], r.prefix, l); err != nil {
		limited, cancel := r.closing()
		defer cancel()
		_ = l.Release(limited) // if it fails, closing the client is the second try
		return nil, err
	}
	return l, nil
}

// resume goes on with the saved term. It returns nil and nil if there is none, or if it is over.
func (o *electOptions) resume(ctx context.Context, r *session, e *holdfast.Election) (*holdfast.Leadership, error) {
	s := r.state
	if s.saved == nil {
		return nil, nil //nolint:nilnil // there is nothing to resume
	}
	term, err := strconv.ParseUint(s.saved.Term, 10, 64)
	if err != nil {
		return nil, err
	}
	if r.limited {
		// The wait for the former lease is not a wait for others, so --wait does not limit it.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.wait)+time.Duration(r.ttl)+target.CloseTimeout)
		defer cancel()
	}
	goOn := e.ResumeAtOnce
	if s.identity == "" || s.saved.Lock != s.identity {
		goOn = e.Resume
		r.say.Noticef("%q: waiting to resume term %d until its former lease would have ended", o.names[0], term)
	}
	l, err := goOn(ctx, s.saved.HolderID, term)
	if errors.Is(err, holdfast.ErrNotHeld) {
		r.say.Infof("%q: term %d is over, so holdfast campaigns", o.names[0], term)
		s.forget(r)
		return nil, nil //nolint:nilnil // there is nothing to resume
	}
	if err != nil {
		return nil, err
	}
	r.say.Infof("%q: resumed term %d as term %d", o.names[0], term, l.Token())
	for l.Value() != o.value {
		err := l.Proclaim(ctx, o.value)
		if err == nil {
			break
		}
		if l.Err() != nil || ctx.Err() != nil || exit.Of(err) != exit.CodeUnreachable || r.pause(ctx) {
			limited, cancel := r.closing()
			_ = l.Release(limited) // as above
			cancel()
			return nil, err
		}
	}
	return l, nil
}

// pause waits a moment before the next try. It reports whether ctx has ended.
func (r *session) pause(ctx context.Context) (ended bool) {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-ctx.Done():
		return true
	}
}
