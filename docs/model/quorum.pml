/*
 * quorum.pml: fencing tokens over independent servers. A token is made in two
 * phases: the client is granted by a majority and reads their fences; then it
 * writes one more than the highest to those of them that still count it as
 * their holder, and the token is valid once a majority has written it.
 *
 * There is no time here: any node may end any hold at any moment, as clocks
 * that jump would make it. What is proven is that tokens need no clock: they
 * are never given twice, and rise from one holder to the next.
 *
 * Requests run on each node at any time, in any order, or never. Each -D name
 * takes a rule out, and must fail.
 */

#define NODES 3
#define CLIENTS 3
#define NONE 7
#ifdef ONE_NODE_IS_ENOUGH
#define MAJORITY 1
#else
#define MAJORITY 2
#endif

byte holder[NODES] = NONE, fence[NODES];

/* What client c knows. granted, asked and written are sets of nodes. */
byte phase[CLIENTS];            /* 0 not begun, 1 acquires, 2 writes its token, 3 done */
byte granted[CLIENTS], asked[CLIENTS], written[CLIENTS];
byte token[CLIENTS], highest[CLIENTS];
byte floor[CLIENTS];            /* the highest valid token when the client began */

byte valid;                     /* the highest valid token; the assertions' own memory */
byte used;                      /* the set of valid tokens */

#define in(set, n) ((set) & (1 << (n)))
#define count(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1))

inline validate(c) {
	assert(!in(used, token[c]));            /* no token is valid twice */
	assert(token[c] > floor[c]);            /* above all that were valid before the client began */
	used = used | (1 << token[c]);
	if
	:: token[c] > valid -> valid = token[c]
	:: else
	fi;
	/* What it knew is of no use any more, and it holds on where it holds. */
	phase[c] = 3; granted[c] = 0; asked[c] = 0; written[c] = 0; token[c] = 0; highest[c] = 0; floor[c] = 0
}

#define NODE(n) \
	:: atomic { phase[c] == 1 && !in(asked[c], n) && holder[n] == NONE -> /* granted */ \
		asked[c] = asked[c] | (1 << n); holder[n] = c; granted[c] = granted[c] | (1 << n); \
		if \
		:: fence[n] > highest[c] -> highest[c] = fence[n] \
		:: else \
		fi } \
	:: atomic { phase[c] == 2 && in(granted[c], n) && !in(written[c], n) && KEPT(n) -> /* written */ \
		if \
		:: fence[n] < token[c] -> fence[n] = token[c] \
		:: else \
		fi; \
		written[c] = written[c] | (1 << n); \
		if \
		:: count(written[c]) >= MAJORITY -> validate(c) \
		:: else \
		fi } \
	TOPPED_UP(n) \
	:: atomic { holder[n] == c -> holder[n] = NONE } /* released, or over by the node's clock */

#ifdef WRITTEN_WITHOUT_HOLDING
#define KEPT(n) true
#else
#define KEPT(n) (holder[n] == c)
#endif

/* A node that grants after the highest fence was taken has one of its own. */
#ifdef LATE_NODE_COUNTS
#define TOPPED_UP(n) \
	:: atomic { phase[c] == 2 && !in(granted[c], n) && holder[n] == NONE -> \
		holder[n] = c; granted[c] = granted[c] | (1 << n) }
#else
#define TOPPED_UP(n)
#endif

proctype client(byte c) {
end:	do
	/* Clients are alike: the one with the lower number comes first. */
	:: atomic { phase[c] == 0 && (c == 0 || phase[c - 1] > 0) -> floor[c] = valid; phase[c] = 1 }
	NODE(0)
	NODE(1)
	NODE(2)
	:: atomic { phase[c] == 1 && count(granted[c]) >= MAJORITY ->
		phase[c] = 2; token[c] = highest[c] + 1
#ifdef ONE_PHASE
		;
		validate(c)
#endif
	   }
	od      /* a client that dies is one that never takes its next step */
}

#ifdef A_NODE_LOSES_ITS_MEMORY
active proctype restart() {
	if
	:: atomic { holder[2] = NONE; fence[2] = 0 }
	:: skip
	fi
}
#endif

init { atomic { run client(0); run client(1); run client(2) } }
