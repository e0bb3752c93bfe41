// Lottery draws ten winners a day into an SQL database, exactly once, although six shops want to draw
// them, one dies in the middle, and another is paused past its lease.
//
//	go run ./lottery                                           # SQLite, in a temporary directory
//	LOTTERY_DB=postgres://user@host/db go run ./lottery        # PostgreSQL
//	LOTTERY_DB='user:password@tcp(host:3306)/db' go run ./lottery  # MySQL, MariaDB
//
// The shop that holds the lock draws. It reads under its token which winners the day has,
// chooses the missing ones, and writes each in a transaction of its own, as if a prize had to
// be booked in between. A shop that dies after some of them leaves the rest to the next holder.
// A shop that is paused after some of them and goes on later would write its own choice beside
// that of its successor: more than ten winners. The database refuses it, because its token is
// stale.
//
// If you run it again on the same day, nobody draws: the database, and not a process, knows that the
// day has its winners. A day is UTC's, by the clock of the database.
package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/kit"
	"github.com/holdfast-go/holdfast/fence"
)

func main() { kit.Main(parent, child) }

const (
	lottery = "example/lottery" // the lock, and the resource that it protects
	winners = 10
	ttl     = 2 * time.Second
)

// The shops ask their bank before they go on after these winners. The parent answers for the bank, or
// kills, or pauses the shop that asks.
var asksAfter = map[int]bool{4: true, 6: true}

func parent(ctx context.Context, _ []string) error {
	if os.Getenv(envDB) == "" {
		dir, err := os.MkdirTemp("", "lottery")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := os.Setenv(envDB, filepath.Join(dir, "lottery.db")); err != nil { // for the children
			return err
		}
	}
	db, err := open()
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.create(ctx); err != nil {
		return err
	}
	if drawn, err := db.number(ctx, `SELECT count(*) FROM draws WHERE day = `+today); err != nil {
		return err
	} else if drawn > 0 {
		err = kit.Each(ctx, "shop 1", "shop 2", "shop 3", "shop 4", "shop 5", "shop 6")
		return errors.Join(err, report(ctx, db))
	}
	if err := disturbed(ctx); err != nil {
		return err
	}
	return report(ctx, db)
}

// disturbed is a day on which one shop dies, and another is paused.
func disturbed(ctx context.Context) error {
	first, err := kit.Start(ctx, "shop 1")
	if err != nil {
		return err
	}
	if err := first.Heard(ctx, "asks the bank"); err != nil {
		return err
	}
	others, err := kit.StartAll(ctx, "shop 2", "shop 3", "shop 4", "shop 5", "shop 6")
	if err != nil {
		return err
	}
	if err := first.Kill(); err != nil {
		return err
	}
	fmt.Println("shop 1 is killed in the middle of the draw")

	second, err := kit.FirstToPrint(ctx, "asks the bank", others...)
	if err != nil {
		return err
	}
	if err := second.Stop(); err != nil {
		return err
	}
	fmt.Println(second.Name, "is paused; its lease runs out")

	var rest []*kit.Child
	for _, c := range others {
		if c != second {
			rest = append(rest, c)
		}
	}
	if _, err := kit.FirstToPrint(ctx, "has drawn 10 of 10", rest...); err != nil {
		return err
	}
	fmt.Println(second.Name, "goes on")
	err = errors.Join(second.Tell("yes"), second.Continue())
	for _, c := range others {
		err = errors.Join(err, c.Wait())
	}
	return err
}

// report checks what the database has.
func report(ctx context.Context, db *database) error {
	rows, err := db.number(ctx, `SELECT count(*) FROM winners WHERE day = `+today)
	if err != nil {
		return err
	}
	users, err := db.number(ctx, `SELECT count(DISTINCT w.name) FROM winners w JOIN users u ON u.name = w.name
		WHERE u.eligible = 1 AND w.day = `+today)
	if err != nil {
		return err
	}
	tokens, err := db.number(ctx, `SELECT count(DISTINCT token) FROM winners WHERE day = `+today)
	if err != nil {
		return err
	}
	fmt.Printf("the day has %d winners: %d different users, all eligible, drawn under %d leases\n", rows, users, tokens)
	return nil
}

func child(ctx context.Context, _ []string) error {
	db, err := open()
	if err != nil {
		return err
	}
	defer db.Close()
	client, _, done, err := kit.Connect(holdfast.Config{})
	if err != nil {
		return err
	}
	defer done()
	lease, err := client.Mutex(lottery, holdfast.TTL(ttl)).Lock(ctx)
	if err != nil {
		return err
	}
	err = draw(ctx, db, lease.Token())
	released := lease.Release(ctx)
	if errors.Is(err, fence.ErrStale) {
		fmt.Println("is refused:", err)
		return nil // its successor draws the others
	}
	return errors.Join(err, released)
}

// draw draws the winners that the day still lacks. Each of its transactions begins with the token,
// also the one that only reads.
func draw(ctx context.Context, db *database, token uint64) error {
	var day string
	var have int
	var eligible []string
	err := db.guard.Do(ctx, db.DB, lottery, token, func(tx *sql.Tx) (err error) {
		day, have, eligible, err = db.state(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	if have == winners {
		fmt.Println("is too late: the day has its winners")
		return nil
	}
	for n := have + 1; n <= winners; n++ {
		name, err := choose(&eligible)
		if err != nil {
			return err
		}
		err = db.guard.Do(ctx, db.DB, lottery, token, func(tx *sql.Tx) error {
			return db.write(ctx, tx, day, name, n, token)
		})
		if err != nil {
			return fmt.Errorf("winner %d: %w", n, err)
		}
		fmt.Printf("has drawn %d of %d\n", n, winners)
		if asksAfter[n] {
			fmt.Println("asks the bank")
			// Here one shop is killed, and another one is paused. It does not look whether it still has
			// the lock, because it could also be paused after that.
			if _, err := kit.Told(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// choose takes one of the users, by chance.
func choose(users *[]string) (string, error) {
	if len(*users) == 0 {
		return "", errors.New("there are fewer eligible users than winners")
	}
	n, err := rand.Int(rand.Reader, big.NewInt(int64(len(*users))))
	if err != nil {
		return "", err
	}
	i := n.Int64()
	name := (*users)[i]
	*users = append((*users)[:i], (*users)[i+1:]...)
	return name, nil
}
