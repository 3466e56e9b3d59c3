package rules

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// compileRule compiles a rule, which must be right.
func compileRule(t testing.TB, r core.Rule) *Rule {
	t.Helper()
	c, err := Compile(r)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sqlRule(t testing.TB, name, sql, action string) *Rule {
	t.Helper()
	return compileRule(t, core.Rule{Name: name, Filter: core.Filter{SQL: sql}, Action: action})
}

func correlationRule(t testing.TB, name, action string, c core.Correlation) *Rule {
	t.Helper()
	return compileRule(t, core.Rule{Name: name, Filter: core.Filter{Kind: core.CorrelationFilter, Correlation: &c}, Action: action})
}

// show writes copies as lines: subscription, rule, the properties of a changed message, or the error.
func show(copies []Copy, original *core.Message) []string {
	lines := make([]string, 0, len(copies))
	for _, c := range copies {
		line := fmt.Sprintf("%d", c.Sub)
		if c.Rule != nil {
			line += " " + c.Rule.Name()
		}
		switch {
		case c.Err != nil:
			line += " error: " + c.Err.Error()
		case c.Message != original:
			line += fmt.Sprintf(" %x %s", c.Message.Properties.Encoded(), c.Message.Subject)
		}
		if c.Err != nil && c.Message != original {
			line += " and not the original"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// linear is Set.Match by its definition.
func linear(subs [][]*Rule, m *core.Message, f Facts) []Copy {
	var copies []Copy
	for sub, rules := range subs {
		plain := false
		for _, r := range rules {
			truth, err := r.Matches(m, f)
			switch {
			case err != nil:
				copies = append(copies, Copy{Sub: sub, Rule: r, Message: m, Err: err})
			case truth != True:
			case !r.HasAction():
				plain = true
			default:
				changed, err := r.Apply(m, f)
				if err != nil {
					changed = m
				}
				copies = append(copies, Copy{Sub: sub, Rule: r, Message: changed, Err: err})
			}
		}
		if plain {
			copies = append(copies, Copy{Sub: sub, Message: m})
		}
	}
	return copies
}

// TestCopiesOfAMessage is the example of the documentation, and its edges.
func TestCopiesOfAMessage(t *testing.T) {
	t.Parallel()
	m := testMessage(t)
	subs := [][]*Rule{
		{}, // a subscription without rules gets nothing
		{sqlRule(t, "a", "1=1", ""), sqlRule(t, "b", "quantity = 5", ""), sqlRule(t, "c", "price > 1", "")},
		{
			sqlRule(t, "a", "yes", ""), sqlRule(t, "b", "quantity = 5", ""), sqlRule(t, "c", "price > 1", ""),
			sqlRule(t, "d", "colour = 'red'", "SET x = 'd'"), sqlRule(t, "e", "1=1", "SET sys.Label = 'e'"),
		},
		{sqlRule(t, "a", "no", ""), sqlRule(t, "b", "missing = 1", "SET x = 1"), sqlRule(t, "c", "1=0", "")},
		{sqlRule(t, "a", "quantity / 0.0 = 1 + missing", ""), sqlRule(t, "b", "1=1", "")},
		{sqlRule(t, "a", "colour = 'red'", "SET x = 1 / (quantity - 5)"), sqlRule(t, "b", "colour = 'red'", "")},
		{sqlRule(t, "a", "colour NOT LIKE char + '%' AND colour = 'red' AND newid() NOT IN (guid, newid())", "")},
		{sqlRule(t, "a", "1 / (quantity - 5) = 1", ""), sqlRule(t, "b", "10 / quantity = 2", ""), sqlRule(t, "c", "10 / quantity > 1", "")},
	}
	got := show(NewSet(subs).Match(nil, m, testFacts), m)
	want := []string{"1", "2", "2 d", "2 e", "4", "4 a error", "5", "5 a error", "6", "7", "7 a error"}
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
	changed := NewSet(subs[2:3]).Match(nil, m, testFacts)
	for _, c := range changed {
		name, _ := c.Message.Properties.Get(PropertyRuleName)
		switch {
		case c.Rule == nil && c.Message != m:
			t.Error("the plain copy is not the message")
		case c.Rule != nil && name != c.Rule.Name():
			t.Errorf("RuleName: got %v, want %s", name, c.Rule.Name())
		}
	}
}

func TestCorrelationFilters(t *testing.T) {
	t.Parallel()
	m := testMessage(t)
	m.ReplyTo = ""
	dateTime := func(s string) value.Described { return value.Described{Descriptor: value.DescriptorDateTime, Value: s} }
	decimal := func(s string) value.Decimal128 {
		d, ok := value.ParseDecimal128(s)
		if !ok {
			t.Fatal(s)
		}
		return d
	}
	m.Properties = m.Properties.Merge(properties(t, "exact", decimal("12.5"), "net", value.Decimal128{0x0c, 0x3e, 15: 125}, "odd", int64(1<<53+1)))
	for _, c := range []struct {
		name   string
		filter core.Correlation
		want   bool
	}{
		{"label", core.Correlation{Label: new("order")}, true},
		{"case counts", core.Correlation{Label: new("Order")}, false},
		{"every text", core.Correlation{
			CorrelationID: new("42"), MessageID: new("m1"), To: new("somewhere"), Label: new("order"), SessionID: new("s1"),
			ContentType: new("text/plain"), ReplyTo: new(""), ReplyToSessionID: new(""),
		}, true},
		{"one text is wrong", core.Correlation{MessageID: new("m1"), To: new("elsewhere")}, false},
		{"empty is a condition", core.Correlation{Label: new("")}, false},
		{"property", core.Correlation{Properties: properties(t, "colour", "red")}, true},
		{"name in another case", core.Correlation{Properties: properties(t, "COLOUR", "red", "straßE", "ß")}, true},
		{"value in another case", core.Correlation{Properties: properties(t, "colour", "Red")}, false},
		{"symbol as string", core.Correlation{Properties: properties(t, "sym", "symbol")}, true},
		{"integers of all widths", core.Correlation{Properties: properties(t, "quantity", int64(5), "u8", int32(200), "big", uint64(1)<<62)}, true},
		{"integer as double", core.Correlation{Properties: properties(t, "quantity", 5.0)}, true},
		{"integer as float", core.Correlation{Properties: properties(t, "quantity", float32(5))}, true},
		{"integer as decimal", core.Correlation{Properties: properties(t, "quantity", decimal("5.00"))}, true},
		{"double as decimal", core.Correlation{Properties: properties(t, "half", decimal("2"))}, true},
		{"decimal as double", core.Correlation{Properties: properties(t, "exact", 12.5)}, true},
		{"decimal as .NET writes it", core.Correlation{Properties: properties(t, "net", decimal("12.50"), "exact", decimal("12.5"))}, true},
		{"large integer as the nearest double", core.Correlation{Properties: properties(t, "odd", float64(1<<53))}, false},
		{"large integer", core.Correlation{Properties: properties(t, "odd", uint64(1<<53+1))}, true},
		{"instant without a zone", core.Correlation{Properties: properties(t, "at", dateTime(testTime.UTC().Format("2006-01-02T15:04:05.999")))}, true},
		{"instant of another zone", core.Correlation{Properties: properties(t, "at", dateTime(testTime.In(time.FixedZone("", 3600)).Format(time.RFC3339Nano)))}, true},
		{"instant to less than a millisecond", core.Correlation{Properties: properties(t, "at", dateTime(testTime.Add(100*time.Nanosecond).Format(time.RFC3339Nano)))}, false},
		{"integer as text", core.Correlation{Properties: properties(t, "quantity", "5")}, false},
		{"double as another integer", core.Correlation{Properties: properties(t, "half", int32(3))}, false},
		{"float as double", core.Correlation{Properties: properties(t, "f32", 0.5)}, true},
		{"boolean", core.Correlation{Properties: properties(t, "yes", true, "no", false)}, true},
		{"uuid", core.Correlation{Properties: properties(t, "guid", testUUID)}, true},
		{"uuid as text", core.Correlation{Properties: properties(t, "guid", testUUID.String())}, false},
		{"timestamp", core.Correlation{Properties: properties(t, "at", value.TimestampOf(testTime))}, true},
		{"binary", core.Correlation{Properties: properties(t, "bytes", []byte("b"))}, true},
		{"list", core.Correlation{Properties: properties(t, "list", value.List{"a"})}, true},
		{"null", core.Correlation{Properties: properties(t, "nothing", nil)}, true},
		{"null as missing", core.Correlation{Properties: properties(t, "missing", nil)}, false},
		{"missing", core.Correlation{Properties: properties(t, "colour", "red", "missing", "x")}, false},
		{"text and property", core.Correlation{Label: new("order"), Properties: properties(t, "quantity", int32(5))}, true},
		{"twice the same name", core.Correlation{Properties: properties(t, "colour", "red", "Colour", "blue")}, false},
	} {
		r := correlationRule(t, "r", "", c.filter)
		truth, err := r.Matches(m, Facts{})
		if got := truth == True; got != c.want || err != nil {
			t.Errorf("%s: got %v, %v, want %t", c.name, truth, err, c.want)
		}
		if got := len(NewSet([][]*Rule{{r}}).Match(nil, m, Facts{})) == 1; got != c.want {
			t.Errorf("%s: got %t from the set, want %t", c.name, got, c.want)
		}
	}
}

func randomRule(t *testing.T, r *rand.Rand, name string) *Rule {
	t.Helper()
	action := []string{"", "", "", "SET x = a", "REMOVE b", "SET sys.Label = a + b", "SET x = 1 / a"}[r.IntN(7)]
	text := func() string {
		v := modelNames[r.IntN(len(modelNames))] + " = " + literal(modelValues[r.IntN(len(modelValues))])
		return []string{v, v, v, "sys.Label = 'a'", "'b' = sys.MessageId", "a < b", "sys.Size > 1", "c / a = 1", "EXISTS(d)", "1=1", "1=0"}[r.IntN(11)]
	}
	switch r.IntN(4) {
	case 0:
		return sqlRule(t, name, text(), action)
	case 1:
		return sqlRule(t, name, text()+[]string{" AND ", " OR "}[r.IntN(2)]+text()+" AND "+text(), action)
	default:
		c := core.Correlation{}
		for _, field := range []**string{&c.Label, &c.MessageID, &c.ReplyTo, &c.ContentType} {
			if r.IntN(6) == 0 {
				*field = new([]string{"a", "b", ""}[r.IntN(3)])
			}
		}
		var pairs []any
		for _, n := range modelNames {
			if r.IntN(3) == 0 || len(pairs) == 0 && n == "d" {
				pairs = append(pairs, n, modelValues[r.IntN(len(modelValues))])
			}
		}
		c.Properties = properties(t, pairs...)
		return correlationRule(t, name, action, c)
	}
}

func TestTheIndexFindsWhatLinearSearchFinds(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	found := 0
	for range 60 {
		subs := make([][]*Rule, 1+r.IntN(100))
		for i := range subs {
			for j := range r.IntN(6) {
				subs[i] = append(subs[i], randomRule(t, r, fmt.Sprintf("r%d", j)))
			}
		}
		set := NewSet(subs)
		var copies []Copy
		for range 30 {
			_, p := randomProperties(t, r)
			m := &core.Message{
				Properties: p, Subject: []string{"", "a", "b"}[r.IntN(3)],
				MessageID: []core.ID{{}, core.StringID("a"), core.ULongID(7), core.StringID("b")}[r.IntN(4)],
			}
			copies = set.Match(copies[:0], m, testFacts)
			got, want := show(copies, m), show(linear(subs, m, testFacts), m)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: got %q, want %q", seed, got, want)
			}
			found += len(got)
		}
	}
	if found < 10_000 {
		t.Errorf("only %d copies were made", found)
	}
}

func TestASetServesManyGoroutines(t *testing.T) {
	t.Parallel()
	m := testMessage(t)
	subs := [][]*Rule{
		{sqlRule(t, "a", "colour = 'red'", ""), sqlRule(t, "b", "quantity > 1", "SET x = newid()")},
		{correlationRule(t, "c", "SET colour = 'blue'", core.Correlation{Label: new("order")})},
		{sqlRule(t, "d", "p('col' + 'our') LIKE '%d'", "")},
	}
	set := NewSet(subs)
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for range 200 {
				if got := set.Match(nil, m, Facts{}); len(got) != 4 {
					t.Errorf("got %d copies, want 4", len(got))
				}
			}
		})
	}
}

func TestPlainCopiesTakeNoAllocation(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector makes sync.Pool forget")
	}
	m := testMessage(t)
	set := NewSet([][]*Rule{
		{sqlRule(t, "a", "colour = 'red' AND quantity > 3 AND price IN (1, 12.5) AND sys.Label LIKE 'o%' AND span IS NOT NULL AND at <= sys.EnqueuedTimeUtc", "")},
		{sqlRule(t, "b", "quantity * 2 = 10 OR p('colour') = 'blue'", "")},
		{correlationRule(t, "c", "", core.Correlation{Label: new("order"), Properties: properties(t, "guid", testUUID)})},
		{sqlRule(t, "d", "1=1", "")},
		{sqlRule(t, "e", "p(sym) = 'x' OR p('symbol') IS NULL", "")},
	})
	copies := make([]Copy, 0, 8)
	if n := testing.AllocsPerRun(100, func() {
		if copies = set.Match(copies[:0], m, testFacts); len(copies) != 5 {
			t.Fatalf("got %d copies, want 5", len(copies))
		}
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
