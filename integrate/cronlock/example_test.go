package cronlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integrate/cronlock"
	"github.com/holdfast-go/holdfast/memstore"
)

// Of the program.
var (
	ctx       = context.Background()
	client, _ = holdfast.New(memstore.New(), holdfast.Config{})
	logger    = cron.DiscardLogger
)

func report(ctx context.Context) error {
	lease, _ := holdfast.LeaseOf(ctx)
	fmt.Println("under", lease.Name)
	return nil
}

func ExampleSingle() {
	single := cronlock.Single(ctx, client.Mutex("report", holdfast.MinHold(10*time.Second)), logger)
	schedule := cron.New()
	id, _ := schedule.AddJob("0 3 * * *", cron.NewChain(cron.Recover(logger), single).Then(cronlock.Func(report)))
	schedule.Entry(id).WrappedJob.Run() // as at 3 o'clock
	schedule.Entry(id).WrappedJob.Run() // on another machine, whose clock is a second behind: skipped
	// Output: under report
}

// The job runs once a day. Its period is half of that, so no clock can be too early for the next run.
func ExampleOnce() {
	once := cronlock.Once(ctx, client.Periodic("daily", 12*time.Hour), logger)
	job := cron.NewChain(once).Then(cronlock.Func(report))
	job.Run() // as at 3 o'clock
	job.Run() // on another machine, some minutes late: skipped
	// Output: under daily
}

func ExampleFunc_Run() {
	cronlock.Func(report).Run() // without a wrapper, there is no lock
	// Output: under
}
