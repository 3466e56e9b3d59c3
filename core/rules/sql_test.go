package rules

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

func TestConditions(t *testing.T) {
	t.Parallel()
	m := testMessage(t)
	for _, c := range []struct {
		sql  string
		want Truth
	}{
		// Constants.
		{"1=1", True},
		{"1=0", False},
		{" 1 = 1 ", True},
		{"TRUE", True},
		{"false", False},
		{"NULL", Unknown},
		{"'a' = 'a'", True},
		{"'it''s' = 'it''s'", True},
		{"'A' = 'a'", False},
		{"9223372036854775807 > -9223372036854775808", True},
		{"1.5 = 15E-1", True},
		{"2.0e2 = 200", True},
		{".5 = 0.5", True},
		{"TRUE = true", True},
		{"TRUE <> FALSE", True},
		{"TRUE > FALSE", Unknown},
		{"NULL = NULL", Unknown},

		// Names and scopes.
		{"colour = 'red'", True},
		{"COLOUR = 'red'", True},
		{"user.colour = 'red'", True},
		{"User . [colour] = 'red'", True},
		{"[colour] = 'red'", True},
		{`"colour" = 'red'`, True},
		{"[odd name]]] = 'in brackets'", True},
		{"twice = 'first'", True},
		{"straße = 'ß'", True},
		{"STRAßE = 'ß'", True},
		{"[a.b] = 'dotted'", True},
		{"[set] IS NULL AND remove IS NULL AND escapes IS NULL", True},
		{"property('colour') = 'red'", True},
		{"p('col' + 'our') = 'red'", True},
		{"P('user.colour') = 'red'", True},
		{"p('sys.label') = 'order'", True},
		{"p('a.b') = 'dotted'", True},
		{"p(sym) IS NULL", True},
		{"p(missing) IS NULL", True},
		{"p(quantity) IS NULL", True},
		{"EXISTS(p('col' + 'our'))", True},
		{"newid() = newid()", False},
		{"newid() <> guid", True},

		{"p('sys.State' + [empty]) = 'Active'", True},

		// Types.
		{"quantity = 5", True},
		{"quantity = 5.0", True},
		{"quantity = '5'", Unknown},
		{"quantity <> '5'", Unknown},
		{"u8 = 200 AND u16 = 60000 AND u32 = 2147483648 AND u64 = 9 AND i8 = -3 AND i16 = -300", True},
		{"f32 = 0.5", True},
		{"half = 2", True},
		{"dec = 2.5", True},
		{"big = 4611686018427387904", True},
		{"big < 4611686018427387904.0", False},
		{"huge > big", True},
		{"huge = 9223372036854775808.0", True},
		{"huge > 9223372036854775808.0", False},
		{"huge = huge", True},
		{"huge <> 1", True},
		{"sym = 'symbol'", True},
		{"char = 'c'", True},
		{"uri = 'http://x/'", True},
		{"guid = guid", True},
		{"guid < guid", Unknown},
		{"guid = '00112233-4455-6677-8899-aabbccddeeff'", Unknown},
		{"bytes = bytes", True},
		{"list = list", Unknown},
		{"odd = odd", Unknown},
		{"EXISTS(odd) AND odd IS NOT NULL", True},
		{"at = offset", True},
		{"at >= offset", True},
		{"at < offset", False},
		{"early < at AND at < far AND far = far", True},
		{"[odd span] = [odd span]", Unknown},
		{"span = sys.TimeToLive", True},
		{"span = 5", Unknown},
		{"at = sys.EnqueuedTimeUtc", True},
		{"sys.ExpiresAtUtc > at", True},

		// Comparisons.
		{"price > 12", True},
		{"price >= 12.5", True},
		{"price < 12.5", False},
		{"price <= 12", False},
		{"price != 12", True},
		{"price <> 12.5", False},
		{"colour > 'blue'", True},
		{"colour < 'blue'", False},
		{"colour >= 'red' AND colour <= 'red'", True},
		{"missing = 1", Unknown},
		{"nothing = 1", Unknown},
		{"NOT missing = 1", Unknown},

		// Flags.
		{"yes", True},
		{"no", False},
		{"NOT yes", False},
		{"yes AND quantity = 5", True},
		{"colour", Unknown},
		{"quantity", Unknown},
		{"missing", Unknown},
		{"(yes)", True},
		{"yes = TRUE", True},
		{"p('yes')", True},
		{"sys.Label", Unknown},

		// Precedence.
		{"1=1 OR 1=1 AND 1=0", True},
		{"(1=1 OR 1=1) AND 1=0", False},
		{"NOT 1=0 AND 1=1", True},
		{"NOT (1=0 OR 1=1)", False},
		{"NOT NOT yes", True},
		{"NOT yes OR yes", True},
		{"1 + 2 * 3 = 7", True},
		{"(1 + 2) * 3 = 9", True},
		{"10 - 4 - 3 = 3", True},
		{"100 / 10 / 5 = 2", True},
		{"- 2 * 3 = -6", True},
		{"2 * - 3 = -6", True},
		{"quantity -1 = 4", True},
		{"1 = 1 AND 2 = 2 OR 1 = 0", True},

		// Arithmetic.
		{"7 / 2 = 3", True},
		{"-7 / 2 = -3", True},
		{"-7 % 3 = -1", True},
		{"7.0 / 2 = 3.5", True},
		{"7.5 % 2 = 1.5", True},
		{"quantity * 2 + 1 = 11", True},
		{"price * quantity = 62.5", True},
		{"+quantity = 5", True},
		{"+5 = 5", True},
		{"+colour = 'red'", Unknown},
		{"-colour = 'red'", Unknown},
		{"-huge < 0", True},
		{"huge + 1 > 0", True},
		{"missing + 1 = 1", Unknown},
		{"yes + 1 = 2", Unknown},
		{"colour - 1 = 2", Unknown},
		{"colour + '!' = 'red!'", True},
		{"colour + quantity = 'red5'", True},
		{"price + colour = '12.5red'", True},
		{"'' + yes + guid + at + span = 'True00112233-4455-6677-8899-aabbccddeeff2030-01-02T03:04:05.678Z00:05:00'", True},
		{"'' + 1e20 + 0.000001 = '1E+201E-06'", True},
		{"'' + huge = '9223372036854775808'", True},
		{"'' + bytes = 'b'", Unknown},
		{"colour + missing = 'red'", Unknown},
		{"-9223372036854775808 + 9223372036854775807 = -1", True},
		{"-9223372036854775807 * 1 - 1 = -9223372036854775808", True},

		// IN, NULL, EXISTS.
		{"quantity IN (1, 5, 9)", True},
		{"quantity IN (1, '5')", Unknown},
		{"quantity IN (1, 5, NULL)", True},
		{"quantity NOT IN (1, 5)", False},
		{"quantity NOT IN (1, 2)", True},
		{"quantity NOT IN (1, NULL)", Unknown},
		{"colour IN ('blue', sym, 'r' + 'ed')", True},
		{"missing IN (1)", Unknown},
		{"missing NOT IN (1)", Unknown},
		{"1 IN (1, 2)", True},
		{"missing IS NULL", True},
		{"nothing IS NULL", True},
		{"colour IS NULL", False},
		{"colour IS NOT NULL", True},
		{"missing IS NOT NULL", False},
		{"sys.ReplyTo IS NULL", True},
		{"p('missing') IS NULL", True},
		{"EXISTS(colour)", True},
		{"EXISTS (nothing)", True},
		{"EXISTS(missing)", False},
		{"NOT EXISTS(missing)", True},
		{"EXISTS(sys.Label)", True},
		{"EXISTS(sys.ReplyTo)", False},

		// LIKE.
		{"colour LIKE 'r%'", True},
		{"colour LIKE '%e%'", True},
		{"colour LIKE 'r_d'", True},
		{"colour LIKE 'R%'", False},
		{"colour NOT LIKE 'b%'", True},
		{"missing LIKE '%'", Unknown},
		{"quantity LIKE '%'", Unknown},
		{"colour LIKE NULL", Unknown},
		{"colour LIKE missing", Unknown},
		{"colour LIKE '%' ESCAPE NULL", Unknown},
		{"'50%' LIKE '50\\%' ESCAPE '\\'", True},
		{"'505' LIKE '50\\%' ESCAPE '\\'", False},
		{"sym LIKE colour + '%'", False},
		{"colour + 'x' LIKE colour + '%'", True},
		{"'r%' LIKE 'r' + char + '%' ESCAPE char", True},
		{"'rx' LIKE 'r' + char + '%' ESCAPE char", False},
		{"colour LIKE '%' ESCAPE missing", Unknown},

		// System properties.
		{"sys.Label = 'order' AND SYS.SUBJECT = 'order'", True},
		{"sys.[Label] = 'order'", True},
		{"sys.MessageId = 'm1'", True},
		{"sys.CorrelationId = '42'", True},
		{"sys.To = 'somewhere'", True},
		{"sys.ContentType LIKE 'text/%'", True},
		{"sys.SessionId = 's1'", True},
		{"sys.PartitionKey IS NULL AND sys.ViaPartitionKey IS NULL AND sys.ReplyToSessionId IS NULL", True},
		{"sys.ReplyTo = 'x'", Unknown},
		{"sys.Size > 100", True},
		{"sys.SequenceNumber = 7 AND sys.EnqueuedSequenceNumber = 5 AND sys.DeliveryCount = 2", True},
		{"sys.State = 'Active'", True},
		{"sys.LockToken IS NULL AND sys.LockedUntilUtc IS NULL AND sys.ForcePersistence IS NULL", True},
		{"sys.ScheduledEnqueueTimeUtc IS NULL", True},
	} {
		got, err := compileSQL(t, c.sql).Matches(m, testFacts)
		if err != nil || got != c.want {
			t.Errorf("%s: got %v, %v, want %v", c.sql, got, err, c.want)
		}
	}
}

func TestFactsThatAreNotKnownHaveNoValue(t *testing.T) {
	t.Parallel()
	r := compileSQL(t, "sys.SequenceNumber IS NULL AND sys.EnqueuedSequenceNumber IS NULL AND sys.EnqueuedTimeUtc IS NULL AND sys.ExpiresAtUtc IS NULL AND sys.TimeToLive IS NULL AND sys.DeliveryCount = 0")
	if got, err := r.Matches(&core.Message{}, Facts{}); got != True || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	r = compileSQL(t, "EXISTS(sys.TimeToLive) AND sys.ExpiresAtUtc IS NULL")
	if got, err := r.Matches(&core.Message{TimeToLive: core.Forever}, testFacts); got != True || err != nil {
		t.Errorf("a message that does not expire: got %v, %v", got, err)
	}
}

func TestThreeValuedLogic(t *testing.T) {
	t.Parallel()
	literal := map[Truth]string{True: "yes", False: "no", Unknown: "missing"}
	tables := []struct {
		operator string
		want     [3][3]Truth // rows and columns: True, Unknown, False
	}{
		{"AND", [3][3]Truth{{True, Unknown, False}, {Unknown, Unknown, False}, {False, False, False}}},
		{"OR", [3][3]Truth{{True, True, True}, {True, Unknown, Unknown}, {True, Unknown, False}}},
	}
	all := []Truth{True, Unknown, False}
	m := testMessage(t)
	for _, table := range tables {
		for i, a := range all {
			for j, b := range all {
				sql := fmt.Sprintf("%s %s %s", literal[a], table.operator, literal[b])
				got, err := compileSQL(t, sql).Matches(m, Facts{})
				if want := table.want[i][j]; err != nil || got != want {
					t.Errorf("%v %s %v: got %v, %v, want %v", a, table.operator, b, got, err, want)
				}
			}
		}
	}
	if got := fmt.Sprint(True, False, Unknown); got != "TRUE FALSE UNKNOWN" {
		t.Errorf("got %s", got)
	}
	for i, want := range []Truth{False, Unknown, True} {
		if got := all[i].Not(); got != want {
			t.Errorf("NOT %v: got %v, want %v", all[i], got, want)
		}
	}
}

func TestInvalidConditionIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sql      string
		position int
		text     string
	}{
		{"", 1, "expected a value but found the end of the expression"},
		{"   ", 4, "expected a value"},
		{"a = ", 5, "expected a value but found the end of the expression"},
		{"a = = 1", 5, "expected a value but found '='"},
		{"a == 1", 4, "expected a value but found '='"},
		{"(a = 1", 7, "expected ) but found the end of the expression"},
		{"a = 1)", 6, "expected AND, OR or the end of the expression but found ')'"},
		{"a = 1 b = 2", 7, "expected AND, OR or the end of the expression but found 'b'"},
		{"a b", 3, "expected a comparison but found 'b'"},
		{"a = 1 = 2", 7, "expected AND, OR or the end of the expression but found '='"},
		{"(a = 1) + 1 = 2", 1, "expected a value but found a condition"},
		{"(a = 1) = TRUE", 1, "expected a value but found a condition"},
		{"a = (b = 1)", 5, "expected a value but found a condition"},
		{"1 + (b = 1) = 2", 5, "expected a value but found a condition"},
		{"- (b = 1) = 2", 3, "expected a value but found a condition"},
		{"a AND", 6, "expected a value"},
		{"a AND 5", 7, "expected a condition"},
		{"5", 1, "expected a condition"},
		{"'text'", 1, "expected a condition"},
		{"NOT 5", 5, "expected a condition"},
		{"a + 1", 1, "expected a condition"},
		{"newid()", 1, "expected a condition"},
		{"@p", 1, "the parameter '@p' has no value"},
		{"a = @", 5, "expected the name of a parameter"},
		{"a LIKE", 7, "expected a value"},
		{"a LIKE (b = 1)", 8, "expected a value but found a condition"},
		{"a NOT b", 7, "expected IN or LIKE but found 'b'"},
		{"a NOT = 1", 7, "expected IN or LIKE but found '='"},
		{"a IN 1", 6, "expected ( but found '1'"},
		{"a IN ()", 7, "expected a value but found ')'"},
		{"a IN (1,)", 9, "expected a value but found ')'"},
		{"a IN (1 2)", 9, "expected ',' or ')' but found '2'"},
		{"a IN (1", 8, "expected ',' or ')'"},
		{"(a = 1) IN (1)", 1, "expected a value but found a condition"},
		{"a IS 5", 6, "expected NULL but found '5'"},
		{"a IS NOT 5", 10, "expected NULL but found '5'"},
		{"5 IS NULL", 1, "expected a property before IS"},
		{"(a = 1) IS NULL", 1, "expected a property before IS"},
		{"EXISTS a", 8, "expected ( but found 'a'"},
		{"EXISTS(5)", 8, "expected a property in EXISTS"},
		{"EXISTS(a + 1)", 10, "expected ) but found '+'"},
		{"p(5) = 1", 3, "expected a string with the name of a property"},
		{"p() = 1", 3, "expected a value but found ')'"},
		{"newid(1) = 1", 7, "expected ) but found '1'"},
		{"other.a = 1", 1, "expected the scope sys, user or body"},
		{"user.in = 1", 6, "expected the name of a property but found 'in'"},
		{"user. = 1", 7, "expected the name of a property but found '='"},
		{"now() = 1", 1, "the function 'now' does not exist"},
		{"in = 1", 1, "expected a value but found 'in'"},
		{"_a = 1", 1, "'_' is not valid in SQL"},
		{"a = 'text", 5, "a string begins here and is not closed"},
		{"[a = 1", 1, "a name begins here and is not closed"},
		{`a = 1 OR "b`, 10, "a name begins here and is not closed"},
		{"[] = 1", 1, "a name must not be empty"},
		{"a = 1E999", 5, "outside the range of a double"},
		{"a = 1a", 6, "'a' is not allowed in a number"},
		{"a = 1.", 6, "'.' is not allowed in a number"},
		{"a = 1e", 6, "'e' is not allowed in a number"},
		{"a = 1.2.3", 8, "'.' is not allowed in a number"},
		{"äöü = 'äöü' ; ", 13, "expected AND, OR or the end of the expression but found ';'"},
		{"a = 1 # comment", 7, "'#' is not valid in SQL"},
		{"a ! b", 3, "'!' is not valid in SQL"},
		{strings.Repeat("(", 70) + "a" + strings.Repeat(")", 70), 66, "nested deeper than 64"},
		{strings.Repeat("NOT ", 70) + "a", 261, "nested deeper than 64"},
		{strings.Repeat("- ", 70) + "a = 1", 131, "nested deeper than 64"},
		{strings.Repeat("p(", 70) + "a" + strings.Repeat(")", 70) + " = 1", 131, "nested deeper than 64"},
	} {
		_, err := Compile(core.Rule{Name: "x", Filter: core.Filter{SQL: c.sql}})
		want := fmt.Sprintf("Rule 'x': SQL filter, position %d: ", c.position)
		if !errors.Is(err, core.InvalidArgument) || !strings.HasPrefix(core.TextOf(err), want) || !strings.Contains(core.TextOf(err), c.text) {
			t.Errorf("%s: got %v, want %s…%s", c.sql, err, want, c.text)
		}
	}
}

func TestFiltersThatAreRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		filter core.Filter
		text   string
	}{
		{"too long", core.Filter{SQL: "a = '" + strings.Repeat("ä", core.MaxSQLLength) + "'"}, "has 16390 characters; at most 16384 are allowed"},
		{"not UTF-8", core.Filter{SQL: "a = '\xff'"}, "not valid UTF-8"},
		{"unknown kind", core.Filter{Kind: 9}, "filter's kind"},
		{"no correlation", core.Filter{Kind: core.CorrelationFilter}, "no condition"},
		{"empty correlation", core.Filter{Kind: core.CorrelationFilter, Correlation: &core.Correlation{}}, "no condition"},
	} {
		_, err := Compile(core.Rule{Name: "x", Filter: c.filter})
		if !errors.Is(err, core.InvalidArgument) || !strings.HasPrefix(core.TextOf(err), "Rule 'x': ") || !strings.Contains(core.TextOf(err), c.text) {
			t.Errorf("%s: got %v, want …%s", c.name, err, c.text)
		}
	}
	long := "a = '" + strings.Repeat("ä", core.MaxSQLLength-6) + "'"
	compileSQL(t, long)
}

// TestNothingIsReadOver puts what is not SQL before and behind every token.
func TestNothingIsReadOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action bool
		sql    string
	}{
		{false, "NOT ( a = 1 AND - b + 2 * 3 <> sys . Label OR + c % 2 > .5 )"},
		{false, "a IS NULL OR a IS NOT NULL OR EXISTS ( user . b )"},
		{false, "a IN ( 1 , 2 ) AND a NOT IN ( 'x' )"},
		{false, "a LIKE 'x' AND a NOT LIKE b ESCAPE '!' AND a LIKE 'y' ESCAPE c"},
		{false, "newid ( ) = property ( a + 'b' ) AND p ( 'c' ) = TRUE"},
		{true, "SET a = 1 ; REMOVE b , SET sys . Label = [c] + 'x' REMOVE user . d ;"},
	} {
		words := strings.Fields(c.sql)
		for i := range len(words) + 1 {
			before := strings.Join(words[:i], " ")
			rule := core.Rule{Name: "x", Filter: core.Filter{SQL: before + " ? " + strings.Join(words[i:], " ")}}
			if c.action {
				rule.Action, rule.Filter.SQL = rule.Filter.SQL, "1=1"
			}
			_, err := Compile(rule)
			if want := fmt.Sprintf("position %d: '?' is not valid in SQL", len(before)+2); !strings.Contains(core.TextOf(err), want) {
				t.Errorf("%s: got %v, want %s", rule.Filter.SQL, err, want)
			}
		}
		rule := core.Rule{Filter: core.Filter{SQL: c.sql}}
		if c.action {
			rule.Action, rule.Filter.SQL = c.sql, "1=1"
		}
		if _, err := Compile(rule); err != nil {
			t.Errorf("%s: %v", c.sql, err)
		}
	}
}

func TestNamesOfAnyLength(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("Long", 50)
	longUnicode := strings.Repeat("Ä", 60)
	m := &core.Message{Properties: properties(t, "", "empty", long, "long", longUnicode, "umlaut", "\u212A", "kelvin")}
	for _, c := range []struct{ sql string }{
		{"[" + strings.ToUpper(long) + "] = 'long'"},
		{"p('" + strings.ToLower(long) + "' + '') = 'long'"},
		{"p([" + long + "] + '') IS NULL AND p('x' + [" + long + "]) IS NULL"},
		{"p('' + k) IS NULL AND k = 'kelvin'"},
		{strings.ToLower(longUnicode) + " = 'umlaut'"},
		{"p('') = 'empty'"},
		{"p(p('') + 'x') IS NULL"},
	} {
		if got, err := compileSQL(t, c.sql).Matches(m, Facts{}); got != True || err != nil {
			t.Errorf("%s: got %v, %v", c.sql, got, err)
		}
	}
}

func TestParameters(t *testing.T) {
	t.Parallel()
	m := testMessage(t)
	parameters := properties(t,
		"colour", "red", "@Quantity", int64(5), "@guid", testUUID, "at", value.TimestampOf(testTime), "flag", true, "none", nil)
	for _, c := range []struct {
		sql  string
		want Truth
	}{
		{"colour = @colour AND quantity = @quantity", True},
		{"colour = @COLOUR", True},
		{"guid = @guid AND at <= @at", True},
		{"quantity IN (1, @quantity)", True},
		{"colour LIKE @colour + '%'", True},
		{"@flag", True},
		{"colour = @none", Unknown},
	} {
		r, err := Compile(core.Rule{Filter: core.Filter{SQL: c.sql, Parameters: parameters}})
		if err != nil {
			t.Errorf("%s: %v", c.sql, err)
			continue
		}
		if got, err := r.Matches(m, Facts{}); got != c.want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", c.sql, got, err, c.want)
		}
	}
	for sql, text := range map[string]string{
		"colour = @other": "position 10: the parameter '@other' has no value",
		"@colour":         "position 1: expected a condition",
	} {
		if _, err := Compile(core.Rule{Filter: core.Filter{SQL: sql, Parameters: parameters}}); !strings.Contains(core.TextOf(err), text) {
			t.Errorf("%s: got %v, want %s", sql, err, text)
		}
	}
}

func TestEvaluationErrors(t *testing.T) {
	t.Parallel()
	m := testMessage(t)
	m.Properties = m.Properties.Merge(properties(t, "zero", int32(0), "long", strings.Repeat("x", 40_000)))
	for _, c := range []struct {
		sql      string
		position int
		text     string // "": no error
	}{
		{"quantity / zero = 1", 10, "division by zero"},
		{"quantity % (zero * 1.5) = 1", 10, "division by zero"},
		{"big * big = 1", 5, "outside the range of 64-bit integers"},
		{"big + big = 1", 5, "outside the range of 64-bit integers"},
		{"-(-big - big) = 1", 1, "outside the range of 64-bit integers"},
		{"-(-big - big - 1) = 1", 14, "outside the range of 64-bit integers"},
		{"p('sys.' + colour) = 1", 0, ""},
		{"colour LIKE colour + '!' ESCAPE '!'", 13, "ends with its escape character"},
		{"colour LIKE '%' ESCAPE sym", 13, "string of one character"},
		{"colour LIKE long", 13, "pattern has more than 4096 bytes"},
		{"long + long = ''", 6, "would have more than 65536 bytes"},
		{"missing = 1 AND quantity / zero = 1", 26, "division by zero"},
		{"yes AND quantity / zero = 1", 18, "division by zero"},
		{"quantity / zero = 1 OR yes", 10, "division by zero"},
		{"no AND quantity / zero = 1", 0, ""},
		{"yes OR quantity / zero = 1", 0, ""},
		{"quantity / missing = 1", 0, ""},
		{"a LIKE 5", 8, "the pattern of LIKE is not a string"},
		{"a LIKE 'x\\' ESCAPE '\\'", 8, "ends with its escape character"},
		{"a LIKE 'x' ESCAPE 'ab'", 19, "string of one character"},
		{"a LIKE 'x' ESCAPE ''", 19, "string of one character"},
		{"a LIKE 'x' ESCAPE 5", 19, "string of one character"},
		{"a = 1 / 0", 7, "division by zero"},
		{"a = 1 % 0.0", 7, "division by zero"},
		{"a = 9223372036854775807 + 1", 25, "outside the range of 64-bit integers"},
		{"a = -9223372036854775807 - 2", 26, "outside the range of 64-bit integers"},
		{"a = 4611686018427387904 * 2", 25, "outside the range of 64-bit integers"},
		{"a = -9223372036854775808 / -1", 26, "outside the range of 64-bit integers"},
		{"5 LIKE 5", 8, "the pattern of LIKE is not a string"},
		{"no AND colour LIKE 5", 0, ""},
		{"yes OR 1/0 = 1", 0, ""},
	} {
		_, err := compileSQL(t, c.sql).Matches(m, Facts{})
		if c.text == "" {
			if err != nil {
				t.Errorf("%s: got %v, want no error", c.sql, err)
			}
			continue
		}
		want := fmt.Sprintf("Rule 'r': SQL filter, position %d: ", c.position)
		if !errors.Is(err, core.InvalidArgument) || !strings.HasPrefix(core.TextOf(err), want) || !strings.Contains(core.TextOf(err), c.text) {
			t.Errorf("%s: got %v, want %s…%s", c.sql, err, want, c.text)
		}
	}
}

// What Service Bus takes at creation, and can say nothing about later.
func TestWhatHasNoValueIsUnknown(t *testing.T) {
	t.Parallel()
	m := testMessage(t)
	m.Properties = m.Properties.Merge(properties(t, "huge", uint64(math.MaxUint64), "s", "s1"))
	for sql, want := range map[string]Truth{
		"sys.Nothing = 1":                 Unknown,
		"NOT sys.Nothing = 1":             Unknown,
		"sys.Nothing":                     Unknown,
		"sys.Nothing IS NULL":             True,
		"EXISTS(sys.Nothing)":             False,
		"p('sys.Nothing') = 1":            Unknown,
		"p('sys.' + colour) = 1":          Unknown,
		"sys.Nothing = 1 OR quantity = 5": True,
		"sys.SequenceNumber = 1":          Unknown,
		"[sys].Label = 'order'":           True,
		"[sys].[Label] = 'order'":         True,
		"[user].[s] = 's1'":               True,
		"\"user\".s = 's1'":               True,
		"huge = 18446744073709551615":     True,
		"huge = 18446744073709551614":     False,
		"huge < 18446744073709551616":     True,
		"huge > -99999999999999999999":    True,
		"quantity < 9223372036854775808":  True,
		"-9223372036854775808 < quantity": True,
		"-9223372036854775809 < quantity": True,
		"sys.PartitionKey = 'other'":      Unknown,
		"sys.TimeToLive > '00:00:01'":     Unknown,
	} {
		got, err := compileSQL(t, sql).Matches(m, Facts{})
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", sql, got, err, want)
		}
	}
}

func TestAnEmptyTextIsNotNull(t *testing.T) {
	t.Parallel()
	m := &core.Message{EmptyText: core.FieldSubject | core.FieldCorrelationID | core.FieldSessionID}
	for sql, want := range map[string]Truth{
		"sys.Label = ''": True, "sys.Label IS NULL": False, "sys.CorrelationId = ''": True, "sys.SessionId IS NOT NULL": True,
		"sys.To = ''": Unknown, "sys.To IS NULL": True,
	} {
		if got, err := compileSQL(t, sql).Matches(m, Facts{}); got != want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", sql, got, err, want)
		}
	}
}
