package gocronlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integrate/gocronlock"
	"github.com/holdfast-go/holdfast/memstore"
)

// Of the program.
var (
	ctx       = context.Background()
	client, _ = holdfast.New(memstore.New(), holdfast.Config{})
)

func report(ctx context.Context) error {
	lease, _ := holdfast.LeaseOf(ctx)
	fmt.Println("under", lease.Name)
	return ctx.Err()
}

func ExampleNewLocker() {
	// The clocks of the machines differ by less than 5 s.
	locker := gocronlock.NewLocker(client, "cron/", 5*time.Second)
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan struct{})
	_, err = scheduler.NewJob(
		gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
		gocron.NewTask(locker.Func(func(ctx context.Context) error {
			defer close(done)
			return report(ctx)
		})),
		gocron.WithName("report"),
	)
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	<-done
	_ = scheduler.Shutdown()
	// Output: under cron/report
}

func ExampleLocker_Lock() {
	locker := gocronlock.NewLocker(client, "cron/", 0)
	lock, err := locker.Lock(ctx, "invoices") // gocron calls it before a run
	fmt.Println(err)
	fmt.Println(lock.Unlock(ctx)) // and this after the run
	// Output:
	// <nil>
	// <nil>
}

func ExampleLocker_Func() {
	locker := gocronlock.NewLocker(client, "cron/", 0)
	job := locker.Func(report)
	fmt.Println(job(ctx)) // no scheduler has locked it
	// Output: gocronlock: the job got no lock from this locker, so it did not run
}

func ExampleNewElector() {
	elector := gocronlock.NewElector(client.Election("cron"), "machine-1")
	running, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- elector.Run(running) }()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	_, err = scheduler.NewJob(gocron.DailyJob(1, gocron.NewAtTimes(gocron.NewAtTime(3, 0, 0))),
		gocron.NewTask(elector.Func(report)))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	// ... until the program ends: the scheduler first, then the leadership
	_ = scheduler.Shutdown()
	stop()
	fmt.Println(<-ended)
	// Output: <nil>
}

func ExampleElector_Run() {
	elector := gocronlock.NewElector(client.Election("cron"), "machine-1")
	running, stop := context.WithCancel(ctx)
	stop() // the program ends
	fmt.Println(elector.Run(running))
	// Output: <nil>
}

func ExampleElector_IsLeader() {
	elector := gocronlock.NewElector(client.Election("cron"), "machine-1")
	fmt.Println(elector.IsLeader(ctx)) // gocron calls it before a run
	// Output: gocronlock: this scheduler does not lead
}

func ExampleElector_Func() {
	elector := gocronlock.NewElector(client.Election("cron"), "machine-1")
	fmt.Println(elector.Func(report)(ctx))
	// Output: gocronlock: this scheduler does not lead
}
