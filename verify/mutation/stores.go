package main

import "slices"

// inStores are those of requests and subscriptions over a client library.
var inStores = slices.Concat(in("internal/adapter/feed.go", unit("./internal/adapter"), []mutant{{
	name: "what is not subscribed to after a break is believed to be",
	by:   "TestAListenerLooksWhenItsSubscriptionIsRestored",
	old:  "\t\tc.subscribeSent, c.confirmed = false, false\n\t\tf.toSubscribe = append(f.toSubscribe, name)\n",
	mut:  "\t\tc.subscribeSent, c.confirmed = true, true\n",
}, {
	name: "a slot that has moved leaves its channels where they were",
	by:   "TestAChannelFollowsItsSlot",
	old: "\tif c := h.channels[name]; c != nil && c.feed == f && c.subscribeSent && h.Driver.Nodes != nil {\n" +
		"\t\th.unassign(name, c, \"\")\n\t}\n",
	mut: "",
}, {
	name: "a redirection leaves the channels of its slot where they were",
	by:   "TestAChannelFollowsARedirection",
	old:  "!c.confirmed && slot.Of(name) == n {",
	mut:  "!c.confirmed && slot.Of(name) == n && false {",
}}), in("internal/adapter/retry.go", unit("./internal/adapter"), []mutant{{
	name: "a request that may have run counts as one that was never sent",
	by:   "TestARefusalAfterABrokenConnectionProvesNothing",
	old:  "\t\tif failure != NotSent {\n\t\t\tbroke = err\n\t\t}\n",
	mut:  "",
}}), in("internal/adapter/retry.go", goredis, []mutant{{
	name: "goredis: a refusal after a broken connection is definite",
	by:   "TestRequests",
	old:  "\t\tif broke == nil {\n\t\t\treturn refusal\n\t\t}\n",
	mut:  "\t\treturn refusal\n",
}}), in("internal/pushes/listeners.go", goredis, []mutant{{
	name: "a subscription's end does not wait for a function of its listener",
	by:   "TestConformance",
	old:  "\tl.mu.Lock()\n\tdefer l.mu.Unlock()\n\tl.ended = true\n",
	mut:  "\tif l.mu.TryLock() {\n\t\tdefer l.mu.Unlock()\n\t}\n\tl.ended = true\n",
}}), in("store/goredis/goredis.go", goredis, []mutant{{
	name: "goredis: a subscription stays at a server that has become a replica",
	by:   "TestASubscriptionFollowsTheAddressToAnotherServer",
	old:  "if adapter.FromReplica(refusal) && s.cluster == nil {",
	mut:  "if false {",
}}), in("internal/adapter/retry.go", goredis, []mutant{{
	name: "a request that must not run twice is sent again",
	by:   "TestRequests",
	old:  "if !repeats && (failure == Broken || failure == Lost) {",
	mut:  "if false {",
}}), in("store/goredis/own.go", goredis, []mutant{{
	name: "goredis: it makes more connections than the client's pool may have",
	by:   "TestARenewalPassesAllOtherRequests",
	old:  "max(rdb.Options().PoolSize, 1)",
	mut:  "max(rdb.Options().PoolSize, 100)",
}, {
	name: "goredis: other requests take the places that are for renewals",
	by:   "TestPlacesThatOnlyRenewalsTake",
	old:  "\tif how == ordinary {\n\t\tspare = nil\n",
	mut:  "\tif how == ordinary && false {\n\t\tspare = nil\n",
}, {
	name: "goredis: a connection is given up although the server has not answered elsewhere",
	by:   "TestASilentServerGetsNothingTwice",
	old:  "		if answered {\n			o.giveUp(asked)\n",
	mut:  "		if true {\n			o.giveUp(asked)\n",
}}), in("internal/adapter/retry.go", rueidis, []mutant{{
	name: "rueidis: a refusal after a broken connection is definite",
	by:   "TestRequests",
	old:  "\t\tif broke == nil {\n\t\t\treturn refusal\n\t\t}\n",
	mut:  "\t\treturn refusal\n",
}}), in("store/rueidis/session.go", rueidis, []mutant{{
	name: "rueidis: a subscription stays at a server that has become a replica",
	by:   "TestASubscriptionFollowsTheAddressToAnotherServer",
	old:  "\t\t\tif atReplica(f, sub.conn) {\n",
	mut:  "\t\t\tif false {\n",
}}), in("store/goredis/acks.go", goredis, []mutant{{
	name: "goredis: WAITAOF's numbers are swapped",
	by:   "TestRequests/TheDisksThatHaveItAreCounted",
	old:  "need.LocalAOF, need.ReplicaAOF, limit",
	mut:  "need.ReplicaAOF, need.LocalAOF, limit",
}}), in("store/rueidis/acks.go", rueidis, []mutant{{
	name: "rueidis: WAITAOF's numbers are swapped",
	by:   "TestRequests/TheDisksThatHaveItAreCounted",
	old:  "strconv.Itoa(w.need.LocalAOF), strconv.Itoa(w.need.ReplicaAOF)",
	mut:  "strconv.Itoa(w.need.ReplicaAOF), strconv.Itoa(w.need.LocalAOF)",
}}))
