// Table runs the tests of docs/lineage.md and prints one line for each: what breaks,
// whether the classic lock broke, and whether Holdfast held. It fails unless both are so
// everywhere.
//
//	cd verify && go run ./lineage/table
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// flaw is a row of the page's table.
type flaw struct{ what, test string }

var rows = regexp.MustCompile("(?m)^\\|[^|]*\\|[^|]*\\| ([^|]*) \\| \\[`(Test\\w+)`\\]")

func run(out io.Writer) error {
	page, err := os.ReadFile(filepath.Join("..", "docs", "lineage.md"))
	if err != nil {
		return fmt.Errorf("run this in the directory verify: %w", err)
	}
	var flaws []flaw
	for _, m := range rows.FindAllStringSubmatch(string(page), -1) {
		flaws = append(flaws, flaw{strings.ReplaceAll(m[1], "`", ""), m[2]})
	}
	passed, said, err := test()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "TEST\tWHAT BREAKS\tCLASSIC\tHOLDFAST")
	missing := 0
	for _, f := range flaws {
		classic, holdfast := "broken", "held"
		if !passed[f.test+"/old_way"] {
			classic = "NOT SHOWN"
		}
		if !passed[f.test+"/Holdfast"] {
			holdfast = "NOT HELD"
		}
		if classic != "broken" || holdfast != "held" {
			missing++
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", f.test, f.what, classic, holdfast)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "%d of %d: the classic lock breaks, and Holdfast holds\n", len(flaws)-missing, len(flaws))
	if missing > 0 || len(flaws) == 0 {
		return errors.New(said)
	}
	return nil
}

// test runs the tests. It returns which of them passed, and what they printed.
func test() (passed map[string]bool, said string, err error) {
	run := exec.CommandContext(context.Background(), "go", "test", "-count=1", "-json", "./lineage")
	run.Stderr = os.Stderr
	answers, err := run.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := run.Start(); err != nil {
		return nil, "", err
	}
	passed = map[string]bool{}
	var output strings.Builder
	for in := json.NewDecoder(answers); ; {
		var event struct{ Action, Test, Output string }
		if err := in.Decode(&event); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, "", err
		}
		if event.Action == "pass" {
			passed[event.Test] = true
		}
		output.WriteString(event.Output)
	}
	if err := run.Wait(); err != nil {
		if failed := new(exec.ExitError); !errors.As(err, &failed) {
			return nil, "", err
		}
	}
	return passed, output.String(), nil
}
