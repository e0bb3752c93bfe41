package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// programs are the commands of a release: the module's directory, and the package in it.
var programs = []struct{ name, module, pkg string }{
	{"holdfast", "cmd/holdfast", "."},
	{"holdfast-verify", "verify", "./holdfast-verify"},
	{"holdfast-vet", "vet", "./holdfast-vet"},
}

// packager makes the files of one release.
type packager struct {
	goTool string
	ref    string
	out    string
	say    func(line string)

	source  string // the clone
	version string // as holdfast version prints it
	date    time.Time
}

// platform is what a binary runs on.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

// program is the file of a command.
func (p platform) program(name string) string {
	if p.os == "windows" {
		return name + ".exe"
	}
	return name
}

func (p *packager) run(ctx context.Context, list []string) error {
	var chosen []platform
	for _, word := range list {
		system, arch, found := strings.Cut(word, "/")
		if !found {
			return fmt.Errorf("%q is not a platform: write linux/amd64", word)
		}
		chosen = append(chosen, platform{system, arch})
	}
	work, err := os.MkdirTemp("", "packaging")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is a temporary directory
	if err := os.MkdirAll(p.out, 0o755); err != nil {
		return err
	}
	if err := p.clone(ctx, filepath.Join(work, "source")); err != nil {
		return err
	}
	here := platform{runtime.GOOS, runtime.GOARCH}
	if err := p.build(ctx, here, filepath.Join(work, here.String())); err != nil {
		return err
	}
	texts, err := p.texts(ctx, filepath.Join(work, here.String(), here.program("holdfast")), work)
	if err != nil {
		return err
	}
	var made []string
	for _, to := range chosen {
		bin := filepath.Join(work, to.String())
		if to != here {
			if err := p.build(ctx, to, bin); err != nil {
				return err
			}
		}
		names, err := p.pack(ctx, to, bin, texts)
		if err != nil {
			return err
		}
		for _, name := range names {
			p.say(name)
		}
		made = append(made, names...)
	}
	return p.sums(made)
}

// clone gets the committed tree. It takes no tags: Go would write the nearest one into the
// binaries, and not every clone has the same.
func (p *packager) clone(ctx context.Context, dir string) error {
	top, err := output(ctx, ".", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	commit, err := output(ctx, top, nil, "git", "rev-parse", "--verify", p.ref+"^{commit}")
	if err != nil {
		return err
	}
	if _, err := output(ctx, top, nil, "git", "clone", "--quiet", "--shared", "--no-checkout", "--no-tags",
		top, dir); err != nil {
		return err
	}
	if _, err := output(ctx, dir, nil, "git", "checkout", "--quiet", "--detach", commit); err != nil {
		return err
	}
	seconds, err := output(ctx, dir, nil, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	p.source, p.date = dir, time.Unix(at, 0).UTC()
	p.version, err = versionOf(dir)
	return err
}

var versionConstant = regexp.MustCompile(`const Version = "([^"]*)"`)

// versionOf finds the version in the root package.
func versionOf(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if found := versionConstant.FindSubmatch(text); found != nil {
			return string(found[1]), nil
		}
	}
	return "", errors.New("the library has no constant Version")
}

// build builds the programs for a platform. Everything that may enter a binary is set here:
// the path of the clone is left out, the commit is named, and no C compiler takes part.
func (p *packager) build(ctx context.Context, to platform, dir string) error {
	env := []string{
		"GOOS=" + to.os, "GOARCH=" + to.arch, "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=",
	}
	for _, each := range programs {
		if _, err := output(ctx, filepath.Join(p.source, each.module), env, p.goTool, "build",
			"-trimpath", "-buildvcs=true", "-ldflags=-s -w -buildid=",
			"-o", filepath.Join(dir, to.program(each.name)), each.pkg); err != nil {
			return err
		}
	}
	return nil
}

// item is one file of an archive or a package.
type item struct {
	name string // with slashes
	data []byte
	mode os.FileMode
}

// texts are the files that are the same on every platform: the manual and the completions, as
// a program of this machine writes them, the licence, and the changelog.
func (p *packager) texts(ctx context.Context, program, work string) ([]item, error) {
	manual := filepath.Join(work, "man")
	if _, err := output(ctx, work, nil, program, "man", manual); err != nil {
		return nil, err
	}
	var list []item
	pages, err := filepath.Glob(filepath.Join(manual, "man*", "*"))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		list = append(list, item{"man/" + filepath.Base(filepath.Dir(page)) + "/" + filepath.Base(page), text, 0o644})
	}
	for shell, name := range map[string]string{"bash": "holdfast", "zsh": "_holdfast", "fish": "holdfast.fish"} {
		text, err := output(ctx, work, nil, program, "completion", shell)
		if err != nil {
			return nil, err
		}
		list = append(list, item{"completions/" + shell + "/" + name, []byte(text + "\n"), 0o644})
	}
	for _, name := range []string{"LICENSE", "CHANGELOG.md"} {
		text, err := os.ReadFile(filepath.Join(p.source, name))
		if err != nil {
			return nil, err
		}
		list = append(list, item{name, text, 0o644})
	}
	recipes, err := filepath.Glob(filepath.Join(p.source, "packaging", "recipes", "*"))
	if err != nil {
		return nil, err
	}
	for _, path := range recipes {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		list = append(list, item{"recipes/" + filepath.Base(path), text, 0o644})
	}
	slices.SortFunc(list, func(a, b item) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

// pack writes the files of one platform, and returns their names.
func (p *packager) pack(ctx context.Context, to platform, bin string, texts []item) ([]string, error) {
	var binaries []item
	for _, each := range programs {
		name := to.program(each.name)
		data, err := os.ReadFile(filepath.Join(bin, name))
		if err != nil {
			return nil, err
		}
		binaries = append(binaries, item{name, data, 0o755})
	}
	parts, err := p.parts(ctx, binaries)
	if err != nil {
		return nil, err
	}
	texts = append(slices.Clip(texts), item{notices, noticesText(parts), 0o644})
	base := "holdfast_" + p.version + "_" + to.String()
	pack, ending := tarball, ".tar.gz"
	if to.os == "windows" {
		pack, ending = zipped, ".zip"
	}
	var archive bytes.Buffer
	if err := pack(&archive, base, slices.Concat(binaries, texts), p.date); err != nil {
		return nil, err
	}
	materials, err := bill(base, p.version, p.date, binaries, parts)
	if err != nil {
		return nil, err
	}
	files := []item{{base + ending, archive.Bytes(), 0o644}, {base + ".cdx.json", materials, 0o644}}
	if to.os == "linux" {
		for _, f := range slices.Concat(binaries, texts) { // for the Containerfile
			if f.mode&0o111 != 0 || f.name == "LICENSE" || f.name == notices {
				files = append(files, item{to.String() + "/" + f.name, f.data, f.mode})
			}
		}
		name, data, err := p.debian(to.arch, slices.Concat(binaries, texts, []item{debianCopyright(parts)}))
		if err != nil {
			return nil, err
		}
		files = append(files, item{name, data, 0o644})
	}
	var names []string
	for _, f := range files {
		if err := write(filepath.Join(p.out, filepath.FromSlash(f.name)), f.data, f.mode); err != nil {
			return nil, err
		}
		names = append(names, f.name)
	}
	return names, nil
}

// parts lists what the binaries are linked with, with the licences.
func (p *packager) parts(ctx context.Context, binaries []item) ([]part, error) {
	list, err := linked(p.version, binaries)
	if err != nil {
		return nil, err
	}
	from, err := p.origin(ctx)
	if err != nil {
		return nil, err
	}
	return from.licensed(list)
}

// checksums is the file that sha256sum --check reads.
const checksums = "SHA256SUMS"

func (p *packager) sums(names []string) error {
	slices.Sort(names)
	var text strings.Builder
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(p.out, name))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		fmt.Fprintf(&text, "%s  %s\n", hex.EncodeToString(sum[:]), name)
	}
	p.say(checksums)
	return write(filepath.Join(p.out, checksums), []byte(text.String()), 0o644)
}

// output runs a command, and returns what it prints.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, bytes.TrimSpace(failed.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}
