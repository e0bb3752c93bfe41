package main

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
var inAdapters = []mutant{{
	name: "a listener gets a message before its subscription is confirmed",
	file: receiving,
	old:  "\t\tif slices.ContainsFunc(subs, unconfirmed) {\n",
	mut:  "\t\tif false && slices.ContainsFunc(subs, unconfirmed) {\n",
	by:   []check{refusing, allGoRedis},
}, {
	name: "a listener that has stopped is told of messages",
	file: subscribing,
	old:  "	if !sub.stopped && f != nil {\n",
	mut:  "	if f != nil {\n",
	by:   []check{refusing, allGoRedis},
}, {
	name: "no listener is told that its subscription is restored",
	file: receiving,
	old:  "			resumed = append(resumed, sub)\n",
	mut:  "			continue\n",
	by:   []check{refusing, allGoRedis},
}, {
	name: "the end of a subscription does not wait until the server has let go",
	file: subscribing,
	old:  "		case <-left:\n		case <-late.C:\n",
	mut:  "		case <-left:\n		default:\n",
	by:   []check{refusing, allGoRedis},
}, {
	name: "what is not subscribed to after a break is believed to be",
	file: receiving,
	old:  "\t\tc.subscribeSent, c.confirmed = false, false\n\t\tf.toSubscribe = append(f.toSubscribe, name)\n",
	mut:  "\t\tc.subscribeSent, c.confirmed = true, true\n",
	by:   []check{refusing, allGoRedis},
}, {
	name: "a refused subscription fails only with its time limit",
	file: receiving,
	old:  "\t\tc.refuse(err)\n\t\tliveListener = liveListener || c.hasLiveListener()\n",
	mut:  "\t\tliveListener = liveListener || c.hasLiveListener()\n",
	by:   []check{refusing, allGoRedis},
}, {
	name: "a slot that has moved leaves its channels where they were",
	file: receiving,
	old: "\tif c := h.channels[name]; c != nil && c.feed == f && c.subscribeSent && h.Driver.Nodes != nil {\n" +
		"\t\th.unassign(name, c, \"\")\n\t}\n",
	mut: "",
	by:  []check{refusing, allGoRedis},
}, {
	name: "a channel with a new listener is unsubscribed",
	file: receiving,
	old:  "\t\tcase c != nil && c.feed == f:\n\t\t\th.endUnsubscribe(name) // it has a listener again\n",
	mut:  "\t\tcase c != nil && c.feed == f && c.confirmed:\n\t\t\th.endUnsubscribe(name) // it has a listener again\n",
	by:   []check{refusing, allGoRedis},
}, {
	name: "a request that may have run counts as one that was never sent",
	file: retrying,
	old:  "\t\tif failure != NotSent {\n\t\t\tbroke = err\n\t\t}\n",
	mut:  "",
	by:   []check{refusing, allGoRedis},
}, {
	name: "a time limit that has passed is a connection that broke",
	file: retrying,
	old:  "	case op.Timeout():\n		return Final\n",
	mut:  "",
	by:   []check{refusing, allGoRedis},
}, {
	name: "a port that nobody listens at is a connection that broke",
	file: retrying,
	old:  "\tcase op.Op == \"dial\":\n\t\treturn NotSent\n",
	mut:  "",
	by:   []check{refusing, allGoRedis},
}, {
	name: "a replica that was the primary is the last word",
	file: retrying,
	old:  "\"CLUSTERDOWN\", \"READONLY\", ",
	mut:  "\"CLUSTERDOWN\", ",
	by:   []check{refusing, allGoRedis},
}, {
	name: "a request is sent again after its deadline",
	file: retrying,
	old: "	if Ended(ctx) {\n		return cmp.Or(ctx.Err(), context.DeadlineExceeded)\n	}\n" +
		"	if attempt == 0 {\n",
	mut: "	if attempt == 0 {\n",
	by:  []check{refusing, allGoRedis},
}, {
	name: "a refused channel replaces the connection of the others",
	file: "internal/adapter/feed.go",
	old:  "refuse(c) && !liveListener {",
	mut:  "refuse(c) && liveListener {",
	by:   []check{refusing},
}, {
	name: "clients that lost their server together reconnect at the same time",
	file: "internal/backoff/backoff.go",
	old:  "	return longest/2 + time.Duration(spread*",
	mut:  "	return longest/2 + time.Duration(0*spread*",
	by:   []check{refusing},
}, {
	name: "a script's own message is a code",
	file: "internal/adapter/refusals.go",
	old:  "	if len(word) < 3 || ",
	mut:  "	if len(word) < 1 || ",
	by:   []check{refusing},
}, {
	name: "a redirection without a host is followed",
	file: "internal/adapter/refusals.go",
	old:  "err != nil || strings.HasPrefix(words[2], \":\") || strings.HasPrefix(words[2], \"?\")",
	mut:  "err != nil",
	by:   []check{refusing, allGoRedis},
}, {
	name: "an ASK is followed like a MOVED",
	file: "internal/adapter/refusals.go",
	old:  "	return slot, words[2], refused.Code == \"ASK\", true\n",
	mut:  "	return slot, words[2], false, true\n",
	by:   []check{refusing},
}, {
	name: "a key's slot is not that of its hash tag",
	file: "internal/slot/slot.go",
	old:  "tag, _, found := strings.Cut(tail, \"}\"); found && tag != \"\" {",
	mut:  "tag, _, found := strings.Cut(tail, \"}\"); found && tag == \"\" {",
	by:   []check{slots},
}, {
	name: "goredis: a refusal after a broken connection is definite",
	file: "store/goredis/errors.go",
	old:  "\t\tif broke == nil {\n\t\t\treturn refusal\n\t\t}\n",
	mut:  "\t\treturn refusal\n",
	by:   []check{allGoRedis},
}, {
	name: "goredis: a word of another request is sent",
	file: "store/goredis/words.go",
	old:  "same, _ := before[i].(string); same == word {",
	mut:  "_, same := before[i].(string); same {",
	by:   []check{allGoRedis},
}, {
	name: "goredis: what lingers keeps the store's own connections",
	file: "store/goredis/reserve.go",
	old:  "\tcase r.closing:\n",
	mut:  "	case false:\n",
	by:   []check{allGoRedis},
}, {
	name: "goredis: renewals wait for the user's own requests",
	file: "store/goredis/reserve.go",
	old:  "\tcase script.Renew.Name:\n\t\treturn renewing\n",
	mut:  "",
	by:   []check{allGoRedis},
}, {
	name: "rueidis: a refusal after a broken connection is definite",
	file: "store/rueidis/errors.go",
	old:  "\t\tif broke == nil {\n\t\t\treturn refusal\n\t\t}\n",
	mut:  "\t\treturn refusal\n",
	by:   []check{allRueidis},
}, {
	name: "rueidis: the end of another request's context is the caller's",
	file: "store/rueidis/errors.go",
	old:  "	if foreign(ctx, err) {\n",
	mut:  "	if false && foreign(ctx, err) {\n",
	by:   []check{allRueidis},
}, {
	name: "rueidis: a refusal has no code",
	file: "store/rueidis/errors.go",
	old:  "		return adapter.Refusal(\"ERR \" + message)\n",
	mut:  "		return refusal\n",
	by:   []check{allRueidis},
}}
