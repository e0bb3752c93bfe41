package main

// sides in the order of every plot and table, with a colour each. Those without one are in the tables only.
var sides = []struct{ name, colour string }{
	{"holdfast-goredis", "#0b5394"},
	{"holdfast-goredis-plain", ""},
	{"holdfast-rueidis", "#3d85c6"},
	{"holdfast-rueidis-plain", ""},
	{"redsync-goredis", "#b45f06"},
	{"redsync-rueidis", "#e69138"},
	{"redislock-goredis", "#990000"},
	{"rueidislock1-rueidis", "#38761d"},
	{"rueidislock3-rueidis", "#93c47d"},
	{"etcd", "#674ea7"},
}

// plots are all plots. Each but the linear one has a logarithmic scale, because the locks differ by
// powers of ten.
var plots = []plot{
	{
		name: "rate", title: "Acquisitions a second, one lock, nothing to do under it (higher is better)",
		metric: "acq/s",
		points: []point{{"fight-1x16", "1 process × 16"}, {"fight-4x4", "4 processes × 4"}},
	},
	{
		name: "worst-wait", title: "The longest wait for a turn, ms (lower is better)", metric: "worst-wait-ms",
		points: []point{{"fight-1x16", "1 process × 16"}, {"fight-4x4", "4 × 4"},
			{"section-10ms", "4 × 4, 10 ms each"}},
	},
	{
		name: "hand-over", title: "From Release to the next one's Lock, p50 in ms (lower is better)",
		metric: "p50-ms",
		points: []point{{"hand-over-1", "1 waiter"}, {"hand-over-50", "50 waiters"}},
	},
	{
		name: "section", title: "Acquisitions a second by the length of the critical section",
		metric: "acq/s", curve: true,
		points: []point{{"fight-4x4", "0"}, {"section-1ms", "1 ms"}, {"section-10ms", "10 ms"}},
	},
	{
		name: "locks", title: "Acquisitions a second by the number of locks, 64 goroutines in 4 processes",
		metric: "acq/s",
		curve:  true, points: []point{{"locks-1", "1"}, {"locks-100", "100"}, {"locks-10000", "10,000"}},
	},
	{
		name: "line", title: "Acquisitions a second by the number of waiting clients, 1 ms each", metric: "acq/s",
		curve: true, points: []point{{"line-10", "10"}, {"line-100", "100"}, {"line-1000", "1,000"}},
	},
	{
		name: "line-jain", title: "Fairness (Jain) by the number of waiting clients, 1 ms each: 1 is perfectly fair",
		metric: "jain", curve: true, linear: true,
		points: []point{{"line-10", "10"}, {"line-100", "100"}, {"line-1000", "1,000"}},
	},
	{
		name: "held", title: "Server µs for one renewal, by the number of held leases", metric: "server-µs/renewal",
		curve: true, benchmark: "ScaleHeld", points: []point{{"1000", "1,000"},
			{"10000", "10,000"}, {"100000", "100,000"}},
	},
	{
		name: "waiters", title: "Server µs for one turn, by the number of waiters of one client", metric: "turn-µs",
		curve: true, benchmark: "ScaleWaiters",
		points: []point{{"10", "10"}, {"100", "100"}, {"1000", "1,000"}, {"10000", "10,000"}},
	},
}
