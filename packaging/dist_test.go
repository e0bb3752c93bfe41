//go:build dist

// The tests of what make dist makes, by the programs that read it: make test-beside BESIDE=packages installs them.
package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"debug/macho"
	"debug/pe"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// dist is the directory that all tests look at. TestMain fills it with the build of commit.
var dist, version, commit string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "dist")
	if err != nil {
		panic(err)
	}
	dist = dir
	head, err := exec.CommandContext(context.Background(), "git", "rev-parse", "HEAD").Output()
	if err != nil {
		panic(err)
	}
	commit = strings.TrimSpace(string(head))
	p := packager{goTool: "go", ref: commit, out: dist, say: func(string) {}}
	list := strings.Split(platforms, ",")
	if err := p.run(context.Background(), list); err != nil {
		panic(err)
	}
	version = p.version
	code := m.Run()
	os.RemoveAll(dir) //nolint:errcheck // it is a temporary directory
	os.Exit(code)
}

// succeed runs a command, and returns what it prints.
func succeed(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// unpacked is the content of the Debian package for this machine.
func unpacked(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	deb := filepath.Join(dist, "holdfast_"+strings.Replace(version, "-", "~", 1)+"_"+runtime.GOARCH+".deb")
	succeed(t, root, "dpkg-deb", "--extract", deb, root)
	return root
}

// Another clone in another place, another umask, other settings of the user: the same bytes.
func TestTwoBuildsAreTheSame(t *testing.T) {
	top := strings.TrimSpace(succeed(t, ".", "git", "rev-parse", "--show-toplevel"))
	clone := filepath.Join(t.TempDir(), "another place")
	succeed(t, ".", "git", "clone", "--quiet", top, clone)
	succeed(t, clone, "git", "checkout", "--quiet", commit)
	t.Chdir(clone)
	again := t.TempDir()
	for key, value := range map[string]string{
		"TZ": "Asia/Tokyo", "GOFLAGS": "-tags=x", "CGO_ENABLED": "1", "GOAMD64": "v3", "LC_ALL": "C",
		"TMPDIR": t.TempDir(),
	} {
		t.Setenv(key, value)
	}
	defer syscall.Umask(syscall.Umask(0o077))
	p := packager{goTool: "go", ref: "HEAD", out: again, say: func(string) {}}
	assert.Must(t, p.run(t.Context(), []string{"linux/amd64", "windows/amd64"}))
	all, err := os.ReadFile(filepath.Join(dist, checksums))
	assert.Must(t, err)
	some, err := os.ReadFile(filepath.Join(again, checksums))
	assert.Must(t, err)
	lines := strings.Split(strings.TrimSpace(string(some)), "\n")
	assert.True(t, len(lines) >= 6, "only %d files: %s", len(lines), some)
	for _, line := range lines {
		assert.True(t, strings.Contains(string(all), line+"\n"), "not as before: %s", line)
	}
}

func TestTheChecksumsAreRight(t *testing.T) {
	succeed(t, dist, "sha256sum", "--check", "--strict", checksums)
}

func TestEachBinaryIsOfItsPlatform(t *testing.T) {
	for _, name := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"} {
		dir := t.TempDir()
		base := "holdfast_" + version + "_" + name
		succeed(t, dir, "tar", "-xzf", filepath.Join(dist, base+".tar.gz"))
		for _, program := range []string{"holdfast", "holdfast-verify", "holdfast-vet"} {
			info, err := buildinfo.ReadFile(filepath.Join(dir, base, program))
			assert.Must(t, err)
			said := map[string]string{}
			for _, s := range info.Settings {
				said[s.Key] = s.Value
			}
			if said["GOOS"]+"_"+said["GOARCH"] != name || said["CGO_ENABLED"] != "0" || said["-trimpath"] != "true" ||
				said["vcs.modified"] != "false" || len(said["vcs.revision"]) != 40 {
				t.Errorf("%s: %s is built with %v", name, program, said)
			}
		}
		if strings.HasPrefix(name, "darwin") {
			if _, err := macho.Open(filepath.Join(dir, base, "holdfast")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	dir := t.TempDir()
	base := "holdfast_" + version + "_windows_amd64"
	succeed(t, dir, "unzip", "-q", filepath.Join(dist, base+".zip"))
	if _, err := pe.Open(filepath.Join(dir, base, "holdfast.exe")); err != nil {
		t.Error(err)
	}
}

// dependencies are the modules that go version finds in the binaries of this machine's kind.
func dependencies(t *testing.T) (list []part) {
	t.Helper()
	dir := "linux_" + runtime.GOARCH
	said := succeed(t, dist, "go", "version", "-m", dir+"/holdfast", dir+"/holdfast-verify", dir+"/holdfast-vet")
	for _, found := range regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)`).FindAllStringSubmatch(said, -1) {
		list = append(list, part{path: found[1], version: found[2]})
	}
	assert.MustTrue(t, len(list) >= 8, "go version -m names only %d modules:\n%s", len(list), said)
	return list
}

func TestTheBillListsWhatTheBinariesName(t *testing.T) {
	dir := "linux_" + runtime.GOARCH
	list := components(t, []byte(read(t, filepath.Join(dist, "holdfast_"+version+"_"+dir+".cdx.json"))))
	want := append(dependencies(t), part{path: standard, version: strings.TrimPrefix(runtime.Version(), "go")})
	for _, p := range want {
		own := strings.HasPrefix(p.path, ours)
		if own {
			p.version = "v" + version
		}
		c, found := list[p.path+" "+p.version]
		if !found || len(c.Licenses) != 1 || c.Licenses[0].License.ID+c.Licenses[0].Expression == "" {
			t.Errorf("the bill lacks %s, or its licence: %+v", p, c)
		}
		if !own && p.path != standard && (len(c.Hashes) != 1 || len(c.Hashes[0].Content) != 64) {
			t.Errorf("the bill lacks the hash of %s: %+v", p, c)
		}
	}
	for _, name := range []string{"holdfast", "holdfast-verify", "holdfast-vet"} {
		c := list[name+" "+version]
		said := succeed(t, dist, "sha256sum", dir+"/"+name)
		assert.True(t, len(c.Hashes) == 1 && strings.HasPrefix(said, c.Hashes[0].Content+" "),
			"sha256sum says %s, the bill %+v", said, c)
	}
}

// Whoever gets a binary gets the terms of all code in it.
func TestTheTermsOfAllCodeAreWithTheBinaries(t *testing.T) {
	dir, base := t.TempDir(), "holdfast_"+version+"_linux_"+runtime.GOARCH
	succeed(t, dir, "tar", "-xzf", filepath.Join(dist, base+".tar.gz"))
	archive := read(t, filepath.Join(dir, base, notices))
	image := read(t, filepath.Join(dist, "linux_"+runtime.GOARCH, notices))
	assert.True(t, archive == image, "the archive and the directory for the Containerfile differ")
	var files []string
	for _, paragraph := range fields(t, read(t, filepath.Join(unpacked(t), "usr/share/doc/holdfast/copyright"))) {
		files = append(files, paragraph["Files"])
		assert.True(t, paragraph["Format"] != "" || paragraph["Copyright"] != "" && paragraph["License"] != "",
			"copyright lacks fields: %v", paragraph)
	}
	release := part{path: standard, version: strings.TrimPrefix(runtime.Version(), "go")}
	for _, p := range append(dependencies(t), release) {
		if strings.HasPrefix(p.path, ours) {
			continue // LICENSE
		}
		assert.Contains(t, archive, "\n"+p.String()+"/LICENSE")
		assert.True(t, slices.Contains(files, p.String()+"/*"), "copyright lacks %s", p)
	}
	for _, name := range []string{filepath.Join(dir, base), filepath.Join(dist, "linux_"+runtime.GOARCH)} {
		assert.Equal(t, read(t, filepath.Join(name, "LICENSE")), read(t, "../LICENSE"), "our licence")
	}
	windows := succeed(t, dist, "unzip", "-p", "holdfast_"+version+"_windows_amd64.zip", "*/"+notices)
	assert.Contains(t, windows, "\ngithub.com/inconshreveable/mousetrap@") // only there
	assert.False(t, strings.Contains(archive, "mousetrap"), "terms of a module that is not linked")
}

func TestTheDebianPackageRuns(t *testing.T) {
	root := unpacked(t)
	if said := succeed(t, root, "usr/bin/holdfast", "version"); !strings.HasPrefix(said, "holdfast "+version+" ") {
		t.Errorf("version says %q, want %s", said, version)
	}
	for _, want := range []string{
		"usr/share/man/man1/holdfast.1.gz", "usr/share/man/man1/holdfast-run.1.gz",
		"usr/share/bash-completion/completions/holdfast", "usr/share/zsh/vendor-completions/_holdfast",
		"usr/share/doc/holdfast/copyright", "usr/share/doc/holdfast/examples/cronjob.yaml",
	} {
		if info, err := os.Stat(filepath.Join(root, want)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", want, err)
		}
	}
	deb := filepath.Join(dist, "holdfast_"+strings.Replace(version, "-", "~", 1)+"_"+runtime.GOARCH+".deb")
	for line := range strings.Lines(succeed(t, root, "dpkg-deb", "--contents", deb)) {
		assert.True(t, strings.Contains(line, " root/root "), "not root's: %s", line)
	}
	fields := succeed(t, root, "dpkg-deb", "--field", deb, "Package", "Architecture")
	assert.True(t, strings.Contains(fields, "Package: holdfast\nArchitecture: "+runtime.GOARCH), "%s", fields)
}

// systemd reads the units as a machine with the package has them.
func TestSystemdAcceptsTheUnits(t *testing.T) {
	root := unpacked(t)
	units := filepath.Join(root, "usr/lib/systemd/system")
	for _, name := range []string{"nightly.service", "nightly.timer"} {
		text, err := os.ReadFile(filepath.Join("recipes", name))
		assert.Must(t, err)
		assert.Must(t, write(filepath.Join(units, name), text, 0o644))
	}
	assert.Must(t, write(filepath.Join(root, "usr/local/bin/nightly-report"), []byte("#!/bin/sh\n"), 0o755))
	for _, name := range []string{
		"sysinit", "basic", "multi-user", "timers", "network-online", "shutdown", "time-sync", "time-set",
	} {
		text := "[Unit]\nDescription=" + name + "\n"
		assert.Must(t, write(filepath.Join(units, name+".target"), []byte(text), 0o644))
	}
	const service = "holdfast-serve.service"
	args := []string{"verify", "--man=no", "--root=" + root, service, "nightly.service", "nightly.timer"}
	assert.Equal(t, succeed(t, root, "systemd-analyze", args...), "", "systemd says")
	wrong := strings.NewReplacer("DynamicUser=yes", "DynamicUser=perhaps")
	text, err := os.ReadFile(filepath.Join(units, service))
	assert.Must(t, err)
	assert.Must(t, write(filepath.Join(units, service), []byte(wrong.Replace(string(text))), 0o644))
	if out, _ := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput(); len(out) == 0 {
		t.Error("systemd accepts a unit with a wrong value: this test sees nothing")
	}
}

// kinds are the objects of Kubernetes that the recipes have.
func kinds(kind string) any {
	switch kind {
	case "CronJob":
		return &batchv1.CronJob{}
	case "Deployment":
		return &appsv1.Deployment{}
	case "Service":
		return &corev1.Service{}
	}
	return nil
}

// decode reads an object as a strict server does: a field that is unknown is an error.
func decode(text []byte) (any, error) {
	var what metav1.TypeMeta
	if err := yaml.Unmarshal(text, &what); err != nil {
		return nil, err
	}
	object := kinds(what.Kind)
	return object, yaml.UnmarshalStrict(text, object)
}

func TestKubernetesAcceptsTheRecipes(t *testing.T) {
	paths, err := filepath.Glob("recipes/*.yaml")
	assert.MustTrue(t, err == nil && len(paths) >= 3, "%v, %v", paths, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		assert.Must(t, err)
		for _, part := range bytes.Split(text, []byte("\n---\n")) {
			if _, err := decode(part); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			wrong := bytes.Replace(part, []byte("spec:"), []byte("spec:\n  noSuchField: 1"), 1)
			if _, err := decode(wrong); err == nil {
				t.Errorf("%s: a field that does not exist is accepted: this test sees nothing", path)
			}
		}
	}
}

// commands are the command lines of the recipes that run a job: each up to its --.
func commands(t *testing.T) map[string][]string {
	t.Helper()
	list := map[string][]string{}
	for n, found := range regexp.MustCompile(`(?m)^\S+ \S+ \S+ \S+ \S+ +root +/usr/bin/holdfast (.*) -- `).
		FindAllStringSubmatch(read(t, "recipes/holdfast.cron"), -1) {
		list["holdfast.cron "+string(rune('1'+n))] = strings.Fields(found[1])
	}
	found := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/holdfast (.*) -- `).
		FindStringSubmatch(read(t, "recipes/nightly.service"))
	list["nightly.service"] = strings.Fields(found[1])
	object, err := decode([]byte(read(t, "recipes/cronjob.yaml")))
	assert.Must(t, err)
	list["cronjob.yaml"] = object.(*batchv1.CronJob).Spec.JobTemplate.Spec.Template.Spec.Containers[0].Command[1:]
	if object, err = decode([]byte(read(t, "recipes/leader.yaml"))); err != nil {
		t.Fatal(err)
	}
	list["leader.yaml"] = object.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Command[1:]
	for name, args := range list {
		for i, arg := range args {
			if arg == "--" {
				list[name] = args[:i]
				break
			}
		}
	}
	return list
}

// Each recipe's command line runs on a real server, with a job of ours in place of its own.
func TestTheRecipesRun(t *testing.T) {
	program := filepath.Join(dist, "linux_"+runtime.GOARCH, "holdfast")
	list := commands(t)
	assert.MustTrue(t, len(list) == 5, "%d command lines, want 5: %v", len(list), list)
	for name, args := range list {
		server := redistest.Start(t) // the recipes have one job, which one of them may run
		for i, arg := range args {
			if arg == "60s" {
				args[i] = "0" // of --min-hold: the job ends at once
			}
		}
		cmd := exec.CommandContext(t.Context(), program, append(args, "--", "echo", "the job ran")...)
		cmd.Env = append(os.Environ(), "HOLDFAST_REDIS=redis://"+server.Addr())
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "the job ran") {
			t.Errorf("%s: %v: %v\n%s", name, args, err, out)
		}
	}
}

// The Containerfile is built on an empty base: the programs need nothing else.
func TestTheContainerRuns(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.json")
	assert.Must(t, os.WriteFile(policy, []byte(`{"default":[{"type":"insecureAcceptAnything"}]}`), 0o600))
	store := []string{
		"--storage-driver", "vfs", "--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"),
	}
	buildah := func(args ...string) string { return succeed(t, dir, "buildah", append(store, args...)...) }
	empty := strings.TrimSpace(buildah("from", "scratch"))
	buildah("commit", "--signature-policy", policy, empty, "base:local")
	file, err := filepath.Abs("Containerfile")
	assert.Must(t, err)
	buildah("bud", "--signature-policy", policy, "--isolation", "chroot", "--pull-never",
		"--build-arg", "BASE=localhost/base:local", "--build-arg", "TARGETARCH="+runtime.GOARCH,
		"-f", file, "-t", "holdfast", dist)
	var config struct {
		Docker struct{ Config struct{ User string } }
	}
	assert.Must(t, json.Unmarshal([]byte(buildah("inspect", "--type", "image", "holdfast")), &config))
	assert.Equal(t, config.Docker.Config.User, "65532:65532", "the container runs as")
	made := strings.TrimSpace(buildah("from", "--signature-policy", policy, "--pull-never", "localhost/holdfast"))
	said := buildah("run", "--isolation", "chroot", made, "--", "/usr/bin/holdfast", "version")
	assert.True(t, strings.Contains(said, version), "version says %q", said)
}
