/*
 * lock.pml: one lock on one server, as docs/protocol.md has it: the queue, the
 * hand-over, expiry, and everything that a network does to requests, answers
 * and pushes. Three clients, every order of events, every time of faults.
 *
 * Time counts down. A lease is TTL ticks long; a tick may come between any two
 * steps. Nobody is late for a deadline of his own: what the client may do late
 * (its program wakes up and writes) is a step of its own, see write.
 *
 * A grant that is pushed is provisional: its lease is BRIEF ticks long until the
 * client has confirmed it, which any renewal or poll does.
 *
 * A script is one step. That a script which is cut off does no harm (it writes
 * first and publishes last) is not shown here but by the tests of the scripts.
 *
 * A request is in flight until the server has run it. Requests pass each other;
 * FAULTS of the following happen in one run, at any time: a client gives up
 * waiting for an answer (and the request is lost, or comes later), a request
 * runs twice, a push is lost, a subscription breaks, a client dies, a caller
 * gives up, a waiter's place expires, the server forgets everything.
 *
 * Each -D name below takes one rule out. scripts/model.sh runs them all, and
 * each must be found out by one of the assertions, or by a run that gets stuck.
 */

#define N 3        /* clients */
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef MORE
#define MORE 1     /* acquisitions in all, beyond one for each client */
#endif
#define A 2        /* attempts that one client can make */
#define TTL 2
#define BRIEF 1    /* the lease of a grant that is pushed, until it is confirmed */
#ifndef DELAY
#define DELAY 0    /* the lock-delay: the server keeps a lease for so much longer than its holder trusts it */
#endif
#ifndef STEPS
#define STEPS 0    /* how often the server's clock is set forward, by a tick */
#endif
#ifdef THE_DEADLINE_COUNTS_THE_DELAY
#define TRUST (TTL + DELAY)
#else
#define TRUST TTL
#endif
#ifdef A_PUSH_IS_TRUSTED_IN_ITS_DELAY
#define TRUST_PUSH BRIEF
#else
#define TRUST_PUSH (BRIEF - DELAY)
#endif
#define NONE 3

/* Requests in flight: a bit for each kind and attempt. */
#define ACQ(a) (1 << (a))
#define Acquire 1
#define Poll 2
#define Renew 3
#define Release 4
#define Cancel 5

mtype = { Idle, Ask, Wait, Look, Hold, Lost, Give, Done, Dead };
mtype = { Granted, Queued, Gone, Yes, No, Nothing };

/* The record. left is what remains of the lease; 0 with a holder: expired,
 * and not settled yet. order is not part of it: it numbers the grants truly,
 * and the assertions compare it with what the tokens say. */
byte holder = NONE, entry, left, fence, order;
byte who[N], which[N], waiting;

/* The clients. */
mtype st[N] = Idle;
mtype reply[N] = Nothing;
byte att[N], trust[N], asked[N], since[N], token[N], rank[N], given[N], given_rank[N];
byte said[N];                   /* the grants there had been when the server last said that the client waits */
short flight[N];
byte push[N], push_rank[N];     /* a grant on its way to the client, by token; 0: none */
bool listening[N] = true;
bool renewing[N], nudged[N];
byte undo[N];                   /* attempts that are cancelled until the record answers */
bool over[N];                   /* the last grant to this client has expired on the server */

/* A resource that remembers the highest token it saw. */
byte seen, seen_rank;

byte lost[N];                   /* since how many ticks the client has believed no more, up to DELAY */

byte faults = FAULTS, more = MORE, steps = STEPS;
bool forgot;                    /* the server has lost its memory: assumption A1 is broken */

/* Of one step, and idle between two. */
byte i, heir, got, job, no;
bool heard, late, heeded, quits;


inline expire() {
	if
	:: holder != NONE && left == 0 -> holder = NONE; entry = 0
	:: else
	fi
}

/* G3, I6. The token is above every earlier one; nobody who listens is passed. */
inline grant(c, a, front) {
	order++;
	i = 0;
	do
	:: i < front -> assert(who[i] == (c) || !listening[who[i]]); i++
	:: else -> break
	od;
	i = 0;
#ifdef INCR_ONLY
	fence++;
#else
#ifdef SAME_TOKEN_AT_HAND_OVER
	if
	:: front == waiting || fence == 0 -> fence = order
	:: else
	fi;
#else
	fence = order;          /* the server's clock: it rises, and no memory is needed for it */
#endif
#endif
	assert(holder == NONE);
	holder = c; entry = a; left = TTL + DELAY;
	over[c] = false
}

inline leave_queue(k) { /* the waiter at k leaves the queue */
	do
	:: k + 1 < waiting -> who[k] = who[k + 1]; which[k] = which[k + 1]; k++
	:: else -> break
	od;
	waiting--; who[waiting] = 0; which[waiting] = 0; k = 0
}

inline serve_queue(caller) {
	heir = 0;
	do
	:: holder == NONE && heir < waiting ->
#ifdef HAND_OVER_TO_THE_DEAD
		heard = true;
#else
		heard = who[heir] == (caller) || listening[who[heir]];
#endif
		if
		:: heard ->
			got = who[heir];
			grant(who[heir], which[heir], heir);
			if
			:: got != (caller) -> left = BRIEF
			:: else
			fi;
			/* I6: a client that is gone is not handed a lease to die with. */
			assert(got == (caller) || listening[got]);
			if
			:: got != (caller) && which[heir] == att[got] ->
				push[got] = fence; push_rank[got] = order
			:: else
			fi;
			leave_queue(heir);
			break
		:: else -> heir++
		fi
	:: else -> break
	od;
	heir = 0; got = 0; heard = false
}

/* I7: a script that serves the queue leaves no lock free, and none expired,
 * beside a waiter who listens. */
inline served() {
	i = 0;
	do
	:: i < waiting -> assert((holder != NONE && left > 0) || !listening[who[i]]); i++
	:: else -> break
	od;
	i = 0
}

inline place_of(c, a) { /* got: the place of the attempt, or NONE */
	i = 0; got = NONE;
	do
	:: i < waiting ->
		if
		:: who[i] == (c) && which[i] == (a) -> got = i
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

/* answer is heard by a client that still waits for it: one of this attempt. */
inline answer(c, a, what) {
	if
	:: att[c] == (a) -> reply[c] = what; given[c] = fence; given_rank[c] = order
	:: else
	fi
}

inline acquire(c, a) {
	expire();
	if
	:: holder == (c) && entry == (a) -> left = TTL + DELAY; if :: heeded -> answer(c, a, Granted) :: else fi
	:: else ->
		place_of(c, a);
		if
		:: got != NONE -> got = 0; serve_queue(c)
		:: else ->
			got = 0;
#ifndef NEWCOMER_OVERTAKES
			serve_queue(NONE);
#endif
			if
			:: holder == NONE -> grant(c, a, waiting)
			:: else -> who[waiting] = c; which[waiting] = a; waiting++
			fi
		fi;
		if
		:: heeded ->
			if
			:: holder == (c) && entry == (a) -> answer(c, a, Granted)
			:: else -> answer(c, a, Queued)
			fi
		:: else
		fi
	fi;
	served()
}

inline poll(c, a) {
#ifndef POLL_LEAVES_THE_DEAD_HOLDER
	expire();
#endif
	if
	:: holder == (c) && entry == (a) -> left = TTL + DELAY; if :: heeded -> answer(c, a, Granted) :: else fi
	:: else ->
		place_of(c, a);
		if
		:: got != NONE ->
			got = 0;
			serve_queue(c);
			if
			:: heeded ->
				if
				:: holder == (c) && entry == (a) -> answer(c, a, Granted)
				:: else -> answer(c, a, Queued)
				fi
			:: else
			fi;
		:: else ->
			got = 0;
			serve_queue(NONE);
			if :: heeded -> answer(c, a, Gone) :: else fi
		fi
	fi;
	served()
}

inline renew(c, a) {
#ifdef RENEWAL_REVIVES
	if
	:: holder == (c) && entry == (a) ->
#else
	if
	:: holder == (c) && entry == (a) && left > 0 ->
#endif
		assert(!over[c]);       /* what is over stays over */
		left = TTL + DELAY;
		if :: heeded -> answer(c, a, Yes) :: else fi
	:: else -> if :: heeded -> answer(c, a, No) :: else fi
	fi
}

inline release(c, a) {
#ifdef RELEASE_WITHOUT_COMPARING
	if
	:: holder != NONE ->
#else
	if
	:: holder == (c) && entry == (a) ->
#endif
		holder = NONE; entry = 0; left = 0;
#ifndef RELEASE_WITHOUT_HAND_OVER
		serve_queue(NONE);
#endif
		served()
	:: else
	fi;
	if :: heeded -> answer(c, a, Yes) :: else fi
}

inline cancel(c, a) {
	place_of(c, a);
	if
	:: got != NONE -> i = got; got = 0; leave_queue(i); expire(); serve_queue(NONE); undo[c] = undo[c] & ~(1 << (a))
#ifndef CANCEL_LOSES_A_GRANT
	:: got == NONE && holder == (c) && entry == (a) ->
		got = 0; holder = NONE; entry = 0; left = 0; serve_queue(NONE); undo[c] = undo[c] & ~(1 << (a))
#endif
	:: else ->
		got = 0;
		/* It cancels again while a request may still arrive. */
		if
		:: flight[c] & ACQ(a) -> skip
		:: else -> undo[c] = undo[c] & ~(1 << (a))
		fi
	fi;
	/* G7: what the cancel was answered is true. */
	assert((undo[c] & (1 << (a))) || !(holder == (c) && entry == (a) && left > 0))
}

/* The client's side. */
inline believe(c, age, lease) { /* the only place where trust begins or grows */
	if
	:: lease - (age) > trust[c] -> trust[c] = lease - (age)
	:: else
	fi;
	/* G2, I1 as clients see it: while one believes, nobody else does. */
	assert(forgot || trust[c] == 0 || (trust[(c + 1) % N] == 0 && trust[(c + 2) % N] == 0))
}

inline leave(c) { /* what the client knew of its attempt is of no use any more */
	push[c] = 0; push_rank[c] = 0; trust[c] = 0; renewing[c] = false; nudged[c] = false; reply[c] = Nothing;
	token[c] = 0; rank[c] = 0; asked[c] = 0; said[c] = 0; since[c] = 0; given[c] = 0; given_rank[c] = 0; lost[c] = 0
}

inline next(c) {
	leave(c);
	if
	:: more > 0 && att[c] + 1 < A -> more--; att[c]++; st[c] = Idle
	:: st[c] = Done
	fi
}

/* G5: the resource takes no older holder's write after a newer one's. */
inline write(c) {
	if
	:: token[c] >= seen -> assert(rank[c] >= seen_rank); seen = token[c]; seen_rank = rank[c]
	:: else
	fi;
	token[c] = 0; rank[c] = 0
}

inline begin(c, t, r, age, lease) {
	token[c] = t; rank[c] = r; push[c] = 0; push_rank[c] = 0; nudged[c] = false; reply[c] = Nothing;
	given[c] = 0; given_rank[c] = 0;
#ifdef DEADLINE_FROM_THE_ANSWER
	believe(c, 0, lease);
#else
	believe(c, age, lease);
#endif
	asked[c] = 0; said[c] = 0; since[c] = 0;
	if
	:: trust[c] > 0 -> st[c] = Hold; i = token[c]; heir = rank[c]; write(c); token[c] = i; rank[c] = heir; i = 0; heir = 0
	:: else -> st[c] = Lost; lost[c] = DELAY /* it never believed: its deadline has long passed */
	fi
}

#define unheard(c) reply[c] = Nothing; given[c] = 0; given_rank[c] = 0; since[c] = 0
#define give_up(c) undo[c] = undo[c] | (1 << att[c]); quits = true

/* Clients are alike: the one with the lower number comes first. */
#define turn(c) (c == 0 || att[c - 1] > 0 || st[c - 1] != Idle)

#ifdef NO_TIMER_BEHIND_THE_PUSH
#define looks(c) nudged[c]
#else
#define looks(c) (nudged[c] || left == 0 || asked[c] == TTL)
#endif

/* One round of the loop is one step. It begins with what the client or the
 * network does; then the server runs the job, if one came of it; then the
 * client ends its attempt, if it quits.
 *
 * To send at any time is to arrive at any time: so a request that the client
 * waits for runs as it is sent, and only its answer takes its time. What comes
 * later than its client waits, twice or not at all is a fault: see unlucky. */
proctype client(byte c) {
	do
	:: atomic {
		if
		/* ---- requests */
		:: st[c] == Idle && turn(c) -> since[c] = 0; job = Acquire; st[c] = Ask
		:: st[c] == Wait && looks(c) -> since[c] = 0; job = Poll; nudged[c] = false; st[c] = Look
		:: st[c] == Hold && !renewing[c] && trust[c] < TTL -> since[c] = 0; job = Renew; renewing[c] = true
		:: st[c] == Hold -> /* the context ends first, then the request goes out */
#ifndef RELEASE_BEFORE_THE_CONTEXT_ENDS
			trust[c] = 0;
#endif
			renewing[c] = false; unheard(c); job = Release; st[c] = Give
		:: flight[c] -> /* one that comes late */
			late = true;
			if
			:: flight[c] & 1 -> job = Acquire; flight[c] = flight[c] - 1
			:: flight[c] & 2 -> job = Acquire; no = 1; flight[c] = flight[c] - 2
			:: flight[c] & 4 -> job = Poll; flight[c] = flight[c] - 4
			:: flight[c] & 8 -> job = Poll; no = 1; flight[c] = flight[c] - 8
			:: flight[c] & 16 -> job = Renew; flight[c] = flight[c] - 16
			:: flight[c] & 32 -> job = Renew; no = 1; flight[c] = flight[c] - 32
			:: flight[c] & 64 -> job = Release; flight[c] = flight[c] - 64
			:: flight[c] & 128 -> job = Release; no = 1; flight[c] = flight[c] - 128
			fi
		:: undo[c] & 1 -> job = Cancel; late = true; no = 0
		:: undo[c] & 2 -> job = Cancel; late = true; no = 1

		/* ---- answers and pushes */
		:: (st[c] == Ask || st[c] == Look) && reply[c] == Granted -> begin(c, given[c], given_rank[c], since[c], TRUST)
		:: (st[c] == Ask || st[c] == Look) && reply[c] == Queued -> asked[c] = since[c]; said[c] = given_rank[c]; unheard(c); st[c] = Wait
		:: st[c] == Look && reply[c] == Gone ->
#ifdef ATTEMPT_USED_AGAIN
			unheard(c); job = Acquire; st[c] = Ask
#else
			quits = true
#endif
		:: st[c] == Wait && push[c] != 0 ->
#ifdef PUSH_COUNTED_FROM_ITS_ARRIVAL
			begin(c, push[c], push_rank[c], 0, BRIEF)
#else
			if
#ifdef PUSH_FROM_BEFORE_THE_LAST_WORD
			:: asked[c] < BRIEF -> begin(c, push[c], push_rank[c], asked[c], BRIEF)
#else
#ifdef PUSH_TRUSTED_FOR_A_WHOLE_LEASE
			:: asked[c] < TTL && push_rank[c] > said[c] -> begin(c, push[c], push_rank[c], asked[c], TTL)
#else
			:: asked[c] < TRUST_PUSH && push_rank[c] > said[c] -> begin(c, push[c], push_rank[c], asked[c], TRUST_PUSH)
#endif
#endif
			:: else -> push[c] = 0; push_rank[c] = 0; nudged[c] = true
			fi
#endif
		:: !listening[c] && st[c] != Dead -> /* it subscribes again, and looks */
			listening[c] = true; nudged[c] = (st[c] == Wait || st[c] == Look)
		:: renewing[c] && reply[c] == Yes -> renewing[c] = false; believe(c, since[c], TRUST); unheard(c)
		:: renewing[c] && reply[c] == No -> renewing[c] = false; unheard(c); trust[c] = 0; st[c] = Lost; lost[c] = DELAY
		:: st[c] == Give && reply[c] == Yes -> quits = true
		:: st[c] == Lost && token[c] != 0 -> /* its program was paused, and goes on */
			/* G37: a pause that is shorter than the lock-delay meets nobody, at a resource that checks nothing. */
			assert(forgot || steps < STEPS || lost[c] >= DELAY || (trust[(c + 1) % N] == 0 && trust[(c + 2) % N] == 0));
			write(c)
		:: st[c] == Lost && lost[c] >= DELAY -> give_up(c) /* release_after keeps a lost lock for so long */

		/* ---- more faults */
		:: faults > 0 && push[c] != 0 -> faults--; push[c] = 0; push_rank[c] = 0
		:: faults > 0 && listening[c] && (st[c] == Wait || st[c] == Look) -> faults--; listening[c] = false
		:: faults > 0 && (st[c] == Ask || st[c] == Wait || st[c] == Look) -> /* the caller gives up */
			faults--; give_up(c)
		:: faults > 0 && st[c] != Done && st[c] != Dead && st[c] != Idle -> /* the process dies */
			faults--; leave(c); undo[c] = 0; listening[c] = false; st[c] = Dead
		:: c == 0 && faults > 0 && !forgot -> /* FLUSHALL, or a restart without persistence */
			faults--; forgot = true;
			holder = NONE; entry = 0; left = 0; fence = 0; waiting = 0;
			who[0] = 0; who[1] = 0; who[2] = 0; which[0] = 0; which[1] = 0; which[2] = 0
		:: c == 0 && steps > 0 && left > 0 -> /* G38: believe looks whether that lets somebody in */
			steps--; left--;
			if :: left == 0 -> over[holder] = true :: else fi
		:: waiting > 0 && who[0] == c && (st[c] == Dead || (faults > 0 && !listening[c])) ->
			if :: st[c] == Dead :: else -> faults-- fi;     /* its place expires */
			got = 0; leave_queue(got)
		:: (st[c] == Done || st[c] == Dead) && flight[c] == 0 && undo[c] == 0 -> break
		fi;

		heeded = !late;
		if
		:: job == 0 || late -> skip
		:: job != 0 && !late -> no = att[c]
		:: job != 0 && !late && faults > 0 -> /* unlucky: a copy comes later */
			faults--; no = att[c]; late = true; flight[c] = flight[c] | ((1 << (2 * (job - 1))) << no)
		:: job != 0 && !late && faults > 0 -> /* unlucky: no answer in time */
			faults--; no = att[c]; heeded = false;
			if
			:: skip
			:: flight[c] = flight[c] | ((1 << (2 * (job - 1))) << no); job = 0
			:: job = 0
			fi;
			if
			:: st[c] == Ask || st[c] == Give -> give_up(c)
			:: st[c] == Look -> st[c] = Wait
			:: else -> renewing[c] = false
			fi
		fi;
		if
		:: job == Acquire -> acquire(c, no)
		:: job == Poll -> poll(c, no)
		:: job == Renew -> renew(c, no)
		:: job == Release -> release(c, no)
		:: job == Cancel -> cancel(c, no)
		:: else
		fi;
		if
		:: quits -> next(c)
		:: else
		fi;
		job = 0; late = false; no = 0; heeded = false; quits = false }
	od
}

/* A tick. It comes only while it changes something, so that a run that waits
 * for what will never come is a run that is stuck, and Spin says so. */
inline tick(c) {
	if
	:: st[c] == Lost && lost[c] < DELAY -> lost[c]++
	:: else
	fi;
#ifndef NO_TRUST_DEADLINE
	if
	:: trust[c] > 0 ->
		trust[c]--;
		if
		:: trust[c] == 0 && st[c] == Hold -> st[c] = Lost; renewing[c] = false; reply[c] = Nothing;
			given[c] = 0; given_rank[c] = 0; since[c] = 0
		:: else
		fi
	:: else
	fi;
#endif
	if
	:: (st[c] == Ask || st[c] == Look || renewing[c]) && since[c] < TTL -> since[c]++
	:: else
	fi;
	if
	:: (st[c] == Wait || st[c] == Look) && asked[c] < TTL -> asked[c]++
	:: else
	fi
}

#define ages(c) (trust[c] > 0 || (st[c] == Lost && lost[c] < DELAY) || ((st[c] == Wait || st[c] == Look) && asked[c] < TTL) || \
	((st[c] == Ask || st[c] == Look || renewing[c]) && since[c] < TTL))

proctype clock() {
end:	do
	:: atomic { (left > 0 || ages(0) || ages(1) || ages(2)) ->
		if
		:: left > 0 ->
			left--;
			if :: left == 0 -> over[holder] = true :: else fi
		:: else
		fi;
		tick(0); tick(1); tick(2) }
	od
}

init { atomic { run client(0); run client(1); run client(2); run clock() } }
