package demo

// kind says what an event is.
type kind string

const (
	ready kind = "ready" // a worker is connected; Client
	gone  kind = "gone"  // a worker process has ended; Err
	got   kind = "got"   // the lock was acquired; ID, Token, Asked
	end   kind = "end"   // the hold is over for its worker; ID, Asked, Released
	fail  kind = "fail"  // an acquisition, or a hold, came to nothing; Err
	wrote kind = "wrote" // a read-modify-write was done; Value, Plain, Stale
	stand kind = "stand" // the worker waits before its write, and holds the lock; Token
	noted kind = "noted" // the server's account; Text, or Err
)

// event is one thing that happened, as a line of JSON. Times are those of [now].
type event struct {
	At     int64  `json:"at"`
	Kind   kind   `json:"kind"`
	Proc   int    `json:"proc,omitempty"`   // the number of the worker
	Client string `json:"client,omitempty"` // the library's id of it
	ID     uint64 `json:"id,omitempty"`     // of a hold in its process: joins got and end
	Token  uint64 `json:"token,omitempty"`
	Asked  int64  `json:"asked,omitempty"` // when the call that ended here was made
	Value  int64  `json:"value,omitempty"` // what was written to the fenced file
	Plain  int64  `json:"plain,omitempty"` // what was written to the other one
	Stale  bool   `json:"stale,omitempty"` // the fenced file refused it
	// Released says that the server has confirmed the release.
	Released bool   `json:"released,omitempty"`
	Err      string `json:"err,omitempty"`
	Text     string `json:"text,omitempty"`
}
