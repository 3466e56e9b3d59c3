package rules

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

func TestExplanationsNameTheDecidingConditions(t *testing.T) {
	t.Parallel()
	m := testMessage(t)
	for _, c := range []struct {
		sql  string
		want []string
	}{
		{"colour = 'blue'", []string{"colour = 'blue' is false: colour is 'red' (string)"}},
		{"colour = 'red'", []string{"colour = 'red' is true: colour is 'red' (string)"}},
		{"weight > 10", []string{"weight > 10 is unknown: weight is not set"}},
		{"nothing = 1", []string{"nothing = 1 is unknown: nothing is null"}},
		{"Quantity = '5'", []string{"Quantity = '5' is unknown: Quantity is 5 (int)"}},
		{"sys.To = 'x' ", []string{"sys.To = 'x' is false: sys.To is 'somewhere' (string)"}},
		{"sys.ReplyTo = 'x'", []string{"sys.ReplyTo = 'x' is unknown: sys.ReplyTo is not set"}},
		{"colour = @p", []string{"colour = @p is false: colour is 'red' (string), @p is 'it''s' (string)"}},
		{"colour = @none", []string{"colour = @none is unknown: colour is 'red' (string), @none is null"}},

		// Of a conjunction what is not true, of a disjunction what could have been.
		{"colour = 'blue' AND price > 100 AND yes", []string{
			"colour = 'blue' is false: colour is 'red' (string)", "price > 100 is false: price is 12.5 (double)",
		}},
		{"yes AND weight > 1 AND price > 1", []string{"weight > 1 is unknown: weight is not set"}},
		{"yes AND price > 1", []string{"yes is true: yes is true (boolean)", "price > 1 is true: price is 12.5 (double)"}},
		{"no OR weight > 1", []string{"no is false: no is false (boolean)", "weight > 1 is unknown: weight is not set"}},
		{"no OR price > 1 OR price / 0.0 > 1", []string{"price > 1 is true: price is 12.5 (double)"}},
		{"(no OR colour = 'blue') AND yes", []string{"no is false: no is false (boolean)", "colour = 'blue' is false: colour is 'red' (string)"}},

		// NOT turns the roles around.
		{"NOT (yes AND price > 1)", []string{"yes is true: yes is true (boolean)", "price > 1 is true: price is 12.5 (double)"}},
		{"NOT (yes AND weight > 1)", []string{"yes is true: yes is true (boolean)", "weight > 1 is unknown: weight is not set"}},
		{"NOT (no OR weight > 1)", []string{"weight > 1 is unknown: weight is not set"}},
		{"NOT NOT no", []string{"no is false: no is false (boolean)"}},
		{"NOT (colour NOT IN ('red', 'blue'))", []string{"(colour NOT IN ('red', 'blue')) is false: colour is 'red' (string)"}},

		// Every kind of condition, and of value.
		{"colour IS NOT NULL AND weight IS NULL", []string{"colour IS NOT NULL is true: colour is 'red' (string)", "weight IS NULL is true: weight is not set"}},
		{"EXISTS(weight)", []string{"EXISTS(weight) is false: weight is not set"}},
		{"colour NOT LIKE 'r%'", []string{"colour NOT LIKE 'r%' is false: colour is 'red' (string)"}},
		{"p('quan' + 'tity') % 2 = 0", []string{"p('quan' + 'tity') % 2 = 0 is false: p('quan' + 'tity') is 5 (int)"}},
		{"p(p('colour')) = 1", []string{"p(p('colour')) = 1 is unknown: p('colour') is 'red' (string), p(p('colour')) is not set"}},
		{"1 = 2 OR FALSE", []string{"1 = 2 is false", "FALSE is false"}},
		{"at < offset", []string{"at < offset is false: at is 2030-01-02T03:04:05.678Z (timestamp), offset is 2030-01-02T03:04:05.678Z (DateTimeOffset)"}},
		{"span = uri", []string{"span = uri is unknown: span is 00:05:00 (TimeSpan), uri is 'http://x/' (URI)"}},
		{"list = odd", []string{"list = odd is unknown: list is of type list, odd is of type described"}},
		{"guid = bytes", []string{"guid = bytes is unknown: guid is 00112233-4455-6677-8899-aabbccddeeff (uuid), bytes is 0x62 (binary)"}},
		{"sys.TimeToLive = huge", []string{"sys.TimeToLive = huge is unknown: sys.TimeToLive is 00:05:00 (TimeSpan), huge is 9223372036854775808 (ulong)"}},
		{"colour = colour AND COLOUR + colour = ''", []string{"COLOUR + colour = '' is false: COLOUR is 'red' (string), colour is 'red' (string)"}},
		{"newid() = sym", []string{"newid() = sym is unknown: sym is 'symbol' (symbol)"}},
	} {
		e := Explain(core.Rule{Name: "r", Filter: core.Filter{SQL: c.sql, Parameters: properties(t, "p", "it's", "@none", nil)}}, m, testFacts)
		if e.Err != nil || !slices.Equal(e.Why, c.want) {
			t.Errorf("%s: got %q, %v, want %q", c.sql, e.Why, e.Err, c.want)
		}
	}
}

func TestExplanationsOfFaultsNameTheCondition(t *testing.T) {
	t.Parallel()
	m := testMessage(t)
	e := Explain(core.Rule{Name: "r", Filter: core.Filter{SQL: "yes AND (NOT price / (Quantity - 5) > 1 OR no)"}}, m, testFacts)
	want := "price / (Quantity - 5) > 1 cannot be evaluated: price is 12.5 (double), Quantity is 5 (int)"
	if len(e.Why) != 1 || e.Why[0] != want || e.Truth != Unknown || e.Err == nil {
		t.Errorf("got %v %q, %v, want %q", e.Truth, e.Why, e.Err, want)
	}
	e = Explain(core.Rule{Name: "r", Filter: core.Filter{SQL: "price >"}}, m, testFacts)
	if core.CodeOf(e.Err) != core.InvalidArgument || !strings.Contains(core.TextOf(e.Err), "position 8") {
		t.Errorf("got %v", e.Err)
	}
	e = Explain(core.Rule{Name: "r", Filter: core.Filter{Kind: core.TrueFilter}, Action: "SET x = price / (Quantity - 5)"}, m, testFacts)
	if e.Truth != True || e.Message != nil || !strings.Contains(core.TextOf(e.Err), "division by zero") {
		t.Errorf("got %+v", e)
	}
}

func TestExplanationsOfOtherFilters(t *testing.T) {
	t.Parallel()
	m := testMessage(t)
	label, to, empty := "urgent", "somewhere", ""
	for _, c := range []struct {
		filter core.Filter
		want   []string
	}{
		{core.Filter{Kind: core.TrueFilter}, []string{"the filter matches every message"}},
		{core.Filter{Kind: core.FalseFilter}, []string{"the filter matches no message"}},
		{
			core.Filter{Kind: core.CorrelationFilter, Correlation: &core.Correlation{
				Label: &label, To: &to, ContentType: &empty, ReplyTo: &to, Properties: properties(t, "QUANTITY", int64(5), "half", int64(3), "colour", "blue", "weight", 1.5, "nothing", nil),
			}},
			[]string{
				"ReplyTo = 'somewhere' is false: ReplyTo is not set", "Label = 'urgent' is false: Label is 'order'",
				"ContentType = '' is false: ContentType is 'text/plain'",
				"half = 3 (long) is false: half is 2 (double)", "colour = 'blue' (string) is false: colour is 'red' (string)",
				"weight = 1.5 (double) is false: weight is not set",
			},
		},
		{
			core.Filter{Kind: core.CorrelationFilter, Correlation: &core.Correlation{To: &to, Properties: properties(t, "Quantity", int64(5))}},
			[]string{"To = 'somewhere' is true", "Quantity = 5 (long) is true"},
		},
	} {
		e := Explain(core.Rule{Name: "r", Filter: c.filter}, m, testFacts)
		if e.Err != nil || !slices.Equal(e.Why, c.want) {
			t.Errorf("%+v: got %q, %v, want %q", c.filter, e.Why, e.Err, c.want)
		}
	}
}

// explained parses a filter with notes and evaluates it.
func explained(t *testing.T, sql string, own *names) (*notes, predicate) {
	t.Helper()
	n := &notes{sql: sql}
	p := newParser(sql, core.Properties{}, own)
	p.notes = n
	c, err := p.filter()
	if err != nil {
		t.Fatal(err)
	}
	return n, c
}

// allNotes are those of a condition and its parts.
func allNotes(c predicate) (all []*note) {
	switch c := c.(type) {
	case *note:
		return []*note{c}
	case negation:
		return allNotes(c.of)
	case junction:
		for _, p := range c.parts {
			all = append(all, allNotes(p)...)
		}
	}
	return all
}

func TestExplanationsSayWhatTheEvaluationSays(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		sql := randomCondition(r, 3).sql
		rule := core.Rule{Name: "r", Filter: core.Filter{SQL: sql}}
		compiled, err := Compile(rule)
		if err != nil {
			if e := Explain(rule, &core.Message{}, Facts{}); e.Err == nil || e.Err.Error() != err.Error() {
				t.Fatalf("seed %d: %s: got %v, want %v", seed, sql, e.Err, err)
			}
			continue
		}
		_, p := randomProperties(t, r)
		m := &core.Message{Properties: p}
		want, err := compiled.Matches(m, Facts{})
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, sql, err)
		}
		e := Explain(rule, m, Facts{})
		if e.Truth != want || e.Err != nil || len(e.Why) == 0 || (e.Message != nil) != (want == True) {
			t.Fatalf("seed %d: %s: got %+v, want %v", seed, sql, e, want)
		}
		checkDeciding(t, r, sql, m, want, e.Why)
	}
}

// checkDeciding gives the conditions that are not said to have decided other
// answers: that must not make the filter match, or cease to.
func checkDeciding(t *testing.T, r *rand.Rand, sql string, m *core.Message, want Truth, why []string) {
	t.Helper()
	own := &names{}
	n, c := explained(t, sql, own)
	s := open(m, Facts{}, own)
	defer s.close()
	c.truth(s)
	decided := deciding(nil, c, s, false)
	for i, d := range decided {
		if !strings.HasPrefix(why[i], n.text(d.from, d.to)+" is "+strings.ToLower(d.answer.String())) {
			t.Fatalf("%s: got %q for %q", sql, why[i], n.text(d.from, d.to))
		}
	}
	for range 5 {
		for _, other := range allNotes(c) {
			if !slices.Contains(decided, other) {
				other.answered, other.answer = true, Truth(r.IntN(3)-1)
			}
		}
		switch got := c.truth(s); {
		case want == Unknown && got == True, want != Unknown && got != want:
			t.Fatalf("%s: %q decided that it is %v, but with other answers of the others it is %v", sql, why, want, got)
		}
	}
}
