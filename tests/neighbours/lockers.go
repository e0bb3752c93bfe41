package neighbours

// lockers are the libraries that are written in Go, by name: each opens its client.
var lockers = map[string]func(Config) (Locker, error){}
