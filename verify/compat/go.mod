module github.com/holdfast-go/holdfast/verify/compat

go 1.26.0

require (
	github.com/bsm/redislock v0.10.0
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/compat/redislock v0.0.0
	github.com/holdfast-go/holdfast/compat/redsync v0.0.0
	github.com/holdfast-go/holdfast/store/goredis v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

// Nothing is published yet: the modules of this repository are taken from the
// tree beside this one, with and without the workspace.
replace (
	github.com/holdfast-go/holdfast => ../../
	github.com/holdfast-go/holdfast/compat/redislock => ../../compat/redislock
	github.com/holdfast-go/holdfast/compat/redsync => ../../compat/redsync
	github.com/holdfast-go/holdfast/store/goredis => ../../store/goredis
)

// redsync's own tests import it. Nothing of it is built here, but go mod tidy
// would fetch it, and not every proxy has it.
replace github.com/redis/rueidis/rueidiscompat => ../../bench/testdata/rueidiscompat
