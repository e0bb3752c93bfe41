package main

import "slices"

// Where what the two stores have in common is decided.
const (
	subscribing = "internal/adapter/hub.go"
	receiving   = "internal/adapter/feed.go"
	retrying    = "internal/adapter/retry.go"
)

// The stores with their client libraries, each on a server of its own.
var (
	allGoRedis = check{"store tests", "store/goredis", []string{"."}}
	allRueidis = check{"store tests", "store/rueidis", []string{"."}}
	slots      = check{"unit tests", ".", []string{"./internal/slot"}}
)

// inAdapters are those of subscriptions, of requests that are sent again, and of the two
// stores.
var inAdapters = slices.Concat(in(receiving, by{refusing, allGoRedis}, []mutant{{
	name: "a listener gets a message before its subscription is confirmed",
	old:  "\t\tif slices.ContainsFunc(subs, unconfirmed) {\n",
	mut:  "\t\tif false && slices.ContainsFunc(subs, unconfirmed) {\n",
}, {
	name: "no listener is told that its subscription is restored",
	old:  "			resumed = append(resumed, sub)\n",
	mut:  "			continue\n",
}, {
	name: "what is not subscribed to after a break is believed to be",
	old:  "\t\tc.subscribeSent, c.confirmed = false, false\n\t\tf.toSubscribe = append(f.toSubscribe, name)\n",
	mut:  "\t\tc.subscribeSent, c.confirmed = true, true\n",
}, {
	name: "a refused subscription fails only with its time limit",
	old:  "\t\tc.refuse(err)\n\t\tliveListener = liveListener || c.hasLiveListener()\n",
	mut:  "\t\tliveListener = liveListener || c.hasLiveListener()\n",
}, {
	name: "a slot that has moved leaves its channels where they were",
	old: "\tif c := h.channels[name]; c != nil && c.feed == f && c.subscribeSent && h.Driver.Nodes != nil {\n" +
		"\t\th.unassign(name, c, \"\")\n\t}\n",
	mut: "",
}, {
	name: "a channel with a new listener is unsubscribed",
	old:  "\t\tcase c != nil && c.feed == f:\n\t\t\th.endUnsubscribe(name) // it has a listener again\n",
	mut:  "\t\tcase c != nil && c.feed == f && c.confirmed:\n\t\t\th.endUnsubscribe(name) // it has a listener again\n",
}}), in(subscribing, by{refusing, allGoRedis}, []mutant{{
	name: "a listener that has stopped is told of messages",
	old:  "	if !sub.stopped && f != nil {\n",
	mut:  "	if f != nil {\n",
}, {
	name: "the end of a subscription does not wait until the server has let go",
	old:  "		case <-left:\n		case <-late.C:\n",
	mut:  "		case <-left:\n		default:\n",
}}), in(retrying, by{refusing, allGoRedis}, []mutant{{
	name: "a request that may have run counts as one that was never sent",
	old:  "\t\tif failure != NotSent {\n\t\t\tbroke = err\n\t\t}\n",
	mut:  "",
}, {
	name: "the end of a context hides why nothing was sent",
	old:  "cmp.Or(unsent, err)",
	mut:  "cmp.Or(err, unsent)",
}, {
	name: "a time limit that has passed is a connection that broke",
	old:  "	case op.Timeout():\n		return Final\n",
	mut:  "",
}, {
	name: "a port that nobody listens at is a connection that broke",
	old:  "\tcase op.Op == \"dial\":\n\t\treturn NotSent\n",
	mut:  "",
}, {
	name: "a replica that was the primary is the last word",
	old:  "\"CLUSTERDOWN\", \"READONLY\", ",
	mut:  "\"CLUSTERDOWN\", ",
}, {
	name: "a request is sent again after its deadline",
	old: "	if Ended(ctx) {\n		return cmp.Or(ctx.Err(), context.DeadlineExceeded)\n	}\n" +
		"	if retries == 0 {\n",
	mut: "	if retries == 0 {\n",
}}), in("internal/adapter/feed.go", by{refusing}, []mutant{{
	name: "a refused channel replaces the connection of the others",
	old:  "refuse(c) && !liveListener {",
	mut:  "refuse(c) && liveListener {",
}}), in("internal/backoff/backoff.go", by{refusing}, []mutant{{
	name: "clients that lost their server together reconnect at the same time",
	old:  "	return longest/2 + time.Duration(spread*",
	mut:  "	return longest/2 + time.Duration(0*spread*",
}}), in("internal/adapter/refusals.go", by{refusing}, []mutant{{
	name: "a script's own message is a code",
	old:  "	if len(word) < 3 || ",
	mut:  "	if len(word) < 1 || ",
}, {
	name: "an ASK is followed like a MOVED",
	old:  "	return slot, words[2], refused.Code == \"ASK\", true\n",
	mut:  "	return slot, words[2], false, true\n",
}}), in("internal/adapter/refusals.go", by{refusing, allGoRedis}, []mutant{{
	name: "a redirection without a host is followed",
	old:  "err != nil || strings.HasPrefix(words[2], \":\") || strings.HasPrefix(words[2], \"?\")",
	mut:  "err != nil",
}}), in("internal/slot/slot.go", by{slots}, []mutant{{
	name: "a key's slot is not that of its hash tag",
	old:  "tag, _, found := strings.Cut(tail, \"}\"); found && tag != \"\" {",
	mut:  "tag, _, found := strings.Cut(tail, \"}\"); found && tag == \"\" {",
}}), in("store/goredis/errors.go", by{allGoRedis}, []mutant{{
	name: "goredis: a refusal after a broken connection is definite",
	old:  "\t\tif broke == nil {\n\t\t\treturn refusal\n\t\t}\n",
	mut:  "\t\treturn refusal\n",
}}), in("store/goredis/goredis.go", by{allGoRedis}, []mutant{{
	name: "goredis: a subscription stays at a server that has become a replica",
	old:  "if adapter.FromReplica(refusal) && s.cluster == nil {",
	mut:  "if false {",
}}), in("store/goredis/session.go", by{allGoRedis}, []mutant{{
	name: "goredis: a replica's count of subscriptions is believed",
	old:  "case info.Role == \"replica\":",
	mut:  "case false:",
}, {
	name: "goredis: a subscription is checked at the old server for ever",
	old:  "\t\ts.single.leave(f.Context, true)\n",
	mut:  "",
}, {
	name: "goredis: a subscription that replaced another is not checked",
	old:  "return time.After(0), errReplaced",
	mut:  "return nil, errReplaced",
}}), in("store/goredis/noretry.go", by{allGoRedis}, []mutant{{
	name: "goredis: requests stay at a replica that has lost its primary",
	old:  "refusal.Code == \"MASTERDOWN\" {",
	mut:  "refusal.Code == \"\" {",
}}), in("store/goredis/words.go", by{allGoRedis}, []mutant{{
	name: "goredis: a word of another request is sent",
	old:  "same, _ := before[i].(string); same == word {",
	mut:  "_, same := before[i].(string); same {",
}}), in("store/goredis/reserve.go", by{allGoRedis}, []mutant{{
	name: "a lease is lost because the server refuses a new connection",
	old:  " && (refusal == nil || !r.full()) {",
	mut:  " && refusal == nil {",
}, {
	name: "a lease is lost because the server has its first password",
	old:  " || refusal != nil && refusal.Code == \"NOAUTH\" // nothing has run",
	mut:  "",
}, {
	name: "goredis: what lingers keeps the store's own connections",
	old:  "\tcase r.closing:\n",
	mut:  "	case false:\n",
}, {
	name: "goredis: renewals wait for the user's own requests",
	old:  "\tcase script.Renew.Name:\n\t\treturn renewing\n",
	mut:  "",
}}), in("store/rueidis/errors.go", by{allRueidis}, []mutant{{
	name: "rueidis: a refusal after a broken connection is definite",
	old:  "\t\tif broke == nil {\n\t\t\treturn refusal\n\t\t}\n",
	mut:  "\t\treturn refusal\n",
}, {
	name: "rueidis: the end of another request's context is the caller's",
	old:  "	if foreign(ctx, err) {\n",
	mut:  "	if false && foreign(ctx, err) {\n",
}, {
	name: "rueidis: a refusal has no code",
	old:  "		return adapter.Refusal(\"ERR \" + message)\n",
	mut:  "		return refusal\n",
}}), in("store/rueidis/moved.go", by{allRueidis}, []mutant{{
	name: "rueidis: requests stay at a server that has become a replica",
	old:  "return err != nil && s.mode",
	mut:  "return false && err != nil && s.mode",
}, {
	name: "rueidis: a late refusal ends a connection to the new primary",
	old:  "	if !fromReplica(s.client.Do(ctx, s.client.B().Arbitrary(\"HELLO\").Build())) {\n\t\treturn\n\t}\n",
	mut:  "	_ = s.client.Do(ctx, s.client.B().Arbitrary(\"HELLO\").Build())\n",
}}), in("store/rueidis/session.go", by{allRueidis}, []mutant{{
	name: "rueidis: a subscription stays at a server that has become a replica",
	old:  "\t\t\tif atReplica(f, sub.conn) {\n",
	mut:  "\t\t\tif false {\n",
}}))
