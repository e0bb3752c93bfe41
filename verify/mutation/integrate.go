package main

import "slices"

// The tests of the packages for other libraries.
var (
	electing   = check{"bubble tests", ".", []string{"./integrate/leaderelection"}}
	lockers    = check{"bubble tests", ".", []string{"./integrate/locker"}}
	certifying = check{"bubble tests", "integrate/certmagiclock", []string{"."}}
	timing     = check{"server tests", "verify/integrate", []string{"-run=Cron|Gocron", "."}}
)

// inIntegrations are those of the packages for other libraries.
var inIntegrations = slices.Concat(in("integrate/leaderelection/leaderelection.go", by{electing}, []mutant{{
	name: "leaderelection: a leader is told to stop before it starts",
	old:  "		defer stopped()\n",
	mut:  "		stopped()\n",
}, {
	name: "leaderelection: a leader whose work has ended resigns",
	old:  "	e.cfg.Callbacks.OnStartedLeading(ctx)\n	<-ctx.Done()\n",
	mut:  "	e.cfg.Callbacks.OnStartedLeading(ctx)\n",
}, {
	name: "leaderelection: another term of the same leader is a new leader",
	old:  "	changed = identity != e.leader\n",
	mut:  "	changed = true\n",
}}), in("integrate/locker/locker.go", by{lockers}, []mutant{{
	name: "locker: a release is told as a loss",
	old:  "!errors.Is(err, holdfast.ErrReleased) {",
	mut:  "!errors.Is(err, nil) {",
}, {
	name: "locker: Lock returns without the lock",
	old:  "		panic(fmt.Errorf(\"locker: Lock must not return without the lock: %w\", err))\n",
	mut:  "		_ = fmt.Errorf\n		return\n",
}}), in("integrate/certmagiclock/certmagiclock.go", by{certifying}, []mutant{{
	name: "certmagiclock: a lock that failed keeps the turn",
	old:  "		<-e.turn\n		s.leave(name, e)\n		return err\n",
	mut:  "		s.leave(name, e)\n		return err\n",
}, {
	name: "certmagiclock: a lost lock is said to be held",
	old:  "	case lease.Err() == nil:\n",
	mut:  "	case lease != nil:\n",
}, {
	name: "certmagiclock: a lock that was unlocked during its renewal is held for ever",
	old:  "	if e.lease != lost {\n",
	mut:  "	if e.lease == lost && e.turn == nil {\n",
}}), in("integrate/gocronlock/gocronlock.go", by{timing}, []mutant{{
	name: "gocronlock: a job works on when its lock is lost",
	old:  "	both, cancel := context.WithCancelCause(own)\n",
	mut:  "	both, cancel := context.WithCancelCause(context.WithoutCancel(own))\n",
}}), in("integrate/cronlock/cronlock.go", by{timing}, []mutant{{
	name: "cronlock: a job runs beside the holder of its lock",
	old:  "				logger.Info(\"skip\", \"lock\", m.Name(), \"why\", err.Error())\n				return\n",
	mut: "				logger.Info(\"skip\", \"lock\", m.Name(), \"why\", err.Error())\n" +
		"				job.Run()\n				return\n",
}, {
	name: "cronlock: the job outlives the context of its wrapper",
	old:  "	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })\n	defer func() {",
	mut:  "	stop := func() {}\n	defer func() {",
}}))
