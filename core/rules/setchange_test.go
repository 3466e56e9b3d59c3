package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

// changeable makes the i-th rule of many: of one shape, of shapes of their own,
// of no shape, with actions, with faults, and some that match all or nothing.
func changeable(tb testing.TB, i int) *Rule {
	tb.Helper()
	name := fmt.Sprint("r", i)
	switch i % 8 {
	case 0:
		return correlationRule(tb, name, "", core.Correlation{Properties: properties(tb, "quantity", int64(i%3+4))})
	case 1:
		return correlationRule(tb, name, "SET x = 1", core.Correlation{Properties: properties(tb, fmt.Sprint("p", i), "x", "quantity", int64(5))})
	case 2:
		return sqlRule(tb, name, fmt.Sprintf("colour = 'red' AND quantity = %d", i%4+3), "")
	case 3:
		return sqlRule(tb, name, fmt.Sprintf("price > %d", i%5), fmt.Sprintf("SET y = %d", i))
	case 4:
		return sqlRule(tb, name, "1 / (quantity - 5) = 1", "")
	case 5:
		return compileRule(tb, core.Rule{Name: name, Filter: core.Filter{Kind: core.FalseFilter}})
	case 6:
		return compileRule(tb, core.Rule{Name: name, Filter: core.Filter{Kind: core.TrueFilter}, Action: "SET z = 1"})
	default:
		return compileRule(tb, core.Rule{Name: name, Filter: core.Filter{Kind: core.TrueFilter}})
	}
}

// After any changes a set matches as one that is made of the same rules.
func TestAChangedSetMatchesAsANewOne(t *testing.T) {
	t.Parallel()
	m := testMessage(t)
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 0))
		subs := make([][]*Rule, 3)
		set, next, kept := NewSet(subs), 0, 0
		for range 120 {
			sub := random.IntN(len(subs))
			same := false
			if n := len(subs[sub]); n > 0 && random.IntN(3) == 0 {
				at := random.IntN(n)
				same = set.Remove(sub, subs[sub][at])
				subs[sub] = slices.Delete(slices.Clone(subs[sub]), at, at+1)
			} else {
				next++
				r := changeable(t, next*7+random.IntN(7))
				same = set.Add(sub, r)
				subs[sub] = append(slices.Clip(subs[sub]), r)
			}
			if same {
				kept++
			} else {
				set = NewSet(subs)
			}
			got, want := show(set.Match(nil, m, testFacts), m), show(NewSet(subs).Match(nil, m, testFacts), m)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: got %q, want %q", seed, got, want)
			}
		}
		if kept < 30 {
			t.Errorf("seed %d: the set was made anew but for %d changes", seed, kept)
		}
	}
}

// Rules that ask what the set does not ask yet are left to a new set: those that
// publish have asked already.
func TestASetDoesNotTakeRulesThatAskMore(t *testing.T) {
	t.Parallel()
	set := NewSet([][]*Rule{{sqlRule(t, "a", "quantity = 5", "")}})
	for _, sql := range []string{"plugin('clerk')", "body.total > 1"} {
		r := sqlRule(t, "b", sql, "")
		if set.Add(0, r) {
			t.Errorf("%s: the rule was added", sql)
		}
	}
	if set.ReadsBodies() || len(set.Calls()) > 0 {
		t.Error("the set asks more than before")
	}
}

// BenchmarkAddRule adds a correlation rule to a set of so many and removes it.
func BenchmarkAddRule(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			of := func(i int) *Rule {
				return correlationRule(b, fmt.Sprint("r", i), "", core.Correlation{Properties: properties(b, "customer", fmt.Sprint("c", i))})
			}
			rules := make([]*Rule, n)
			for i := range rules {
				rules[i] = of(i)
			}
			set, more := NewSet([][]*Rule{rules}), of(n)
			b.ReportAllocs()
			for b.Loop() {
				if !set.Add(0, more) || !set.Remove(0, more) {
					b.Fatal("the rule was not taken")
				}
			}
		})
	}
}
