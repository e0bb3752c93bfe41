module github.com/holdfast-go/holdfast/compat/redisson/crossing

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/compat/redisson v0.0.0
	github.com/holdfast-go/holdfast/store/goredis v0.0.0
	github.com/redis/go-redis/v9 v9.17.3
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
)

replace (
	github.com/holdfast-go/holdfast => ../../../
	github.com/holdfast-go/holdfast/compat/redisson => ../
	github.com/holdfast-go/holdfast/store/goredis => ../../../store/goredis
)
