// Command chart turns the output of go test -bench into figures.json, plots
// and the tables of a page.
//
//	go run ./chart -into ../docs/benchmarks -page ../docs/benchmarks.md results/*.txt
//
// With -curves they are the curves of docs/scaling.md and curves.json:
//
//	go run ./chart -curves -page ../docs/scaling.md results/curves.txt
//
// With -soak it draws the samples of make soak beside their file, and nothing else:
//
//	go run ./chart -soak ../bin/soak.csv -title "An hour on Redis 7.0"
//
// Without files it draws from the existing figures. In the page it replaces the text
// between the marks <!-- NAME --> and <!-- end -->.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/bench/figures"
)

func main() {
	into := flag.String("into", "../docs/benchmarks", "the directory of figures.json and the plots")
	page := flag.String("page", "../docs/benchmarks.md", "the page that has the tables")
	curves := flag.Bool("curves", false, "draw the curves over size, from curves.json")
	soak := flag.String("soak", "", "a `file` of samples of make soak to draw")
	title := flag.String("title", "A mixed load with faults", "the title of the soak")
	flag.Parse()
	if *soak != "" {
		if err := saveSoak(*soak, *title); err != nil {
			fmt.Fprintln(os.Stderr, "chart:", err)
			os.Exit(1)
		}
		return
	}
	if err := draw(pick(*curves), *into, *page, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// book is figures with all that is drawn from them.
type book struct {
	figures string
	// plots returns the SVGs by name.
	plots func(f *figures.Figures) (map[string]string, error)
}

func pick(curves bool) book {
	if curves {
		return book{"curves.json", drawCurves}
	}
	return book{"figures.json", drawPlots}
}

func drawPlots(f *figures.Figures) (map[string]string, error) {
	svgs := make(map[string]string)
	for _, p := range plots {
		svg, err := p.draw(f)
		if err != nil {
			return nil, err
		}
		svgs[p.name] = svg
	}
	return svgs, nil
}

func drawCurves(f *figures.Figures) (map[string]string, error) {
	svg, err := drawSheet(f, panels)
	return map[string]string{"curves": svg}, err
}

func draw(b book, into, page string, files []string) error {
	if err := os.MkdirAll(into, 0o755); err != nil { //nolint:gosec // committed, for everybody to read
		return err
	}
	f, err := gather(filepath.Join(into, b.figures), files)
	if err != nil {
		return err
	}
	svgs, err := b.plots(f)
	if err != nil {
		return err
	}
	for name, svg := range svgs {
		//nolint:gosec // committed, for everybody to read
		if err := os.WriteFile(filepath.Join(into, name+".svg"), []byte(svg), 0o644); err != nil {
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

// gather reads files and saves their figures, with the saved figures of what the files do not have. So a run of a
// part replaces that part. Without files it loads the saved figures.
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
	old, err := figures.Load(kept)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		f.Keep(old)
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
