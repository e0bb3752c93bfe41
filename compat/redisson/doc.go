// Package redisson shares locks with programs that use Redisson, the Java library.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	client, err := holdfast.New(redisson.New(goredis.New(rdb), redisson.Config{}), holdfast.Config{})
//
// A [holdfast.Mutex] of this client is the RLock of the same name: a Java program and a Go
// program exclude each other, and wake each other. Renewal, the local queue and the loss signal
// are those of every Holdfast lock. [Config.Kind] chooses another kind of Redisson's locks.
//
// docs/moving/sharing.md says what works with which version, and what Redisson's format cannot
// carry. An option or a call that needs more is refused with an error that names it.
package redisson
