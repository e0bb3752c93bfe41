// Package recipes has the code of docs/go.md. A test runs each recipe, and compares the page with this file.
package recipes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence/sqlfence"
)

// Handler pays an invoice. A repeated request waits for the first one, for two seconds at most.
func Handler(client *holdfast.Client, pay func(ctx context.Context, id string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		mutex := client.Mutex("invoice/"+id, holdfast.MaxWait(2*time.Second))
		err := mutex.Do(r.Context(), func(ctx context.Context) error { return pay(ctx, id) })
		if errors.Is(err, holdfast.ErrHeld) {
			http.Error(w, "another request pays this invoice", http.StatusConflict)
		} else if err != nil {
			slog.Error("invoice not paid", "id", id, "error", err, "hint", holdfast.Hint(err))
			http.Error(w, "not paid", http.StatusServiceUnavailable)
		}
	}
}

// Work does tasks until the channel is closed. Of one customer's tasks, one at a time is done over all workers.
func Work(ctx context.Context, client *holdfast.Client, customers <-chan string,
	do func(ctx context.Context, customer string) error,
) {
	for customer := range customers {
		err := client.Mutex("customer/"+customer).Do(ctx, func(ctx context.Context) error {
			return do(ctx, customer)
		})
		if err != nil {
			slog.Error("task failed", "customer", customer, "error", err, "hint", holdfast.Hint(err))
		}
	}
}

// Nightly runs the backup once a day, over all processes that call it, at three o'clock UTC.
func Nightly(ctx context.Context, client *holdfast.Client, backup func(context.Context) error) error {
	return client.Periodic("backup", 24*time.Hour, holdfast.StartAt(3*time.Hour)).Loop(ctx, backup)
}

// Skip runs the report unless another client runs it now.
func Skip(ctx context.Context, client *holdfast.Client, report func(context.Context) error) error {
	_, err := client.Mutex("report").TryDo(ctx, report) // false: it is held
	return err
}

// Charge waits for five seconds at most. The work may take a minute, the wait included.
func Charge(ctx context.Context, client *holdfast.Client, charge func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := client.Mutex("order/42", holdfast.MaxWait(5*time.Second)).Do(ctx, charge)
	if held := (*holdfast.HeldError)(nil); errors.As(err, &held) {
		return fmt.Errorf("order 42 is busy for %s: %w", held.Remaining, err)
	}
	return err
}

// Transfer holds both accounts, or none.
func Transfer(ctx context.Context, client *holdfast.Client, from, to string, move func(context.Context) error) error {
	return client.MultiMutex([]string{"account/" + from, "account/" + to}).Do(ctx, move)
}

// Lead runs the scheduler while this process leads, again after each loss, until ctx ends.
func Lead(ctx context.Context, client *holdfast.Client, address string, schedule func(context.Context) error) error {
	return client.Election("scheduler").Loop(ctx, address,
		func(ctx context.Context, _ *holdfast.Leadership) error { return schedule(ctx) })
}

// Pay writes unless a later holder has: then the error is a fence.ErrStale.
func Pay(ctx context.Context, client *holdfast.Client, db *sql.DB, guard sqlfence.Guard, invoice string) error {
	return client.Mutex(invoice).Do(ctx, func(ctx context.Context) error {
		lease, _ := holdfast.LeaseOf(ctx)
		return guard.Do(ctx, db, invoice, lease.Token, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE invoice SET paid = true WHERE name = $1`, invoice)
			return err
		})
	})
}

// Run works until SIGTERM. Then it releases all locks, within five seconds.
func Run(ctx context.Context, client *holdfast.Client, work func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := work(ctx)
	return errors.Join(err, client.Close(context.WithoutCancel(ctx)))
}
