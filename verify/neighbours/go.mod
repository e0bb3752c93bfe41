module github.com/holdfast-go/holdfast/verify/neighbours

go 1.26.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/compat/redisson/crossing v0.0.0
	github.com/holdfast-go/holdfast/verify v0.0.0
	github.com/redis/go-redis/v9 v9.17.3
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace (
	github.com/holdfast-go/holdfast => ../../
	github.com/holdfast-go/holdfast/compat/redisson/crossing => ../../compat/redisson/crossing
	github.com/holdfast-go/holdfast/store/goredis => ../../store/goredis
	github.com/holdfast-go/holdfast/store/rueidis => ../../store/rueidis
	github.com/holdfast-go/holdfast/verify => ../
)
