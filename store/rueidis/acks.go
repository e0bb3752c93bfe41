package rueidis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// maxRedirects bounds the redirections of one request. A slot that moves costs two.
const maxRedirects = 5

// RunAcked implements [store.Acker]. It uses a connection of its own: on the shared one every
// other request would wait, too.
func (s *Store) RunAcked(
	ctx context.Context, action *script.Script, keys, args []string, need store.Acks, limit time.Duration,
) (string, store.Acks, error) {
	if s.unusable != nil {
		return "", store.Acks{}, s.unusable
	}
	if err := ctx.Err(); err != nil {
		return "", store.Acks{}, s.explain(ctx, err, nil)
	}
	type reply struct {
		text string
		got  store.Acks
		err  error
	}
	var last reply
	text, err, broke := s.retry.Do(ctx, action.Repeats, func() (string, error) {
		deadline := s.deadlines.Of(ctx)
		defer deadline.Leave()
		r, err := awaitAny(ctx, deadline, func(ctx context.Context) (r reply) {
			w := ackedRequest{s, action, keys, args, need, limit}
			r.text, r.got, r.err = w.run(ctx)
			return r
		})
		if err == nil {
			last, err = r, r.err
		}
		return last.text, err
	})
	switch {
	case err == nil:
		return text, last.got, nil
	case rueidis.IsRedisNil(err):
		return "", store.Acks{}, fmt.Errorf("rueidis: script %s answered nil", action.Name)
	}
	return "", store.Acks{}, s.explain(ctx, err, broke)
}

// ackedRequest is one action with the acknowledgements that it waits for.
type ackedRequest struct {
	s          *Store
	action     *script.Script
	keys, args []string
	need       store.Acks
	limit      time.Duration
}

// run finds the node and follows redirections, which a connection taken from rueidis does not.
func (w ackedRequest) run(ctx context.Context) (text string, got store.Acks, err error) {
	defer panics.Fail(clientCode, &err)
	client := w.s.client
	if w.s.mode == rueidis.ClientModeCluster {
		if client, err = w.s.owner(ctx, w.keys); err != nil {
			return "", got, err
		}
	}
	asking, withText := false, false
	for hop := 0; ; hop++ {
		text, got, err = w.send(ctx, client, asking, withText)
		refusal := serverError(err)
		_, to, ask, moved := adapter.Redirection(refusal)
		switch {
		case refusal != nil && refusal.Code == "NOSCRIPT" && !withText:
			withText = true
			continue
		case !moved || hop == maxRedirects:
			if w.s.refusedByReplica(err) {
				w.s.address.note()
				w.s.leaveIdle(ctx)
			}
			if err != nil && refusal == nil {
				w.s.slots.forget() // the node may be gone
			}
			return text, got, err
		}
		if !ask {
			w.s.slots.forget()
		}
		if client, asking = w.s.client.Nodes()[to], ask; client == nil {
			return "", got, adapter.Unsent(errUnknownNode)
		}
	}
}

// send sends the action and the waiting commands over one connection. rueidis takes a
// connection for a pipeline with a blocking command, and ConnLifetime does not end it
// meanwhile. A dedicated connection would be told to unsubscribe when it goes back, see
// session.
func (w ackedRequest) send(
	ctx context.Context, client rueidis.Client, asking, withText bool,
) (text string, got store.Acks, err error) {
	var cmds []rueidis.Completed
	if asking {
		cmds = append(cmds, client.B().Asking().Build())
	}
	cmds = append(cmds, w.s.eval(ctx, client.B(), w.action, withText, w.keys, w.args))
	at := len(cmds) - 1
	ms := strconv.FormatInt(w.limit.Milliseconds(), 10)
	if w.need.Replicas > 0 {
		cmds = append(cmds, client.B().Arbitrary("WAIT").Args(strconv.Itoa(w.need.Replicas), ms).Blocking())
	}
	if w.need.LocalAOF > 0 || w.need.ReplicaAOF > 0 {
		cmds = append(cmds, client.B().Arbitrary("WAITAOF").
			Args(strconv.Itoa(w.need.LocalAOF), strconv.Itoa(w.need.ReplicaAOF), ms).Blocking())
	}
	results := client.DoMulti(ctx, cmds...)
	if text, err = (answer{result: results[at]}).text(); err != nil {
		return "", got, err
	}
	rest := results[at+1:]
	if w.need.Replicas > 0 {
		count, err := rest[0].AsInt64()
		if err != nil {
			return "", got, err
		}
		got.Replicas, rest = int(count), rest[1:]
	}
	if len(rest) > 0 {
		counts, err := rest[0].AsIntSlice()
		if err != nil || len(counts) != 2 {
			return "", got, err
		}
		got.LocalAOF, got.ReplicaAOF = int(counts[0]), int(counts[1])
	}
	return text, got, nil
}
