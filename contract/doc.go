// Package contract holds what the library promises, as tests in virtual time. It has no code that a program can use.
//
// Each test lives in a world: a server in memory, a network that counts, delays or loses requests, and clients of it.
// The world is in a bubble of testing/synctest: an hour passes in no time, a time is exact, and a test whose
// goroutines do not end fails. A test uses the public API only, so whatever it observes, a program can observe:
//
//	func TestALeaseEndsWithoutAServer(t *testing.T) {
//		bubble(t, func(t *testing.T, w *world) {
//			lease := mustLock(t, w.client().Mutex("a")) // fails the test if there is no grant
//			w.FailRequest(func(string, []string) error { return errLink })
//			wantLost(t, ended(lease.Context()), holdfast.LossExpired) // waits, in virtual time
//		})
//	}
//
// The guarantees and their tests are in docs/guarantees.md. There is a file for each subject, and it begins with the
// guarantees that it holds. The world and its helpers are in world_bubble_test.go, what may go wrong in it is in
// faults_bubble_test.go. Examples for the documentation are beside the code that they show, in the root.
package contract
