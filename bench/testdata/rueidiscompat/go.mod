// Stands in for a module that only redsync's own tests import. Nothing is
// built of it, but go mod tidy would fetch it, and not every proxy has it.
module github.com/redis/rueidis/rueidiscompat

go 1.26.0
