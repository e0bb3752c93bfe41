// Package kit is what the examples share: the connection to the server, and a program
// that starts itself again as several processes.
package kit
