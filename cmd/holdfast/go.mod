module github.com/holdfast-go/holdfast/cmd/holdfast

go 1.26.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/creack/pty v1.1.24
	github.com/hinshun/vt10x v0.0.0-20220301184237-5011da428d02
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/store/goredis v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/rogpeppe/go-internal v1.16.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.10
	golang.org/x/sys v0.49.0
	golang.org/x/term v0.47.0
	golang.org/x/text v0.43.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
)

// Nothing is published yet: the modules of this repository are taken from the
// tree beside this one, with and without the workspace.
replace (
	github.com/holdfast-go/holdfast => ../..
	github.com/holdfast-go/holdfast/store/goredis => ../../store/goredis
)
