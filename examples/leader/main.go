// Leader has three candidates, of which one leads at a time.
//
//	go run ./leader
//
// The first leader is killed: the next one leads when the lease expires. The second one
// resigns: the next one leads at once. An observer sees every change, with rising terms.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/kit"
)

func main() { kit.Main(parent, child) }

const (
	election = "example/leader"
	ttl      = 2 * time.Second // for this long nobody leads after a leader's death
)

func parent(ctx context.Context, _ []string) error {
	client, _, done, err := kit.Connect(holdfast.Config{})
	if err != nil {
		return err
	}
	defer done()
	candidates, err := kit.StartAll(ctx, "anna", "ben", "cleo")
	if err != nil {
		return err
	}
	byName := make(map[string]*kit.Child)
	for _, c := range candidates {
		byName[c.Name] = c
	}

	var term uint64
	reigns := 0
	for leader, err := range client.Election(election).Observe(ctx) {
		switch {
		case err != nil:
			fmt.Println("cannot see the leader:", err)
			continue
		case leader.Token == 0:
			fmt.Println("nobody leads")
			continue
		case leader.Token <= term:
			return fmt.Errorf("the term fell from %d to %d", term, leader.Token)
		}
		fmt.Println("the leader is", leader.Value)
		term = leader.Token
		c := byName[leader.Value]
		if err := c.Heard(ctx, "leads"); err != nil {
			return err
		}
		reigns++
		switch reigns {
		case 1:
			if err := c.Kill(); err != nil {
				return err
			}
			fmt.Println(c.Name, "is killed")
		case 2:
			if err := errors.Join(c.Tell("resign"), c.Wait()); err != nil {
				return err
			}
		default:
			return c.End()
		}
	}
	return ctx.Err()
}

func child(ctx context.Context, args []string) error {
	client, _, done, err := kit.Connect(holdfast.Config{})
	if err != nil {
		return err
	}
	defer done()
	// Loop campaigns again after each loss of the leadership, until lead returns while it
	// still leads.
	return client.Election(election, holdfast.TTL(ttl)).Loop(ctx, args[0],
		func(ctx context.Context, _ *holdfast.Leadership) error {
			fmt.Println("leads")
			if _, err := kit.Told(ctx); err != nil {
				return err
			}
			fmt.Println("resigns")
			return nil
		})
}
