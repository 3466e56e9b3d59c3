package core_test

import (
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

func properties(t *testing.T, pairs ...core.Property) core.Properties {
	t.Helper()
	p, err := core.NewProperties(pairs...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAVerdictRemovesBeforeItSets(t *testing.T) {
	t.Parallel()
	a, b, c := core.Property{Key: "a", Value: int32(1)}, core.Property{Key: "b", Value: "two"}, core.Property{Key: "c", Value: value.Symbol("three")}
	newB := core.Property{Key: "b", Value: uint8(2)}
	for _, test := range []struct {
		name        string
		before      core.Properties
		verdict     core.Verdict
		want        core.Properties
		sameEncoded bool
	}{
		{name: "nothing to do", before: properties(t, a, b), want: properties(t, a, b), sameEncoded: true},
		{name: "an unknown name", before: properties(t, a, b), verdict: core.Verdict{Remove: []string{"x"}}, want: properties(t, a, b), sameEncoded: true},
		{name: "no properties", verdict: core.Verdict{Remove: []string{"x"}}, want: core.Properties{}},
		{name: "all removed", before: properties(t, a, b), verdict: core.Verdict{Remove: []string{"b", "a"}}, want: core.Properties{}},
		{name: "one removed", before: properties(t, a, b, c), verdict: core.Verdict{Remove: []string{"b"}}, want: properties(t, a, c)},
		{name: "removed and set", before: properties(t, a, b, c), verdict: core.Verdict{Remove: []string{"b"}, Set: properties(t, newB)}, want: properties(t, a, c, newB)},
		{name: "set where there was none", verdict: core.Verdict{Set: properties(t, a)}, want: properties(t, a)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := test.verdict.Revise(test.before)
			if string(got.Encoded()) != string(test.want.Encoded()) {
				t.Errorf("got %x, want %x", got.Encoded(), test.want.Encoded())
			}
			if test.sameEncoded && &got.Encoded()[0] != &test.before.Encoded()[0] {
				t.Error("encoded anew for nothing")
			}
		})
	}
}
