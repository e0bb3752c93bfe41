package lostlease

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Functions as people write them. First those that lose the lease.

func skipIfHeld(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.TryLock(ctx) // want `the lease lease is never released`
	if errors.Is(err, holdfast.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	return work(lease.Context())
}

func skipInElse(ctx context.Context, m *holdfast.Mutex) error {
	if lease, err := m.TryLock(ctx); errors.Is(err, holdfast.ErrHeld) { // want `never released`
		return nil
	} else if err != nil {
		return err
	} else {
		return work(lease.Context())
	}
}

func skipInside(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.TryLock(ctx) // want `never released`
	if err != nil {
		if errors.Is(err, holdfast.ErrHeld) {
			return nil
		}
		return fmt.Errorf("lock: %w", err)
	}
	return work(lease.Context())
}

func skipBySwitch(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.TryLock(ctx) // want `never released`
	switch {
	case errors.Is(err, holdfast.ErrHeld):
		return nil
	case err != nil:
		return err
	}
	return work(lease.Context())
}

func whoHolds(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.TryLock(ctx) // want `never released`
	var held *holdfast.HeldError
	if errors.As(err, &held) {
		log.Print("busy")
		return nil
	}
	if err != nil {
		return err
	}
	return work(lease.Context())
}

func twoKinds(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.TryLock(ctx) // want `never released`
	if errors.Is(err, holdfast.ErrHeld) || errors.Is(err, context.Canceled) {
		return nil
	}
	if err != nil {
		return err
	}
	return work(lease.Context())
}

func otherThanHeld(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.TryLock(ctx) // want `never released`
	if err != nil && !errors.Is(err, holdfast.ErrHeld) {
		return err
	}
	if err == nil {
		return work(lease.Context())
	}
	return nil
}

func compared(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.TryLock(ctx) // want `never released`
	if err == holdfast.ErrHeld {
		return nil
	}
	if nil != err {
		return err
	}
	return work(lease.Context())
}

func retries(ctx context.Context, m *holdfast.Mutex) error {
	for {
		lease, err := m.TryLock(ctx) // want `never released`
		if errors.Is(err, holdfast.ErrHeld) {
			time.Sleep(time.Second)
			continue
		}
		if err != nil {
			return err
		}
		return work(lease.Context())
	}
}

func onlyOnSuccess(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.TryLock(ctx) // want `not released on all paths`
	if errors.Is(err, holdfast.ErrHeld) {
		return nil
	} else if err != nil {
		return err
	}
	if err := work(lease.Context()); err != nil {
		return err
	}
	return lease.Release(ctx)
}

func silenced(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx) // want `never released`
	if err != nil {
		return err
	}
	_ = lease
	return work(ctx)
}

func inOneBranch(ctx context.Context, m *holdfast.Mutex, dry bool) error {
	lease, err := m.Lock(ctx) // want `not released on all paths`
	if err != nil {
		return err
	}
	if dry {
		return nil
	}
	defer lease.Release(ctx)
	return work(lease.Context())
}

func byType(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.TryLock(ctx) // want `never released`
	if held, ok := errors.AsType[*holdfast.HeldError](err); ok {
		return held
	}
	if err != nil {
		return err
	}
	return work(lease.Context())
}

func skipByFlag(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.TryLock(ctx) // want `never released`
	busy := errors.Is(err, holdfast.ErrHeld)
	if !busy && err == nil {
		return work(lease.Context())
	}
	return nil
}

// From here on, all is well, or may be.

func skipAndRelease(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.TryLock(ctx)
	if errors.Is(err, holdfast.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lease.Release(context.WithoutCancel(ctx))
	return work(lease.Context())
}

func skipBySwitchAndRelease(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.TryLock(ctx)
	switch {
	case errors.Is(err, holdfast.ErrHeld):
		return nil
	case err != nil:
		return err
	default:
		defer lease.Release(ctx)
		return work(lease.Context())
	}
}

func onlyIfGranted(ctx context.Context, m *holdfast.Mutex) {
	if lease, err := m.TryLock(ctx); err == nil {
		defer lease.Release(ctx)
		work(lease.Context())
	}
}

func byNamedHelper(ctx context.Context, m *holdfast.Mutex, busy func(error) bool) error {
	lease, err := m.TryLock(ctx)
	if busy(err) {
		return nil
	}
	return lease.Release(ctx)
}

func inGoroutine(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	go func() {
		defer lease.Release(ctx)
		work(lease.Context())
	}()
	return nil
}

func logsTheError(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err := lease.Release(ctx); err != nil {
			log.Print(err)
		}
	}()
	return work(lease.Context())
}

func endsTheProgram(ctx context.Context, m *holdfast.Mutex) {
	lease, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := work(lease.Context()); err != nil {
		os.Exit(1)
	}
	lease.Release(ctx)
}

func retriesAndReleases(ctx context.Context, m *holdfast.Mutex) error {
	for {
		lease, err := m.TryLock(ctx)
		if errors.Is(err, holdfast.ErrHeld) {
			continue
		}
		if err != nil {
			return err
		}
		err = work(lease.Context())
		return errors.Join(err, lease.Release(ctx))
	}
}

func cleanup(ctx context.Context, m *holdfast.Mutex, atEnd func(func())) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	atEnd(func() { lease.Release(ctx) })
	return work(lease.Context())
}

func byTypeAndRelease(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.TryLock(ctx)
	if held, ok := errors.AsType[*holdfast.HeldError](err); ok {
		return held
	}
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return work(lease.Context())
}

func skipByFlagAndRelease(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.TryLock(ctx)
	var busy = errors.Is(err, holdfast.ErrHeld)
	if busy {
		return nil
	}
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return work(lease.Context())
}

func bySwitchOfTypes(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.TryLock(ctx)
	switch e := err.(type) {
	case nil:
	case *holdfast.HeldError:
		log.Print(e)
		return nil
	default:
		return err
	}
	defer lease.Release(ctx)
	return work(lease.Context())
}

func copiesTheError(ctx context.Context, m *holdfast.Mutex) error {
	lease, lockErr := m.TryLock(ctx)
	err := lockErr
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return work(lease.Context())
}

func sortsTheError(ctx context.Context, m *holdfast.Mutex, sort func(error) (bool, error)) error {
	lease, err := m.TryLock(ctx)
	busy, err := sort(err)
	if busy {
		return nil
	}
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return work(lease.Context())
}

func wrapsTheError(ctx context.Context, m *holdfast.Mutex, wrap func(error) error) error {
	lease, err := m.TryLock(ctx)
	if err = wrap(err); err != nil {
		return err
	}
	defer lease.Release(ctx)
	return work(lease.Context())
}
