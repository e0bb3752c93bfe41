package lockjson

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// golden is every field, in its place: programs of others read it.
const golden = `{
 "name": "pool",
 "key": "holdfast:{pool}",
 "held": true,
 "fence": "18446744073709551615",
 "holders": [
  {
   "mode": "permits",
   "client_id": "c1",
   "app": "import",
   "host": "web-1",
   "pid": 7,
   "version": "v0.1.0",
   "token": "18446744073709551615",
   "since": "2026-11-26T12:00:00.250Z",
   "age_ms": 2000,
   "remaining_ms": 28000,
   "lock_delay_ms": 0,
   "id": "c1/4",
   "owner": "team",
   "permits": 2,
   "entries": 3,
   "released": true,
   "ending": false,
   "tags": {
    "run": "5"
   }
  }
 ],
 "waiting": 1,
 "waiters": [
  {
   "position": 1,
   "mode": "permits",
   "client_id": "c2",
   "app": "",
   "host": "",
   "pid": 0,
   "version": "",
   "waited_ms": 1500,
   "id": "c2/1",
   "owner": "",
   "tags": {},
   "silent": false
  },
  {
   "position": 2,
   "mode": "permits",
   "client_id": "c3",
   "app": "",
   "host": "",
   "pid": 0,
   "version": "",
   "waited_ms": 90000,
   "id": "c3/1",
   "owner": "",
   "tags": {},
   "silent": true
  }
 ],
 "last_eviction": {
  "at": "2026-11-26T12:00:00.250Z",
  "by": "ann@ops",
  "reason": "hangs"
 },
 "limit": 5,
 "used": 2,
 "leader": {
  "value": "10.0.0.7:80",
  "term": "9"
 },
 "job": {
  "period_ms": 60000,
  "aligned": true,
  "offset_ms": 5000,
  "next": "2026-11-26T12:00:00.250Z",
  "due_ms": 30000,
  "last_run": "c1/3",
  "run": {
   "mode": "exclusive",
   "client_id": "c1",
   "app": "",
   "host": "",
   "pid": 0,
   "version": "",
   "token": "8",
   "since": "2026-11-26T12:00:00.250Z",
   "age_ms": 0,
   "remaining_ms": 0,
   "lock_delay_ms": 0,
   "id": "c1/3",
   "owner": "",
   "permits": 0,
   "entries": 0,
   "released": false,
   "ending": false,
   "tags": {}
  },
  "runs": 1,
  "tries": 3
 },
 "deadlock": [
  {
   "client": "client c2",
   "holds": "other",
   "waits_for": "pool",
   "breaks": true
  }
 ]
}`

func TestTheStateIsTheContract(t *testing.T) {
	at := time.Date(2026, 11, 26, 13, 0, 0, 250_900_000, time.FixedZone("", 3600))
	const most = 1<<64 - 1
	state := Of(holdfast.LockInfo{
		Name: "pool", Fence: most, Limit: 5,
		Holders: []holdfast.Holder{{
			Mode: "permits", HolderID: "c1/4", ClientID: "c1", Token: most, Since: at, Age: 2 * time.Second,
			Remaining: 28 * time.Second, Owner: "team", Permits: 2, Entries: 3, Released: true,
			Tags:   map[string]string{"run": "5"},
			Client: &holdfast.ClientInfo{App: "import", Host: "web-1", PID: 7, Version: "v0.1.0"},
		}},
		Waiters: []holdfast.Waiter{
			{Position: 1, Mode: "permits", HolderID: "c2/1", ClientID: "c2", Waited: 1500 * time.Millisecond},
			{Position: 2, Mode: "permits", HolderID: "c3/1", ClientID: "c3", Waited: 90 * time.Second, Silent: true},
		},
		LastEviction: &holdfast.EvictionInfo{At: at, By: "ann@ops", Reason: "hangs"},
		Leader:       &holdfast.Leader{Value: "10.0.0.7:80", Token: 9},
	}, "holdfast:{pool}")
	state.Job = OfJob(holdfast.JobInfo{
		Schedule: holdfast.Schedule{Period: time.Minute, Aligned: true, Offset: 5 * time.Second},
		Next:     at, Due: 30 * time.Second, HolderID: "c1/3", Runs: 1, Tries: 3,
		Run: &holdfast.Holder{Mode: "exclusive", HolderID: "c1/3", ClientID: "c1", Token: 8, Since: at},
	})
	state.Deadlock = OfDeadlock([]holdfast.WaitInfo{{ClientID: "c2", Holds: "other", Name: "pool", Breaks: true}})
	got, err := json.MarshalIndent(state, "", " ")
	assert.Must(t, err)
	assert.Equal(t, string(got), golden, "the state")
}

// What holds the name is the lock's holder and the job's run.
func TestALockAndItsJobAreOne(t *testing.T) {
	run, holder := holdfast.Holder{Token: 7}, holdfast.Holder{Token: 5}
	at := time.Unix(1000, 0)
	job := holdfast.JobInfo{Fence: 8, Run: &run, LastEviction: &holdfast.EvictionInfo{At: at, By: "ann"}}
	alone := WithJob(holdfast.LockInfo{Name: "a"}, job)
	assert.True(t, alone.Held() && alone.Holders[0].Token == 7 && alone.Fence == 8 && alone.LastEviction.By == "ann",
		"a job alone: %+v", alone)
	later := &holdfast.EvictionInfo{At: at.Add(time.Second), By: "bob"}
	both := WithJob(holdfast.LockInfo{Fence: 5, Holders: []holdfast.Holder{holder}, LastEviction: later}, job)
	assert.True(t, len(both.Holders) == 2 && both.Fence == 5 && both.LastEviction.By == "bob", "both: %+v", both)
	assert.False(t, WithJob(holdfast.LockInfo{}, holdfast.JobInfo{Fence: 8}).Held(), "a job that does not run is held")
}

func TestAFreeLockHasListsAndNoNulls(t *testing.T) {
	got, err := json.Marshal(Of(holdfast.LockInfo{Name: "a"}, "k"))
	assert.Must(t, err)
	assert.Equal(t, string(got), `{"name":"a","key":"k","held":false,"fence":"0","holders":[],"waiting":0,`+
		`"waiters":[],`+
		`"last_eviction":null,"limit":0,"used":0,"leader":null,"job":null}`, "the state")
	assert.True(t, OfJob(holdfast.JobInfo{Name: "a"}) == nil, "a job that nobody has run has a state")
}
