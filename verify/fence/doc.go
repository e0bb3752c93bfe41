// Package fence tests the guards of the module fence on real servers: PostgreSQL, MariaDB, SQLite,
// Redis or Valkey, an object store, and an HTTP service. The tests start them all. It is a module of
// its own, so that who uses a guard gets no driver.
package fence
