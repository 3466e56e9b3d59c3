package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// expensive are rules of at most the length that is allowed which take long for the
// largest properties that a message may have.
func expensive(tb testing.TB) map[string]struct {
	rule    core.Rule
	message *core.Message
} {
	tb.Helper()
	long := strings.Repeat("a", 60_000)
	texts := &core.Message{Properties: properties(tb, "a", long, "b", long, "c", long[:30_000]+"x")}
	pattern := &core.Message{Properties: properties(tb, "a", long, "p", "%"+strings.Repeat("a_", 2000)+"b%")}
	var many []any
	for i := range 9000 {
		many = append(many, fmt.Sprintf("k%d", i), true)
	}
	crowd := &core.Message{Properties: properties(tb, many...)}
	filter := func(sql string) core.Rule { return core.Rule{Name: "r", Filter: core.Filter{SQL: sql}} }
	action := func(sql string) core.Rule {
		return core.Rule{Name: "r", Filter: core.Filter{Kind: core.TrueFilter}, Action: sql}
	}
	return map[string]struct {
		rule    core.Rule
		message *core.Message
	}{
		"LIKE with a long run":          {filter("a LIKE '%" + strings.Repeat("a_", 490) + "b%'"), texts},
		"LIKE with a computed pattern":  {filter(repeated("a LIKE p", " OR ", 80)), pattern},
		"comparisons of long texts":     {filter(repeated("a < b", " OR ", 110)), texts},
		"IN with long texts":            {filter("a IN (" + repeated("b", ",", 400) + ",'')"), &core.Message{Properties: properties(tb, "a", long+"x", "b", long+"y")}},
		"joined texts":                  {filter(repeated("c+c = 'x'", " OR ", 75)), texts},
		"computed names":                {filter(repeated("p(k0+'x') = 1", " OR ", 55)), crowd},
		"an action that reads much":     {action("SET x = " + repeated("y", "+", 490)), crowd},
		"an action that doubles":        {action("SET x='a'" + strings.Repeat(" SET x=x+x", 15) + strings.Repeat(" SET y=x+''", 15)), texts},
		"an action for many properties": {action(repeated("REMOVE y", ",", 32)), crowd},
	}
}

func repeated(s, between string, n int) string { return strings.Repeat(s+between, n-1) + s }

// subscriptionsWith is so many subscriptions that have the rule, and the shortest one
// of all last.
func subscriptionsWith(tb testing.TB, r core.Rule, n int) *Set {
	tb.Helper()
	c, err := Compile(r)
	if err != nil {
		tb.Fatal(err)
	}
	subs := make([][]*Rule, n, n+1)
	for i := range subs {
		subs[i] = []*Rule{c}
	}
	return NewSet(append(subs, []*Rule{sqlRule(tb, "cheap", "1 < 2 OR short = 'x'", "")}))
}

// maxSQLRules is the number of rules with SQL filters a topic may have.
const maxSQLRules = 2000

func TestAllRulesTogetherHaveABudgetPerMessage(t *testing.T) {
	t.Parallel()
	for name, c := range expensive(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := subscriptionsWith(t, c.rule, maxSQLRules)
			copies := set.Match(nil, c.message, Facts{})
			refused := 0
			for _, x := range copies {
				if x.Err != nil && strings.Contains(core.TextOf(x.Err), "takes too long") && errors.Is(x.Err, core.InvalidArgument) {
					refused++
				}
			}
			if refused == 0 {
				t.Errorf("none of the rules was refused: %d copies", len(copies))
			}
			if last := copies[len(copies)-1]; last.Sub != maxSQLRules || last.Err != nil {
				t.Errorf("a rule that needs no work: got %+v", last)
			}
			if again := set.Match(nil, &core.Message{}, Facts{}); len(again) == 0 || again[len(again)-1].Err != nil {
				t.Errorf("the next message: got %d copies", len(again))
			}
		})
	}
}

func TestRulesThatLookAtLongTextsOnceStayWithinTheBudget(t *testing.T) {
	t.Parallel()
	m := &core.Message{Properties: properties(t, "a", strings.Repeat("abc ", 15_000)+"end")}
	for _, sql := range []string{"a LIKE '%c end'", "a LIKE 'abc%b_ end%'", "a LIKE '%x%' OR a LIKE '%end%'", "a > 'abc' AND a <> 'x'"} {
		set := subscriptionsWith(t, core.Rule{Name: "r", Filter: core.Filter{SQL: sql}}, 200)
		copies := set.Match(nil, m, Facts{})
		for _, x := range copies {
			if x.Err != nil {
				t.Fatalf("%s: %v", sql, x.Err)
			}
		}
		if len(copies) != 201 {
			t.Errorf("%s: got %d copies", sql, len(copies))
		}
	}
}

func TestFieldsOfLargeBodiesHaveABudget(t *testing.T) {
	t.Parallel()
	body := make(value.Map, 0, 20_000)
	for i := range 20_000 {
		body = append(body, value.Entry{Key: fmt.Sprintf("k%d", i), Value: int64(i)})
	}
	facts := Facts{Body: func(*core.Message) (any, error) { return value.Map{{Key: "all", Value: body}}, nil }}
	for _, sql := range []string{repeated("body.all.x = 1", " OR ", 50), repeated("body.all = 1", " OR ", 60)} {
		copies := subscriptionsWith(t, core.Rule{Name: "r", Filter: core.Filter{SQL: sql}}, 100).Match(nil, &core.Message{}, facts)
		if len(copies) < 2 || copies[0].Err == nil || copies[len(copies)-1].Err != nil {
			t.Errorf("%.20s…: got %d copies", sql, len(copies))
		}
	}
}

// BenchmarkWorstMessage is the most that a message can cost a topic whose rules are
// made for that.
func BenchmarkWorstMessage(b *testing.B) {
	for name, c := range expensive(b) {
		b.Run(name, func(b *testing.B) {
			set := subscriptionsWith(b, c.rule, maxSQLRules)
			var copies []Copy
			b.ReportAllocs()
			for b.Loop() {
				copies = set.Match(copies[:0], c.message, Facts{})
			}
		})
	}
}
