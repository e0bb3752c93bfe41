package adapter

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// Refusal makes a ServerError of the server's whole message.
func Refusal(message string) *store.ServerError {
	code := code(message)
	return &store.ServerError{Code: code, Message: message, MayHaveRun: !isServers(code, message)}
}

// The answers to a script by which Redis and Valkey say that it has not run, or that a step of it was refused. All else
// may come from a proxy, which passes a request on and then gives up the answer: "upstream failure" (Envoy), "ERR
// Connection timed out" (twemproxy), "ERR Proxy error". The lock may be held then. If a row is missing,
// a call that waits tries again, and a try costs a cancel in the background. A row too many costs a hold that nobody
// knows of, until its TTL is over.
var (
	serversCodes = []string{
		"NOSCRIPT", "NOPERM", "NOAUTH", "WRONGPASS", "DENIED", "MAXCLIENTS", "OOM", "READONLY", "MISCONF", "NOREPLICAS",
		"LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "CROSSSLOT", "MOVED", "ASK", "REDIRECT", "TRYAGAIN",
		"UNKILLABLE", "NOTBUSY", "NOPROTO", "EXECABORT", "INPROG", "WAITAOF", "WRONGTYPE", "FORMAT",
	}
	// serversTexts follow the code ERR, or come without one.
	serversTexts = []string{
		"unknown command", "unknown subcommand", "unsupported command", "wrong number of arguments", "syntax error",
		"value is not an integer", "Number of keys can't be", "invalid DB index", "DB index is out of range",
		"SELECT is not allowed in cluster mode", "This instance has cluster support disabled", "Protocol error",
		"AUTH ", "Client sent AUTH", "invalid password", "Can't execute '", "command not allowed",
		"operation not permitted",
	}
)

// isServers reports whether the answer is in the table. Whatever speaks of a script comes from where scripts run; that
// also holds for the texts that the scripts themselves answer.
func isServers(code, message string) bool {
	if code != "ERR" {
		return slices.Contains(serversCodes, code)
	}
	text := strings.TrimPrefix(message, "ERR ")
	if strings.Contains(text, "script") || strings.Contains(text, ": mode is of no such form") ||
		strings.HasPrefix(text, "set_limit: ") {
		return true
	}
	return slices.ContainsFunc(serversTexts, func(begin string) bool { return strings.HasPrefix(text, begin) })
}

// TLSRefusal is the refusal of one end to use TLS with the other: the client does not trust
// the server's certificate, or the server not the client's, or they have no common version. It
// is nil if err is something else. No request is read before that is decided, and the next try
// would fail the same way.
func TLSRefusal(err error) *store.ServerError {
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &untrusted):
		return &store.ServerError{Code: "TLS", Message: "TLS " + untrusted.Error()}
	case errors.As(err, &plain):
		return &store.ServerError{Code: "TLS", Message: "TLS the server does not speak TLS: " + plain.Error()}
	}
	if alert := alertOf(err); alert != "" {
		return &store.ServerError{Code: "TLS", Message: "TLS the server refuses: " + alert}
	}
	return nil
}

// refusing are the alerts that refuse a connection, rather than end one: handshake_failure, the
// alerts about certificates, protocol_version, insufficient_security, unrecognized_name,
// certificate_required and no_application_protocol.
var refusing = []tls.AlertError{40, 42, 43, 44, 45, 46, 48, 49, 70, 71, 112, 116, 120}

// alertOf is the text of the alert by which the server refused a connection; "" if err is none.
// The type of an alert that comes over a connection is not exported, so its text is compared: the
// exported one is for QUIC.
func alertOf(err error) string {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" || op.Err == nil {
		return ""
	}
	for _, alert := range refusing {
		if op.Err.Error() == alert.Error() {
			return op.Err.Error()
		}
	}
	return ""
}

// ClosedClient is the refusal of a client that its owner has closed.
func ClosedClient(library string) *store.ServerError {
	return &store.ServerError{Code: "CLIENT", Message: "CLIENT the " + library + " client is closed: " +
		"close the Holdfast client first, or make the store from another client"}
}

// NoClient is the refusal of a store that was made with a nil client.
func NoClient(maker, library string) *store.ServerError {
	return &store.ServerError{Code: "CLIENT", Message: "CLIENT " + maker + " got a nil client: " +
		"pass a " + library + " client"}
}

// code returns the code word of an error message.
//
// A missing permission is NOPERM for a command of the client, and ERR with a sentence for a
// command of a script. The first sentence is that of Redis 7.0, the second that of later
// versions and of Valkey.
func code(message string) string {
	if strings.HasPrefix(message, "ERR The user executing the script can't ") ||
		strings.HasPrefix(message, "ERR ACL failure in script: ") {
		return "NOPERM"
	}
	if strings.HasPrefix(message, "ERR WAITAOF cannot be used ") {
		return "WAITAOF" // the server has no append-only file
	}
	if strings.HasPrefix(message, "ERR max number of clients ") {
		return "MAXCLIENTS"
	}
	word, _, _ := strings.Cut(message, " ")
	// Short words in capitals are no codes: "ERR DB index is out of range", from which a
	// library may have removed the code. Nor does a script's own message have one.
	if len(word) < 3 || strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
		return "ERR"
	}
	return word
}

// Redirection reads "MOVED SLOT ADDRESS" and "ASK SLOT ADDRESS"; ok is false for any other
// refusal.
func Redirection(refused *store.ServerError) (slot int, addr string, ask, ok bool) {
	if refused == nil || refused.Code != "MOVED" && refused.Code != "ASK" {
		return 0, "", false, false
	}
	words := strings.Fields(refused.Message)
	if len(words) < 3 {
		return 0, "", false, false
	}
	slot, err := strconv.Atoi(words[1])
	if err != nil || strings.HasPrefix(words[2], ":") || strings.HasPrefix(words[2], "?") {
		return 0, "", false, false // the node does not name the other's host
	}
	return slot, words[2], refused.Code == "ASK", true
}

// IsUnsubscribeRefusal reports whether UNSUBSCRIBE was refused, by the command that the server
// names. A user may have the permission to subscribe without the one to unsubscribe.
func IsUnsubscribeRefusal(refused *store.ServerError) bool {
	return refused != nil && refused.Code == "NOPERM" && strings.Contains(refused.Message, "unsubscribe'")
}
