package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// release prepares one version.
type release struct {
	version string
	today   string // the date of the release, as 2006-01-02
	check   string // the command that must succeed, for a shell
	proxy   string // where to make a module proxy; empty: nowhere
	goTool  string
	out     io.Writer

	work string // a directory of this run
}

// prepare prepares the version in the repository at dir. It works in a clone. The repository
// gets the commits and tags in one step at the end.
func (r *release) prepare(ctx context.Context, dir string) error {
	if err := checkVersion(r.version); err != nil {
		return err
	}
	modules, err := r.modules(ctx, dir)
	if err != nil {
		return err
	}
	if err := r.checkTree(ctx, dir, modules); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "holdfast-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work) //nolint:errcheck // it is temporary
	clone := filepath.Join(r.work, "clone")
	if err := r.git(ctx, dir, "clone", "--quiet", "--no-tags", dir, clone); err != nil {
		return err
	}
	for _, key := range []string{"user.name", "user.email"} { // the commits are the caller's
		if value, err := r.output(ctx, dir, nil, "git", "config", key); err == nil {
			if err := r.git(ctx, clone, "config", key, strings.TrimSpace(value)); err != nil {
				return err
			}
		}
	}
	if err := r.cutChangelog(ctx, clone); err != nil {
		return err
	}
	if err := r.testTree(ctx, dir); err != nil {
		return err
	}
	if err := r.git(ctx, clone, "branch", "changelog"); err != nil {
		return err
	}
	if err := r.link(ctx, clone, modules); err != nil {
		return err
	}
	if err := r.build(ctx, clone, modules); err != nil {
		return err
	}
	if err := r.copyProxy(); err != nil {
		return err
	}
	return r.deliver(ctx, dir, clone, modules)
}

// modules reads the published modules, each behind those that it requires.
func (r *release) modules(ctx context.Context, dir string) ([]module, error) {
	files, err := r.output(ctx, dir, nil, "git", "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		return nil, err
	}
	var all []module
	for file := range strings.FieldsSeq(files) {
		at := filepath.ToSlash(filepath.Dir(file))
		if slices.Contains(unpublished, at) || strings.Contains("/"+at+"/", "/testdata/") {
			continue
		}
		text, err := r.output(ctx, filepath.Join(dir, at), nil, r.goTool, "mod", "edit", "-json")
		if err != nil {
			return nil, err
		}
		m, err := parseModule(at, []byte(text))
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return order(all)
}

// checkTree refuses a tree with changes, and tags that exist.
func (r *release) checkTree(ctx context.Context, dir string, modules []module) error {
	changes, err := r.output(ctx, dir, nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("the tree has changes; commit or stash them first:\n%s", strings.TrimRight(changes, "\n"))
	}
	for _, m := range modules {
		found, err := r.output(ctx, dir, nil, "git", "tag", "--list", m.tag(r.version))
		if err != nil {
			return err
		}
		if found != "" {
			return fmt.Errorf("there is already a tag %s. A version never changes: take the next one",
				strings.TrimSpace(found))
		}
	}
	return nil
}

// cutChangelog commits the changelog's part of the version.
func (r *release) cutChangelog(ctx context.Context, clone string) error {
	file := filepath.Join(clone, "CHANGELOG.md")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := cut(string(text), r.version, r.today)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(changed), 0o644); err != nil { //nolint:gosec // a page for all
		return err
	}
	if err := setVersion(clone, next(r.version)); err != nil {
		return err
	}
	return r.git(ctx, clone, "commit", "--quiet", "--all", "--message", "changelog: "+r.version)
}

// setVersion sets the constant Version, and the listing of the API that has it.
func setVersion(clone, version string) error {
	for _, name := range []string{"doc.go", "internal/repocheck/testdata/api/holdfast.txt"} {
		file := filepath.Join(clone, filepath.FromSlash(name))
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !versionConstant.Match(text) {
			return fmt.Errorf("%s has no constant Version", name)
		}
		text = versionConstant.ReplaceAll(text, []byte(`const Version = "`+version+`"`))
		if err := os.WriteFile(file, text, 0o644); err != nil { //nolint:gosec // a file for all
			return err
		}
	}
	return nil
}

// testTree runs the check in the repository, and refuses a tree that is red or that the check
// has changed.
func (r *release) testTree(ctx context.Context, dir string) error {
	if r.check == "" {
		return nil
	}
	r.sayf("checking the tree: %s", r.check)
	cmd := exec.CommandContext(ctx, "sh", "-c", r.check)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, r.out, r.out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the tree is red: %q failed: %w", r.check, err)
	}
	return r.checkTree(ctx, dir, nil)
}

// link makes the commit of the released tree, and its tags. The sum of a module is known once
// its tag exists, and the files of its go.sum are part of the sums of others. So the modules
// follow one another, and the last commit takes the place of those before it: it does not
// change the files of the modules that are linked already.
func (r *release) link(ctx context.Context, clone string, modules []module) error {
	if err := setVersion(clone, strings.TrimPrefix(r.version, "v")); err != nil {
		return err
	}
	for i, m := range modules {
		r.sayf("linking %s", m.tag(r.version))
		if err := r.rewrite(ctx, clone, m); err != nil {
			return err
		}
		if err := r.git(ctx, clone, "add", "--all"); err != nil { // a go.sum may be new
			return err
		}
		commit := []string{
			"commit", "--quiet", "--message",
			"release: " + r.version + "\n\nEach module requires the released versions of the others.",
		}
		if i > 0 {
			commit = append(commit, "--amend")
		}
		if err := r.git(ctx, clone, commit...); err != nil {
			return err
		}
		for _, done := range modules[:i+1] {
			tag := done.tag(r.version)
			if err := r.git(ctx, clone, "tag", "--force", "--annotate", "--message", tag, tag); err != nil {
				return err
			}
		}
	}
	return nil
}

// rewrite makes a module require the released versions of the others, in go.mod and go.sum.
func (r *release) rewrite(ctx context.Context, clone string, m module) error {
	edit := []string{"mod", "edit"}
	for _, old := range m.replaces {
		edit = append(edit, "-dropreplace="+old)
	}
	for _, dir := range m.needs {
		edit = append(edit, "-require="+module{dir: dir}.path()+"@"+r.version)
	}
	if len(edit) == 2 {
		return nil
	}
	at := filepath.Join(clone, m.dir)
	if _, err := r.output(ctx, at, nil, r.goTool, edit...); err != nil {
		return err
	}
	if err := r.dropReason(filepath.Join(at, "go.mod")); err != nil {
		return err
	}
	_, err := r.output(ctx, at, r.environment(ctx, clone), r.goTool, "mod", "tidy")
	return err
}

// dropReason removes the comment that says why there were replacements.
func (r *release) dropReason(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, _, found := strings.Cut(string(text), "\n// Nothing is published yet")
	if !found {
		return nil
	}
	return os.WriteFile(file, []byte(strings.TrimRight(head, "\n")+"\n"), 0o644) //nolint:gosec // a file for all
}

// build builds every published module from the tags alone, as its users will.
func (r *release) build(ctx context.Context, clone string, modules []module) error {
	for _, m := range modules {
		r.sayf("building %s from the tags", m.tag(r.version))
		_, err := r.output(ctx, filepath.Join(clone, m.dir), r.environment(ctx, clone),
			r.goTool, "build", "-buildvcs=false", "-mod=readonly", "-o", os.DevNull, "./...")
		if err != nil {
			return err
		}
		_, err = r.output(ctx, r.work, r.environment(ctx, clone), r.goTool, "mod", "download", m.path()+"@"+r.version)
		if err != nil {
			return err
		}
	}
	return nil
}

// environment makes the go command take the modules of this repository from the clone's tags,
// and all others as ever. It has a module cache of its own: a version that was only prepared
// must not stay in the user's.
func (r *release) environment(ctx context.Context, clone string) []string {
	cache, _ := r.output(ctx, clone, nil, r.goTool, "env", "GOMODCACHE") // empty: nothing is cached
	proxy, _ := r.output(ctx, clone, nil, r.goTool, "env", "GOPROXY")
	return []string{
		"GOWORK=off",
		"GOFLAGS=-modcacherw -trimpath", // without the paths of this run, packages compiled before are found
		"GOMODCACHE=" + r.cache(),
		"GOPROXY=file://" + filepath.ToSlash(strings.TrimSpace(cache)) + "/cache/download," + strings.TrimSpace(proxy),
		"GONOPROXY=" + modulePath,
		"GONOSUMDB=" + modulePath,
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url.file://" + filepath.ToSlash(clone) + ".insteadOf",
		"GIT_CONFIG_VALUE_0=https://" + modulePath,
	}
}

// cache is the module cache of this run.
func (r *release) cache() string { return filepath.Join(r.work, "cache") }

// copyProxy copies the modules of this repository from the module cache, which has the form of
// a proxy.
func (r *release) copyProxy() error {
	if r.proxy == "" {
		return nil
	}
	from, to := filepath.Join(r.cache(), "cache", "download"), r.proxy
	below := filepath.FromSlash(filepath.Dir(modulePath))
	r.sayf("a module proxy is in %s", to)
	return os.CopyFS(filepath.Join(to, below), os.DirFS(filepath.Join(from, below)))
}

// deliver brings the commits and the tags into the repository, all or none, and says how to
// publish them.
func (r *release) deliver(ctx context.Context, dir, clone string, modules []module) error {
	branch, err := r.output(ctx, dir, nil, "git", "symbolic-ref", "--short", "HEAD")
	if err != nil {
		return fmt.Errorf("a release begins on a branch: %w", err)
	}
	// The branch comes first. If it has moved since, the merge fails and nothing has changed.
	if err := r.git(ctx, dir, "fetch", "--quiet", "--no-tags", clone, "changelog"); err != nil {
		return err
	}
	if err := r.git(ctx, dir, "merge", "--quiet", "--ff-only", "FETCH_HEAD"); err != nil {
		return err
	}
	tags := []string{"fetch", "--quiet", "--atomic", "--no-tags", clone}
	push := []string{"git push --atomic origin " + strings.TrimSpace(branch)}
	for _, m := range modules {
		tag := m.tag(r.version)
		tags = append(tags, "refs/tags/"+tag+":refs/tags/"+tag)
		push = append(push, tag)
	}
	if err := r.git(ctx, dir, tags...); err != nil {
		return errors.Join(err, r.git(ctx, dir, "reset", "--quiet", "--keep", "HEAD~1"))
	}
	r.sayf("%s is prepared: %d tags. Nothing is published yet. To publish it:\n  %s",
		r.version, len(modules), strings.Join(push, " \\\n    "))
	return nil
}

func (r *release) sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, "release: "+format+"\n", args...)
}

func (r *release) git(ctx context.Context, dir string, args ...string) error {
	_, err := r.output(ctx, dir, nil, "git", args...)
	return err
}

// output runs a program and returns what it prints. An error has what the program complained of.
func (r *release) output(
	ctx context.Context, dir string, env []string, program string, args ...string,
) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	text, err := cmd.Output()
	if err != nil {
		err = errors.Join(fmt.Errorf("%s in %s: %w", strings.Join(cmd.Args, " "), dir, err),
			errors.New(strings.TrimSpace(complaint.String())))
	}
	return string(text), err
}
