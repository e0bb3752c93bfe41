// Packaging makes the files of a release. For each platform they are an archive of the tool, its manual and its
// completions, and a bill of materials; for Linux also a Debian package. SHA256SUMS has the checksums of all.
//
//	packaging [-go PROGRAM] [-platforms LIST] [-ref REF] DIR
//
// It builds what is committed as REF, in a clone of its own: uncommitted changes do not count.
// The same commit and the same Go release give the same bytes.
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
