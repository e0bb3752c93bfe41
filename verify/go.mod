module github.com/holdfast-go/holdfast/verify

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/store/goredis v0.0.0
	github.com/holdfast-go/holdfast/store/rueidis v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.10
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
	golang.org/x/term v0.47.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
)

replace (
	github.com/holdfast-go/holdfast => ../
	github.com/holdfast-go/holdfast/store/goredis => ../store/goredis
	github.com/holdfast-go/holdfast/store/rueidis => ../store/rueidis
)
