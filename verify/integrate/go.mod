module github.com/holdfast-go/holdfast/verify/integrate

go 1.26.0

require (
	github.com/caddyserver/certmagic v0.25.6
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/google/uuid v1.6.0
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/compat/redislock v0.0.0
	github.com/holdfast-go/holdfast/compat/redisson v0.0.0
	github.com/holdfast-go/holdfast/compat/redsync v0.0.0
	github.com/holdfast-go/holdfast/integrate/certmagiclock v0.0.0
	github.com/holdfast-go/holdfast/integrate/cronlock v0.0.0
	github.com/holdfast-go/holdfast/integrate/gocronlock v0.0.0
	github.com/holdfast-go/holdfast/store/goredis v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/robfig/cron/v3 v3.0.1
	go.uber.org/zap v1.28.0
)

require (
	github.com/caddyserver/zerossl v0.1.6 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/libdns/libdns v1.1.1 // indirect
	github.com/mholt/acmez/v3 v3.1.7 // indirect
	github.com/miekg/dns v1.1.73 // indirect
	github.com/zeebo/blake3 v0.2.4 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap/exp v0.3.0 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/net v0.59.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)

// Nothing is published yet: the modules of this repository are taken from the
// tree beside this one, with and without the workspace.
replace (
	github.com/holdfast-go/holdfast => ../../
	github.com/holdfast-go/holdfast/compat/redislock => ../../compat/redislock
	github.com/holdfast-go/holdfast/compat/redisson => ../../compat/redisson
	github.com/holdfast-go/holdfast/compat/redsync => ../../compat/redsync
	github.com/holdfast-go/holdfast/integrate/certmagiclock => ../../integrate/certmagiclock
	github.com/holdfast-go/holdfast/integrate/cronlock => ../../integrate/cronlock
	github.com/holdfast-go/holdfast/integrate/gocronlock => ../../integrate/gocronlock
	github.com/holdfast-go/holdfast/store/goredis => ../../store/goredis
)
