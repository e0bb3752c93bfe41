// Package fence tests the guards in fence on real servers: PostgreSQL, MariaDB, MySQL, SQLite, Redis or
// Valkey, an object store, and an HTTP service. The tests start them all.
package fence
