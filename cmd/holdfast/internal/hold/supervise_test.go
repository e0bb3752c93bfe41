package hold

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// moment is one look of a plan.
type moment struct {
	now, left time.Duration
	gone      bool
	want      action
}

func TestPlanStopsACommandBeforeItsLeaseEnds(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		plan    plan
		moments []moment
		lost    bool
	}{
		"renewed again and again": {newPlan(10 * s), []moment{
			{0, 30 * s, false, goOn}, {10 * s, 20 * s, false, goOn}, {11 * s, 29 * s, false, goOn},
		}, false},
		"not renewed": {newPlan(10 * s), []moment{
			{19 * s, 11 * s, false, goOn}, {20 * s, 10 * s, false, tell}, {21 * s, 9 * s, false, goOn},
			{29*s + 799*time.Millisecond, 201 * time.Millisecond, false, goOn},
			{29*s + 800*time.Millisecond, 200 * time.Millisecond, false, kill},
			{29*s + 900*time.Millisecond, 100 * time.Millisecond, false, goOn},
		}, true},
		"a renewal after the signal neither revokes it nor delays the end": {newPlan(10 * s), []moment{
			{20 * s, 10 * s, false, tell}, {21 * s, 30 * s, false, goOn},
			{29*s + 800*time.Millisecond, 21 * s, false, kill},
		}, true},
		"taken away": {newPlan(10 * s), []moment{
			{5 * s, 25 * s, false, goOn}, {6 * s, 0, true, tell}, {15 * s, 0, true, goOn}, {16 * s, 0, true, kill},
		}, true},
		"taken away near the end of the lease": {newPlan(10 * s), []moment{
			{19 * s, 11 * s, false, goOn}, {28 * s, 0, true, tell}, {29*s + 800*time.Millisecond, 0, true, kill},
		}, true},
		"over when the machine wakes up": {newPlan(10 * s), []moment{
			{0, 30 * s, false, goOn}, {3600 * s, 0, true, kill},
		}, true},
		"almost over when the machine wakes up": {newPlan(10 * s), []moment{
			{0, 30 * s, false, goOn}, {29 * s, 1 * s, false, tell},
		}, true},
		"no grace": {newPlan(0), []moment{
			{0, 30 * s, false, goOn}, {30*s - 6*time.Millisecond, 6 * time.Millisecond, false, goOn},
			{30*s - 5*time.Millisecond, 5 * time.Millisecond, false, kill},
		}, true},
		"ignored": {plan{grace: 10 * s, ignore: true}, []moment{
			{25 * s, 5 * s, false, goOn}, {31 * s, 0, true, goOn},
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.plan
			for _, m := range c.moments {
				if got, again := p.step(m.now, m.left, m.gone); got != m.want || again <= 0 {
					t.Fatalf("at %v with %v left (gone %v): %v after %v, want %v",
						m.now, m.left, m.gone, got, again, m.want)
				}
			}
			assert.True(t, p.lost == c.lost && !p.overtime,
				"lost %v overtime %v, want %v false", p.lost, p.overtime, c.lost)
		})
	}
}

func TestPlanEndsACommandThatRunsTooLong(t *testing.T) {
	p := newPlan(2 * time.Second)
	p.maxAt = 5 * time.Second
	for _, m := range []moment{
		{4 * time.Second, 29 * time.Second, false, goOn},
		{5 * time.Second, 28 * time.Second, false, tell},
		{6 * time.Second, 27 * time.Second, false, goOn},
		{7 * time.Second, 26 * time.Second, false, kill},
	} {
		got, _ := p.step(m.now, m.left, m.gone)
		assert.MustTrue(t, got == m.want, "at %v: %v, want %v", m.now, got, m.want)
	}
	assert.True(t, p.overtime && !p.lost, "overtime %v lost %v, want true false", p.overtime, p.lost)
}

// Whatever the moments of the looks, and whatever the renewals say, a command
// whose lease is not renewed is killed before its end, given that it is looked
// at when the plan asks for it.
func TestPlanKillsInTimeIfItIsAskedInTime(t *testing.T) {
	for grace := time.Duration(0); grace <= 15*time.Second; grace += 250 * time.Millisecond {
		for late := time.Duration(0); late < 5*time.Millisecond; late += time.Millisecond {
			p := newPlan(grace)
			const ttl = 30 * time.Second
			now := time.Duration(0)
			for !p.killed {
				_, again := p.step(now, ttl-now, now >= ttl)
				assert.MustTrue(t, now < ttl, "grace %v, %v late: not killed when the lease ended", grace, late)
				now += again + late
			}
		}
	}
}
