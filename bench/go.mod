module github.com/holdfast-go/holdfast/bench

go 1.26.0

require (
	github.com/bsm/redislock v0.10.0
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/store/goredis v0.0.0
	github.com/holdfast-go/holdfast/store/rueidis v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da
	golang.org/x/sync v0.25.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/net v0.61.0 // indirect
)

// Nothing is published yet: the modules of this repository are taken from the
// tree beside this one, with and without the workspace.
replace (
	github.com/holdfast-go/holdfast => ../
	github.com/holdfast-go/holdfast/store/goredis => ../store/goredis
	github.com/holdfast-go/holdfast/store/rueidis => ../store/rueidis
)

// redsync's own tests import it. Nothing of it is built here, but go mod tidy
// would fetch it, and not every proxy has it.
replace github.com/redis/rueidis/rueidiscompat => ./testdata/rueidiscompat
