// Command chart turns the output of go test -bench into figures.json, plots
// and the tables of a page.
//
//	go run ./chart -into ../docs/benchmarks -page ../docs/benchmarks.md results/*.txt
//
// Without files it draws from the existing figures.json. In the page it replaces the text
// between the marks <!-- NAME --> and <!-- end -->.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/bench/figures"
)

func main() {
	into := flag.String("into", "../docs/benchmarks", "the directory of figures.json and the plots")
	page := flag.String("page", "../docs/benchmarks.md", "the page that has the tables")
	flag.Parse()
	if err := draw(*into, *page, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func draw(into, page string, files []string) error {
	if err := os.MkdirAll(into, 0o755); err != nil { //nolint:gosec // committed, for everybody to read
		return err
	}
	f, err := gather(filepath.Join(into, "figures.json"), files)
	if err != nil {
		return err
	}
	for _, p := range plots {
		svg, err := p.draw(f)
		if err != nil {
			return err
		}
		//nolint:gosec // committed, for everybody to read
		if err := os.WriteFile(filepath.Join(into, p.name+".svg"), []byte(svg), 0o644); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	filled, err := fill(string(text), f)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(filled), 0o644) //nolint:gosec // committed, for everybody to read
}

// gather reads files and saves their figures. Without files it loads the saved figures.
func gather(kept string, files []string) (*figures.Figures, error) {
	if len(files) == 0 {
		return figures.Load(kept)
	}
	f := figures.New()
	for _, file := range files {
		if err := read(f, file); err != nil {
			return nil, err
		}
	}
	return f, f.Save(kept)
}

func read(f *figures.Figures, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	return errors.Join(f.Read(in, file), in.Close())
}
