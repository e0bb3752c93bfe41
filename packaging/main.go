// Packaging makes what a release consists of, besides the tags: for each platform an archive
// of the tool, its manual and its completions, with a bill of materials; for Linux a Debian
// package; and the checksums of all of them.
//
//	packaging [-go PROGRAM] [-platforms LIST] [-ref REF] DIR
//
// It builds what is committed as REF, in a clone of its own: uncommitted changes do not count.
// Who builds the same commit with the same Go release gets the same bytes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
)

// platforms are those with a binary.
const platforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64"

func main() {
	goTool := flag.String("go", "go", "the go `program`")
	list := flag.String("platforms", platforms, "`list` of platforms to build for")
	ref := flag.String("ref", "HEAD", "commit or tag to build")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: packaging [flags] DIR")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	p := packager{goTool: *goTool, ref: *ref, out: flag.Arg(0), say: func(line string) { fmt.Println(line) }}
	if err := p.run(ctx, strings.Split(*list, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1) //nolint:gocritic // nothing that was deferred matters any more
	}
}
