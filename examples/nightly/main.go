// Nightly runs a job once a night, on the first of three machines. A night is two seconds
// here.
//
//	go run ./nightly
//
// The machine that runs the job in the first night is killed in the middle of it. The job
// is not repeated in that night, because Periodic promises at most one run. In the second
// and third night another machine runs the job.
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

const night = 2 * time.Second

func parent(ctx context.Context, _ []string) error {
	_, rdb, done, err := kit.Connect(holdfast.Config{})
	if err != nil {
		return err
	}
	defer done()
	if err := rdb.Del(ctx, "example/nightly/runs").Err(); err != nil {
		return err
	}
	machines, err := kit.StartAll(ctx, "machine 1", "machine 2", "machine 3")
	if err != nil {
		return err
	}
	first, err := kit.FirstToPrint(ctx, "run 1 begins", machines...)
	if err != nil {
		return err
	}
	if err := first.Kill(); err != nil {
		return err
	}
	fmt.Println(first.Name, "is killed in its run")
	for _, run := range []string{"run 2 ends", "run 3 ends"} {
		if _, err := kit.FirstToPrint(ctx, run, machines...); err != nil {
			return err
		}
	}
	for _, machine := range machines {
		if machine != first {
			err = errors.Join(err, machine.End())
		}
	}
	return err
}

func child(ctx context.Context, _ []string) error {
	client, rdb, done, err := kit.Connect(holdfast.Config{})
	if err != nil {
		return err
	}
	defer done()
	return client.Periodic("example/nightly", night, holdfast.TTL(night)).Loop(ctx, func(ctx context.Context) error {
		run, err := rdb.Incr(ctx, "example/nightly/runs").Result()
		if err != nil {
			return err
		}
		fmt.Println("run", run, "begins")
		if err := kit.Pause(ctx, night/4); err != nil {
			return err
		}
		fmt.Println("run", run, "ends")
		return nil
	})
}
