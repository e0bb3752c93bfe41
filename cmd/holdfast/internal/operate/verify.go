package operate

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

const verifyLong = `verify starts client processes that use the locks in every way, and injects faults into
them and their servers. Then it checks the promises of docs/guarantees.md against the
servers' own record, and prints a verdict.

The fault suite is a command of its own, holdfast-verify, because it is larger than all
the rest. verify runs it with the same arguments and exits with its exit code. It looks
for it beside holdfast, then on PATH. holdfast verify --help lists its flags.`

// SuiteProgram is the command that has the fault suite.
const SuiteProgram = "holdfast-verify"

// NewVerify makes holdfast verify.
func NewVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify [flags]",
		Short: "Try to break the locks, and report which promises were kept",
		Long:  verifyLong,
		Example: `  holdfast verify                               on its own server, for a minute
  holdfast verify --topology cluster --duration 10m --html report.html
  holdfast verify --redis redis://staging:6379  on your server, after asking`,
		DisableFlagParsing: true, // the flags are those of the suite
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := findSuite()
			if err != nil {
				return err
			}
			code, err := proc.Become(path, append([]string{SuiteProgram}, args...), os.Environ())
			if err != nil {
				return exit.With(proc.StartCode(err), fmt.Errorf("%s: %w", path, err), "")
			}
			return exit.Silent(code)
		},
	}
}

// findSuite is the path of holdfast-verify.
func findSuite() (string, error) {
	name := SuiteProgram
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if byGoRun(self) {
		return buildSuite(name)
	}
	beside := []string{filepath.Join(filepath.Dir(self), name)}
	if target, err := filepath.EvalSymlinks(self); err == nil {
		beside = append(beside, filepath.Join(filepath.Dir(target), name))
	}
	for _, path := range beside {
		if isFile(path) {
			return path, nil
		}
	}
	if path, err := exec.LookPath(SuiteProgram); err == nil {
		return path, nil
	}
	return "", exit.With(exit.CodeNotFound,
		fmt.Errorf("%s is neither beside holdfast nor on PATH", SuiteProgram),
		"in a clone of the repository, make build puts both into bin/, and go run ./cmd/holdfast verify needs neither")
}

// byGoRun says whether this program is one that go run has built: it lies in a directory of
// the go command, and nothing is beside it.
func byGoRun(self string) bool {
	dir, file := filepath.Split(filepath.ToSlash(self))
	if strings.TrimSuffix(file, ".exe") != "holdfast" {
		return false // a test
	}
	return slices.ContainsFunc(strings.Split(dir, "/"), func(part string) bool {
		return strings.HasPrefix(part, "go-build")
	})
}

// buildSuite builds holdfast-verify from the repository in which the user has started go run.
func buildSuite(name string) (string, error) {
	const hint = "run go run ./cmd/holdfast verify in the repository"
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for !isFile(filepath.Join(root, "verify", SuiteProgram, "main.go")) {
		if root == filepath.Dir(root) {
			return "", exit.With(exit.CodeNotFound, errors.New("the source of "+SuiteProgram+" is not here"), hint)
		}
		root = filepath.Dir(root)
	}
	path := filepath.Join(root, "bin", name)
	build := exec.Command("go", "build", "-o", path, "./verify/"+SuiteProgram) //nolint:noctx // a signal ends both
	build.Dir, build.Stderr = root, os.Stderr
	if err := build.Run(); err != nil {
		return "", exit.With(exit.CodeNotFound, fmt.Errorf("building %s: %w", SuiteProgram, err), hint)
	}
	return path, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
