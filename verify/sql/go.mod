module github.com/holdfast-go/holdfast/verify/sql

go 1.26.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/verify v0.0.0
	github.com/ncruces/go-sqlite3 v0.32.0
	github.com/tetratelabs/wazero v1.11.0
)

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/holdfast-go/holdfast/store/goredis v0.0.0 // indirect
	github.com/holdfast-go/holdfast/store/rueidis v0.0.0 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

// Nothing is published yet: the modules of this repository are taken from the
// tree beside this one, with and without the workspace.
replace (
	github.com/holdfast-go/holdfast => ../../
	github.com/holdfast-go/holdfast/store/goredis => ../../store/goredis
	github.com/holdfast-go/holdfast/store/rueidis => ../../store/rueidis
	github.com/holdfast-go/holdfast/verify => ../
)
