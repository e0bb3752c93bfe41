// Command etcd lets the benchmarks measure the lock of etcd's client library.
// It is its own module, because etcd's server needs a hundred others.
//
//	etcd serve DIR   runs a server with its data in DIR and prints its address
//	etcd work        serves jobs of bench/crew
//
// Either ends with its standard input.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/holdfast-go/holdfast/bench/crew"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "work":
		return crew.Serve(os.Stdin, os.Stdout, open)
	case len(args) == 2 && args[0] == "serve":
		s, err := serve(args[1])
		if err != nil {
			return err
		}
		fmt.Println(s.Clients[0].Addr())
		_, err = io.Copy(io.Discard, os.Stdin)
		s.Close()
		return err
	}
	return errors.New("usage: etcd serve DIR | etcd work")
}
