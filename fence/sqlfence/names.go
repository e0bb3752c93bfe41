package sqlfence

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/fence"
)

// quoted are the names of a [Trigger], ready for a statement.
type quoted struct {
	dialect                    Dialect
	schema, bare               string // of the table, as they are
	table, column, key, tokens string
	byPath                     bool   // PostgreSQL finds the table of tokens by the search_path
	which                      string // a text: the resource, or the table without its schema
	missing                    string // a text: the refusal of a write without a token
}

var errSQLite = fmt.Errorf("%w: SQLite has no variable that ends with a transaction, so a trigger cannot tell "+
	"whose write it sees: use a Guard or a Row", fence.ErrInvalid)

// object is the name of something that belongs to the table, and is in its schema.
func (q quoted) object(suffix string) string { return q.dialect.path(q.schema, q.bare+suffix) }

func (t Trigger) quote() (q quoted, err error) {
	d, suffix := t.Dialect, "_fence"
	switch d {
	case PostgreSQL:
	case MySQL:
		suffix = "_fence_insert"
	case SQLite:
		return q, errSQLite
	default:
		return q, d.unknown()
	}
	switch {
	case t.Resource == "" && (t.Key != "" || t.Tokens != ""):
		err = fmt.Errorf("%w: a Trigger with a Key or Tokens needs a Resource", fence.ErrInvalid)
	case t.Resource != "" && t.Column != "":
		err = fmt.Errorf("%w: a Trigger keeps its tokens in a Column or under a Resource, not both", fence.ErrInvalid)
	case t.Resource != "" && (!utf8.ValidString(t.Resource) || strings.Contains(t.Resource, "\x00")):
		err = fmt.Errorf("%w: the name of the resource is no text: %q", fence.ErrInvalid, t.Resource)
	case t.Resource != "":
		err = fence.Check(t.Resource, 1)
	}
	schema, bare, tableErr := d.split("table", t.Table)
	tokenSchema, tokens, tokensErr := d.split("table of tokens", cmp.Or(t.Tokens, DefaultTable))
	if t.Resource != "" && schema != "" && tokenSchema == "" && cmp.Or(err, tableErr, tokensErr) == nil {
		// No default would do: in an empty table, or in another one than a Guard's, a late writer is the first.
		err = fmt.Errorf("%w: the Table has a schema, so Tokens needs one: the schema where the resource's tokens "+
			"are, or for the first trigger %s", fence.ErrInvalid, PostgreSQL.path(schema, tokens))
	}
	column, key := cmp.Or(t.Column, defaultColumn), cmp.Or(t.Key, "unused")
	q = quoted{
		dialect: d, schema: schema, bare: bare,
		table: d.path(schema, bare), column: d.ident(column), key: d.ident(key), tokens: d.path(tokenSchema, tokens),
		byPath: d == PostgreSQL && t.Resource != "" && tokenSchema == "",
		which:  d.text(cmp.Or(t.Resource, bare)), missing: d.text("fence: a write to " + bare + " has no token"),
	}
	return q, cmp.Or(err, tableErr, tokensErr, d.valid("table", bare, len(suffix)),
		d.valid("table of tokens", tokens, 0), d.valid("column", column, 0), d.valid("key column", key, 0))
}

// split takes a name apart at its dot. A part in double quotes may have a dot, and a quote twice.
func (d Dialect) split(what, name string) (schema, bare string, err error) {
	var parts []string
	var part strings.Builder
	inside := false
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case inside && strings.HasPrefix(name[i:], `""`):
			part.WriteByte(c)
			i++
		case c == '"' && (inside || part.Len() == 0):
			inside = !inside
		case c == '.' && !inside:
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(c)
		}
	}
	parts = append(parts, part.String())
	switch {
	case inside || len(parts) > 2:
		return "", "", fmt.Errorf("%w: the %s %q is not NAME or SCHEMA.NAME: put a name with a dot into double quotes",
			fence.ErrInvalid, what, name)
	case len(parts) == 1:
		return "", parts[0], nil
	}
	return parts[0], parts[1], d.valid("schema", parts[0], 0)
}

// valid refuses what is no name in the database, or becomes none with a suffix of so many bytes.
func (d Dialect) valid(what, name string, suffix int) error {
	size, most, unit := len(name), 63, "bytes"
	if d == MySQL {
		size, most, unit = utf8.RuneCountInString(name), 64, "characters"
	}
	if most -= suffix; name == "" || size > most {
		return fmt.Errorf("%w: the name of the %s has 1 to %d %s, not %d", fence.ErrInvalid, what, most, unit, size)
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("%w: the name of the %s is not printable: %q", fence.ErrInvalid, what, name)
	}
	return nil
}

// ident quotes a name.
func (d Dialect) ident(name string) string {
	quote := `"`
	if d == MySQL {
		quote = "`"
	}
	return quote + strings.ReplaceAll(name, quote, quote+quote) + quote
}

// path quotes a name with its schema, if it has one.
func (d Dialect) path(schema, name string) string {
	if schema == "" {
		return d.ident(name)
	}
	return d.ident(schema) + "." + d.ident(name)
}

// text quotes a text. What a backslash means, and which bytes a letter has, depends on the session in MySQL.
func (d Dialect) text(s string) string {
	if d == MySQL && strings.ContainsFunc(s, func(r rune) bool { return r == '\\' || r > unicode.MaxASCII }) {
		return "CONVERT(X'" + hex.EncodeToString([]byte(s)) + "' USING utf8mb4)"
	}
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(quoted, `\`) {
		return "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}
