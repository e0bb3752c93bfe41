// Lottery draws one number a day, although eight processes want to draw it.
//
//	go run ./lottery
//
// Eight processes start at the same moment. One draws; the others learn that they are too
// late, and when the next draw is. If you run it again on the same day, nobody draws: the
// server, and not a process, keeps the mark of the day. A day is from noon to noon, UTC,
// by the server's clock.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/kit"
)

func main() { kit.Main(parent, child) }

const draw = "example/lottery/draw" // the key of the day's number

func parent(ctx context.Context, _ []string) error {
	var shops []string
	for n := range 8 {
		shops = append(shops, fmt.Sprintf("shop %d", n+1))
	}
	if err := kit.Each(ctx, shops...); err != nil {
		return err
	}
	_, rdb, done, err := kit.Connect(holdfast.Config{})
	if err != nil {
		return err
	}
	defer done()
	number, err := rdb.Get(ctx, draw).Result()
	if err != nil {
		return err
	}
	fmt.Println("the number of the day is", number)
	return nil
}

func child(ctx context.Context, args []string) error {
	client, rdb, done, err := kit.Connect(holdfast.Config{})
	if err != nil {
		return err
	}
	defer done()
	lottery := client.Periodic("example/lottery", 24*time.Hour, holdfast.StartAt(12*time.Hour))
	turn, err := lottery.Do(ctx, func(ctx context.Context) error {
		drawn, err := rand.Int(rand.Reader, big.NewInt(49))
		if err != nil {
			return err
		}
		number := drawn.Int64() + 1
		fmt.Println("draws", number)
		return rdb.Set(ctx, draw, fmt.Sprintf("%d, drawn by %s", number, args[0]), 0).Err()
	})
	if err == nil && !turn.Ran {
		fmt.Println("is too late: the next draw is in", turn.Next.Round(time.Minute))
	}
	return err
}
