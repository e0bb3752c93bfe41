module github.com/holdfast-go/holdfast/compat/redisson

go 1.25.0

// Nothing is published yet: the modules of this repository are taken from the
// tree beside this one, with and without the workspace.
replace (
	github.com/holdfast-go/holdfast => ../../
	github.com/holdfast-go/holdfast/store/goredis => ../../store/goredis
)

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/store/goredis v0.0.0
	github.com/redis/go-redis/v9 v9.22.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/sys v0.30.0 // indirect
)
