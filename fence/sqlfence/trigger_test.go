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
	long := strings.Repeat("x", 51)
	for want, triggers := range map[string][]sqlfence.Trigger{
		"": {
			{Dialect: sqlfence.PostgreSQL, Table: long + "xxxxxx"},
			{Dialect: sqlfence.MySQL, Table: strings.Repeat("ä", 51)},
			{Dialect: sqlfence.PostgreSQL, Table: `"a.b"."c""d"`, Column: `"; --`},
		},
		"fence: invalid: the name of the table has 1 to 57 bytes, not 58":      {{Dialect: sqlfence.PostgreSQL, Table: long + "xxxxxxx"}},
		"fence: invalid: the name of the table has 1 to 51 characters, not 52": {{Dialect: sqlfence.MySQL, Table: long + "x"}},
		"fence: invalid: the name of the table has 1 to 57 bytes, not 0": {
			{Dialect: sqlfence.PostgreSQL}, {Dialect: sqlfence.PostgreSQL, Table: "a."}, {Dialect: sqlfence.PostgreSQL, Table: `""`},
		},
		"fence: invalid: the name of the schema has 1 to 63 bytes, not 0": {{Dialect: sqlfence.PostgreSQL, Table: ".a"}},
		"is not NAME or SCHEMA.NAME": {
			{Dialect: sqlfence.PostgreSQL, Table: "a.b.c"}, {Dialect: sqlfence.MySQL, Table: `"a`},
			{Dialect: sqlfence.MySQL, Table: "a", Resource: "a", Tokens: "a.b.c"},
		},
		`the name of the table is not printable: "a\nb"`:  {{Dialect: sqlfence.MySQL, Table: "a\nb"}},
		`the name of the column is not printable: "\xff"`: {{Dialect: sqlfence.PostgreSQL, Table: "a", Column: "\xff"}},
		"needs a Resource":                {{Dialect: sqlfence.MySQL, Table: "a", Key: "id"}, {Dialect: sqlfence.MySQL, Table: "a", Tokens: "b"}},
		"in a Column or under a Resource": {{Dialect: sqlfence.MySQL, Table: "a", Column: "c", Resource: "r"}},
		"the name of a resource has 1 to 255 bytes, not 256": {
			{Dialect: sqlfence.PostgreSQL, Table: "a", Resource: strings.Repeat("x", 256)},
		},
		"SQLite has no variable that ends with a transaction": {{Dialect: sqlfence.SQLite, Table: "a"}},
		"choose PostgreSQL, MySQL or SQLite":                  {{Table: "a"}},
	} {
		for _, trigger := range triggers {
			_, err := trigger.Up()
			_, downErr := trigger.Down()
			ok := want == "" && err == nil && downErr == nil
			assert.True(t, ok || want != "" && errors.Is(err, fence.ErrInvalid) && errors.Is(downErr, fence.ErrInvalid) &&
				strings.Contains(err.Error(), want), "%+v: %v, %v; want %s", trigger, err, downErr, want)
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
		assert.True(t, errors.As(got, &stale) && *stale == fence.StaleError{Resource: "is stale", Token: 5, Seen: 6}, "%v", got)
	}
	for _, err := range []error{nil, errors.New("fence: token -1 of a is stale, 0 was seen"), errors.New("fence: a")} {
		assert.True(t, sqlfence.Refused(err) == err, "%v", err)
	}
}

func ExampleTrigger_Up() {
	up, err := sqlfence.Trigger{Dialect: sqlfence.PostgreSQL, Table: "billing.invoice"}.Up()
	if err != nil {
		panic(err)
	}
	fmt.Println(up[0])
	fmt.Println(up[2])
	// Output:
	// ALTER TABLE "billing"."invoice" ADD COLUMN "fence_token" BIGINT NOT NULL DEFAULT 0
	// CREATE TRIGGER holdfast_fence BEFORE INSERT OR UPDATE OR DELETE ON "billing"."invoice" FOR EACH ROW EXECUTE FUNCTION "billing"."invoice_fence"()
}
