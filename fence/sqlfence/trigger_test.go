package sqlfence_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/sqlfence"
	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestATriggerRefusesWhatItCannotName(t *testing.T) {
	t.Parallel()
	const postgres, mysql = sqlfence.PostgreSQL, sqlfence.MySQL
	long := strings.Repeat("x", 51)
	for want, triggers := range map[string][]sqlfence.Trigger{
		"": {
			{Dialect: postgres, Table: long + "xxxxxx"},
			{Dialect: mysql, Table: strings.Repeat("ä", 51)},
			{Dialect: postgres, Table: `"a.b"."c""d"`, Column: `"; --`},
		},
		"the name of the table has 1 to 57 bytes, not 58":      {{Dialect: postgres, Table: long + "xxxxxxx"}},
		"the name of the table has 1 to 51 characters, not 52": {{Dialect: mysql, Table: long + "x"}},
		"the name of the table has 1 to 57 bytes, not 0": {
			{Dialect: postgres},
			{Dialect: postgres, Table: "a."},
			{Dialect: postgres, Table: `""`},
		},
		"the name of the schema has 1 to 63 bytes, not 0": {{Dialect: postgres, Table: ".a"}},
		"is not NAME or SCHEMA.NAME": {
			{Dialect: postgres, Table: "a.b.c"}, {Dialect: mysql, Table: `"a`},
			{Dialect: mysql, Table: "a", Resource: "a", Tokens: "a.b.c"},
		},
		`the name of the table is not printable: "a\nb"`:  {{Dialect: mysql, Table: "a\nb"}},
		`the name of the column is not printable: "\xff"`: {{Dialect: postgres, Table: "a", Column: "\xff"}},
		"the name of the table of tokens has": {
			{Dialect: mysql, Table: "a", Resource: "r", Tokens: long + long},
		},
		"the name of the key column is not": {{Dialect: mysql, Table: "a", Resource: "r", Key: "a\x00"}},
		"needs a Resource": {
			{Dialect: mysql, Table: "a", Key: "id"},
			{Dialect: mysql, Table: "a", Tokens: "b"},
		},
		`Tokens needs one: the schema where the resource's tokens are, or for the first trigger "b"."holdfast_fence"`: {
			{Dialect: postgres, Table: "b.a", Resource: "r"}, {Dialect: mysql, Table: "b.a", Resource: "r"},
		},
		`or for the first trigger "b.c"."d"`: {{Dialect: mysql, Table: `"b.c".a`, Resource: "r", Tokens: "d"}},
		"in a Column or under a Resource":    {{Dialect: mysql, Table: "a", Column: "c", Resource: "r"}},
		"the name of a resource has 1 to 255 bytes, not 256": {
			{Dialect: postgres, Table: "a", Resource: strings.Repeat("x", 256)},
		},
		`the name of the resource is no text: "\xff"`:         {{Dialect: mysql, Table: "a", Resource: "\xff"}},
		`the name of the resource is no text: "a\x00"`:        {{Dialect: postgres, Table: "a", Resource: "a\x00"}},
		"SQLite has no variable that ends with a transaction": {{Dialect: sqlfence.SQLite, Table: "a"}},
		"choose PostgreSQL, MySQL or SQLite":                  {{Table: "a"}},
	} {
		for _, trigger := range triggers {
			_, err := trigger.Up()
			_, downErr := trigger.Down()
			assert.Equal(t, fmt.Sprint(downErr), fmt.Sprint(err), "the error of Down")
			ok := want == "" && err == nil ||
				want != "" && errors.Is(err, fence.ErrInvalid) && strings.Contains(err.Error(), want)
			assert.True(t, ok, "%+v: %v; want %s", trigger, err, want)
		}
	}
}

func TestRefusedKnowsWhatTriggersSay(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"ERROR: fence: token 5 of is stale is stale, 6 was seen (SQLSTATE HF001)",
		"Error 1644 (HF001): fence: token 5 of is stale is stale, 6 was seen",
		"saving the invoice: pq: fence: token 5 of is stale is stale, 6 was seen",
	} {
		var stale *fence.StaleError
		got := sqlfence.Refused(errors.New(text))
		want := fence.StaleError{Resource: "is stale", Token: 5, Seen: 6}
		assert.True(t, errors.As(got, &stale) && *stale == want, "%v", got)
	}
	var lines *fence.StaleError
	got := sqlfence.Refused(errors.New("fence: token 5 of bill/two\nlines is stale, 6 was seen"))
	assert.True(t, errors.As(got, &lines) && lines.Resource == "bill/two\nlines", "%v", got)
	for _, err := range []error{nil, errors.New("fence: token -1 of a is stale, 0 was seen"), errors.New("fence: a")} {
		assert.True(t, sqlfence.Refused(err) == err, "%v", err) //nolint:errorlint // it is the same one
	}
}

// The table of tokens is one, whoever runs the migration or writes, and from wherever.
func TestTheTokensAreWhereTheyAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ table, tokens, postgres, mysql string }{
		{"billing.invoice", "shop.tokens", `"shop"."tokens"`, "`shop`.`tokens`"},
		{"invoice", "shop.tokens", `"shop"."tokens"`, "`shop`.`tokens`"},
		{"invoice", "", `"holdfast_fence"`, "`holdfast_fence`"},
	} {
		for dialect, want := range map[sqlfence.Dialect]string{
			sqlfence.PostgreSQL: c.postgres, sqlfence.MySQL: c.mysql,
		} {
			trigger := sqlfence.Trigger{Dialect: dialect, Table: c.table, Resource: "r", Tokens: c.tokens}
			up, err := trigger.Up()
			assert.Must(t, err)
			assert.True(t, strings.HasPrefix(up[0], "CREATE TABLE IF NOT EXISTS "+want+" ("), "%+v: %s", trigger, up[0])
			assert.True(t, strings.Contains(up[1], "INSERT INTO "+want+" "), "%+v: %s", trigger, up[1])
			path := strings.Contains(up[1], " SET search_path FROM CURRENT ")
			byPath := dialect == sqlfence.PostgreSQL && !strings.Contains(want, ".")
			assert.Equal(t, path, byPath, "%+v: the path is fixed", trigger)
		}
	}
}
