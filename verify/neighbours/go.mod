module github.com/holdfast-go/holdfast/verify/neighbours

go 1.26.0

require (
	github.com/bsm/redislock v0.10.0
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/compat/redislock v0.0.0
	github.com/holdfast-go/holdfast/compat/redisson v0.0.0
	github.com/holdfast-go/holdfast/compat/redisson/crossing v0.0.0
	github.com/holdfast-go/holdfast/compat/redsync v0.0.0
	github.com/holdfast-go/holdfast/store/goredis v0.0.0
	github.com/holdfast-go/holdfast/verify v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace (
	github.com/holdfast-go/holdfast => ../../
	github.com/holdfast-go/holdfast/compat/redislock => ../../compat/redislock
	github.com/holdfast-go/holdfast/compat/redisson => ../../compat/redisson
	github.com/holdfast-go/holdfast/compat/redisson/crossing => ../../compat/redisson/crossing
	github.com/holdfast-go/holdfast/compat/redsync => ../../compat/redsync
	github.com/holdfast-go/holdfast/store/goredis => ../../store/goredis
	github.com/holdfast-go/holdfast/store/rueidis => ../../store/rueidis
	github.com/holdfast-go/holdfast/verify => ../
)

// redsync's own tests import it. Nothing of it is built here, but go mod tidy
// would fetch it, and not every proxy has it.
replace github.com/redis/rueidis/rueidiscompat => ../../bench/testdata/rueidiscompat
