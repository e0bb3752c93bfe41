// Release is the program behind make release. It prepares a version of every published module
// in the local repository, and publishes nothing:
//
//   - On the branch, a commit gives the changelog's unreleased part the version and the date, and
//     calls the tree the next version in development.
//   - A commit beside the branch is the released tree. There, each published module requires
//     the released versions of the others and has no replace. go install refuses a module that
//     has one.
//   - Each published module has a tag at that commit, such as store/goredis/v0.1.0.
//
// The program refuses a tree with changes, a version that exists, an empty changelog, and a tree
// whose check fails. After a refusal or an error the repository is as it was.
//
//	release [-check COMMAND] [-proxy DIR] VERSION
//
// -proxy makes a module proxy of files in DIR, to try the version before it is public.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	r := release{out: os.Stdout, today: time.Now().UTC().Format(time.DateOnly)}
	flag.StringVar(&r.check, "check", "make test-all", "the command that must succeed; empty: none")
	flag.StringVar(&r.proxy, "proxy", "", "make a module proxy of files in this directory")
	flag.StringVar(&r.goTool, "go", "go", "the go command")
	flag.Parse()
	if flag.NArg() != 1 {
		fail(errors.New("which version? Write: make release VERSION=v0.1.0"))
	}
	r.version = flag.Arg(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.Getwd()
	if err == nil {
		err = r.prepare(ctx, dir)
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "release:", err)
	os.Exit(1)
}
