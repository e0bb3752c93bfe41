package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const version = "v0.1.0"

// What the user's git does with commits is no matter of these tests: it may sign them, and call hooks. In a
// hook of git, its environment also names the repository, and the tests would write there.
func TestMain(m *testing.M) {
	for _, name := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"} {
		os.Unsetenv(name)
	}
	count, _ := strconv.Atoi(os.Getenv("GIT_CONFIG_COUNT")) // without one: 0
	for _, c := range [][2]string{
		{"commit.gpgSign", "false"}, {"tag.gpgSign", "false"}, {"core.hooksPath", os.DevNull},
	} {
		os.Setenv("GIT_CONFIG_KEY_"+strconv.Itoa(count), c[0])
		os.Setenv("GIT_CONFIG_VALUE_"+strconv.Itoa(count), c[1])
		count++
	}
	os.Setenv("GIT_CONFIG_COUNT", strconv.Itoa(count))
	os.Exit(m.Run())
}

// repository is a repository of a test, with one commit on the branch main.
type repository struct {
	t   *testing.T
	dir string
}

func (r repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	text, err := cmd.CombinedOutput()
	assert.MustTrue(r.t, err == nil, "git %v: %v\n%s", args, err, text)
	return strings.TrimSpace(string(text))
}

func (r repository) write(file, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, file)
	assert.Must(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.Must(r.t, os.WriteFile(path, []byte(text), 0o644))
}

func (r repository) commit() {
	r.t.Helper()
	r.git("init", "--quiet", "--initial-branch", "main")
	r.git("config", "user.name", "a tester")
	r.git("config", "user.email", "tester@example.com")
	r.git("add", "--all")
	r.git("commit", "--quiet", "--message", "all")
}

// small is a repository with two published modules, and one that is not.
func small(t *testing.T) repository {
	r := repository{t, t.TempDir()}
	r.write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n- All is new.\n")
	r.write("LICENSE", "free\n")
	r.write("go.mod", "module "+modulePath+"\n\ngo 1.25.0\n")
	r.write("doc.go", "package holdfast\n\nconst Version = \"0.0.1-dev\"\n")
	r.write("internal/repocheck/testdata/api/holdfast.txt", "const Version = \"0.0.1-dev\"\n")
	r.write("store/goredis/go.mod", "module "+modulePath+"/store/goredis\n\ngo 1.25.0\n\n"+
		"require "+modulePath+" v0.0.0\n\n"+
		"// Nothing is published yet: it is beside this one.\nreplace "+modulePath+" => ../..\n")
	r.write("store/goredis/goredis.go", "package goredis\n\nimport _ \""+modulePath+"\"\n")
	r.write("bench/go.mod", "module "+modulePath+"/bench\n\ngo 1.25.0\n")
	r.commit()
	return r
}

// prepare prepares a version in the repository, and returns what the program says.
func (r repository) prepare(change func(*release)) (string, error) {
	r.t.Helper()
	var said bytes.Buffer
	made := release{version: version, today: "2026-11-24", goTool: "go", out: &said}
	if change != nil {
		change(&made)
	}
	err := made.prepare(r.t.Context(), r.dir)
	return said.String(), err
}

// A release cuts the changelog on the branch. Its tags have no replace, and sums of each other.
func TestReleasePreparesTagsAndPublishesNothing(t *testing.T) {
	t.Parallel()
	r := small(t)
	said, err := r.prepare(func(made *release) { made.check = "echo all is green" })
	assert.Must(t, err)
	for _, want := range []string{"all is green", "git push --atomic origin main", "store/goredis/" + version} {
		assert.True(t, strings.Contains(said, want), "the release does not say %q:\n%s", want, said)
	}
	assert.EqualSlices(t, strings.Fields(r.git("tag")), []string{"store/goredis/" + version, version}, "the tags")
	assert.Equal(t, r.git("log", "--format=%s", "main"), "changelog: v0.1.0\nall", "the branch has")
	if page := r.git("show", "main:CHANGELOG.md"); !strings.HasSuffix(page,
		"## [Unreleased]\n\n## [0.1.0] - 2026-11-24\n\n- All is new.") {
		t.Errorf("the changelog says:\n%s", page)
	}
	for ref, want := range map[string]string{"main": "0.2.0-dev", version: "0.1.0"} {
		if file := r.git("show", ref+":doc.go"); !strings.Contains(file, "const Version = \""+want+"\"") {
			t.Errorf("at %s, doc.go says:\n%s\nwant version %s", ref, file, want)
		}
	}
	file := r.git("show", "store/goredis/"+version+":store/goredis/go.mod")
	if strings.Contains(file, "replace") || strings.Contains(file, "//") ||
		!strings.Contains(file, "require "+modulePath+" v0.1.0") {
		t.Errorf("the released go.mod says:\n%s", file)
	}
	sums := r.git("show", version+":store/goredis/go.sum")
	assert.True(t, strings.Contains(sums, modulePath+" v0.1.0 h1:"), "the released go.sum says:\n%s", sums)
	file = r.git("show", "main:store/goredis/go.mod")
	assert.True(t, strings.Contains(file, "replace"), "on the branch go.mod says:\n%s", file)
	assert.Equal(t, r.git("status", "--porcelain"), "", "the changes that the release leaves")
}

// A refused release says why, and leaves the repository as it was.
func TestRefusedReleaseChangesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		before     func(repository)
		change     func(*release)
	}{
		{"dirty tree", "the tree has changes", func(r repository) { r.write("new.go", "package holdfast\n") }, nil},
		{"red tree", "the tree is red", nil, func(made *release) { made.check = "false" }},
		{"check that leaves files", "the tree has changes", nil, func(made *release) { made.check = "touch left" }},
		{"no version", "is not a version", nil, func(made *release) { made.version = "0.1.0" }},
		{"second major version", "module paths", nil, func(made *release) { made.version = "v2.0.0" }},
		{"version that exists", "A version never changes", func(r repository) {
			r.git("tag", "store/goredis/"+version)
		}, nil},
		{"empty changelog", "says nothing about this version", func(r repository) {
			r.write("CHANGELOG.md", "## [Unreleased]\n\n## [0.0.9]\n\n- Old.\n")
			r.git("commit", "--quiet", "--all", "--message", "empty")
		}, nil},
		{"no branch", "begins on a branch", func(r repository) { r.git("checkout", "--quiet", "--detach") }, nil},
		{"needs what is not published", "not published", func(r repository) {
			r.write("go.mod", "module "+modulePath+"\n\ngo 1.25.0\n\nrequire "+modulePath+"/bench v0.0.0\n")
			r.git("commit", "--quiet", "--all", "--message", "needs bench")
		}, nil},
		{"does not build from its tags", "goredis.go", func(r repository) {
			r.write("store/goredis/goredis.go", "package goredis\n\nvar _ = missing\n")
			r.git("commit", "--quiet", "--all", "--message", "broken")
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := small(t)
			if c.before != nil {
				c.before(r)
			}
			refs := r.git("show-ref", "--head")
			if _, err := r.prepare(c.change); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want an error with %q", err, c.want)
			}
			now := r.git("show-ref", "--head")
			assert.True(t, now == refs, "the repository changed from\n%s\nto\n%s", refs, now)
		})
	}
}

// After a release the branch is the next one in development.
func TestNextVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v0.1.0": "0.2.0-dev", "v0.1.3": "0.2.0-dev", "v1.9.0": "1.10.0-dev",
		"v0.2.0-rc.1": "0.2.0-dev", "v0.2.1-rc.1": "0.2.1-dev",
	} {
		assert.Equal(t, next(version), want, "after %s comes", version)
	}
}

// A module is published, or it is in the list of those that are not.
func TestEveryModuleIsPublishedOrSaysThatItIsNot(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	assert.Must(t, err)
	r := release{goTool: "go"}
	modules, err := r.modules(t.Context(), root)
	assert.Must(t, err)
	var got []string
	for _, m := range modules {
		got = append(got, m.dir)
	}
	slices.Sort(got)
	want := []string{
		".", "cmd/holdfast", "fence/s3fence",
		"integrate/certmagiclock", "integrate/cronlock", "integrate/gocronlock", "observe/otel", "observe/prom",
		"store/goredis", "store/rueidis", "verify", "vet",
	}
	assert.True(t, slices.Equal(got, want), "published: %v; want %v", got, want)
	for _, dir := range unpublished {
		assert.NoError(t, assert.Err(os.Stat(filepath.Join(root, dir, "go.mod"))))
	}
}

// The whole repository is released without publishing. Then the commands and the program of the
// README run, in empty directories, with nothing but that release and the modules of others.
func TestReadmeFromAnEmptyDirectory(t *testing.T) {
	t.Parallel()
	r := copyOfThis(t)
	proxy := t.TempDir()
	said, err := r.prepare(func(made *release) { made.proxy = proxy })
	assert.MustTrue(t, err == nil, "%v\n%s", err, said)
	page := r.git("show", "main:README.md")
	_, page, _ = strings.Cut(page, "\n## Install\n")
	page, _, _ = strings.Cut(page, "\n## ")
	blocks := strings.Split(page, "```")
	assert.MustTrue(t, len(blocks) == 7,
		"Install has %d blocks of code; want 3: commands for today, a program, commands for a release", len(blocks)/2)
	workspace, _ := strings.CutPrefix(blocks[1], "sh\n")
	program, _ := strings.CutPrefix(blocks[3], "go\n")
	commands, _ := strings.CutPrefix(blocks[5], "sh\n")
	// The tests of the tool build it, too.
	workspace, _, _ = strings.Cut(workspace, "(cd ../holdfast && make build)")

	const address = "127.0.0.1:6379"
	assert.MustTrue(t, strings.Contains(program, address) && strings.Contains(program, "5 * time.Second"),
		"the program has no server at %s, or it does not wait 5 s", address)
	server := redistest.Start(t)
	program = strings.Replace(program, address, server.Addr(), 1)
	program = strings.Replace(program, "5 * time.Second", "0", 1)
	u := newUser(t, proxy, r.dir)

	const works = "only one process at a time is here\n"
	write := "\ncat >main.go <<'END'\n" + program + "END\ngo run .\n"
	assert.Equal(t, u.run(commands+write), works, "the program of the released version prints")
	rueidis := "mkdir rueidis && cd rueidis && go mod init rueidis && " +
		"go get " + modulePath + "/store/rueidis@latest && go list -m -f '{{.Version}}' " + modulePath
	assert.Equal(t, u.run(rueidis), version+"\n", "the adapter for rueidis brings version")
	tool := "holdfast version && holdfast run --redis " + server.Addr() + " nightly -- echo it ran"
	prints := "holdfast " + strings.TrimPrefix(version, "v") + " "
	if got := u.run(tool); !strings.HasPrefix(got, prints) || !strings.HasSuffix(got, "it ran\n") {
		t.Errorf("the installed tool prints:\n%s", got)
	}
	assert.Equal(t, newUser(t, proxy, r.dir).run(workspace+write), works, "the program beside a clone prints")
}

// copyOfThis is a repository with the files of this one as they are now.
func copyOfThis(t *testing.T) repository {
	t.Helper()
	r := repository{t, t.TempDir()}
	list := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	root := filepath.Join("..", "..")
	list.Dir = root
	files, err := list.Output()
	assert.Must(t, err)
	for file := range strings.SplitSeq(strings.TrimRight(string(files), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, file))
		if os.IsNotExist(err) {
			continue // it is deleted, and the deletion not committed
		}
		assert.Must(t, err)
		if file == "CHANGELOG.md" { // which may say nothing yet of the next version
			text = bytes.Replace(text, []byte(unreleased), []byte(unreleased+"\n- Tried.\n"), 1)
		}
		r.write(file, string(text))
	}
	r.commit()
	return r
}

// user is somebody with an empty directory, the release's proxy and the modules of others.
type user struct {
	t   *testing.T
	dir string
	env []string
}

func newUser(t *testing.T, proxy, clone string) user {
	t.Helper()
	here := func(name string) string {
		text, err := exec.Command("go", "env", name).Output()
		assert.Must(t, err)
		return strings.TrimSpace(string(text))
	}
	dir, cache, bin := t.TempDir(), t.TempDir(), t.TempDir()
	return user{t, dir, append(os.Environ(),
		"GOWORK=", "GOFLAGS=-modcacherw -trimpath -buildvcs=false", "GOMODCACHE="+cache, "GOBIN="+bin,
		"GOPROXY=file://"+proxy+",file://"+here("GOMODCACHE")+"/cache/download,"+here("GOPROXY"),
		"GONOSUMDB="+modulePath, "GONOPROXY=none", "GOPRIVATE=",
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+clone+".insteadOf",
		"GIT_CONFIG_VALUE_0=https://"+modulePath,
	)}
}

// run runs commands in a shell, and returns their standard output.
func (u user) run(commands string) string {
	u.t.Helper()
	cmd := exec.CommandContext(u.t.Context(), "sh", "-ec", commands)
	cmd.Dir, cmd.Env = u.dir, u.env
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	text, err := cmd.Output()
	assert.MustTrue(u.t, err == nil, "%v\n%s\n%s\nThe commands were:\n%s", err, text, complaint.String(), commands)
	return string(text)
}
