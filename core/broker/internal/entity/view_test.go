package entity

import "testing"

func TestPatternsOfNames(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"orders", "orders", true},
		{"orders", "orders2", false},
		{"*", "anything/at/all", true},
		{"orders/*", "orders/eu/1", true},
		{"orders/*", "orders", false},
		{"*-in", "orders-in", true},
		{"*-in", "orders-in-2", false},
		{"a*b*c", "a--b--c", true},
		{"a*b*c", "abc", true},
		{"a*b*c", "ac", false},
		{"ab*ba", "aba", false},
		{"a*b*b", "ab", false},
		{"**", "", true},
		{"", "q", false},
	} {
		if got := FitsPattern(c.pattern, c.name); got != c.want {
			t.Errorf("%q of %q: got %v", c.pattern, c.name, got)
		}
	}
}
