package core

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// modelCovers is Grant.Covers, told segment by segment.
func modelCovers(g Grant, path string) bool {
	var scope []string
	if g.Scope != "" {
		scope = strings.Split(g.Scope, "/")
	}
	segments := strings.Split(path, "/")
	if len(segments) < len(scope) {
		return false
	}
	for i, s := range scope {
		if segments[i] != s {
			return false
		}
	}
	if !g.OfEntity {
		return true
	}
	// What follows is a part of the scope's entity if the scope reaches into its
	// parts already, or the first segment that follows is reserved.
	reserved := func(all []string, i int) bool {
		return i > 0 && (strings.HasPrefix(all[i], "$") || all[i] == "subscriptions" && i+1 < len(all))
	}
	for i := range scope {
		if reserved(segments, i) {
			return true
		}
	}
	return len(segments) == len(scope) || reserved(segments, len(scope))
}

func TestAGrantCoversWhatTheModelSays(t *testing.T) {
	t.Parallel()
	words := []string{"orders", "express", "order", "subscriptions", "$deadletterqueue", "$management", "$transfer", "messages", "eu"}
	r := rand.New(rand.NewPCG(1, 2))
	path := func(most int) string {
		var all []string
		for range 1 + r.IntN(most) {
			all = append(all, words[r.IntN(len(words))])
		}
		return strings.Join(all, "/")
	}
	covered := 0
	for range 200_000 {
		g := Grant{Scope: path(3), OfEntity: r.IntN(2) == 0}
		if strings.HasPrefix(g.Scope, "$") || strings.HasPrefix(g.Scope, "subscriptions") || strings.HasSuffix(g.Scope, "/subscriptions") {
			continue // no entity's
		}
		p := path(3)
		if r.IntN(2) == 0 {
			p = g.Scope + "/" + p
		}
		got, want := g.Covers(p), modelCovers(g, p)
		if got != want {
			t.Fatalf("%+v covers %q: got %v, want %v", g, p, got, want)
		}
		if got {
			covered++
		}
	}
	if covered < 1000 {
		t.Errorf("only %d paths were covered", covered)
	}
}

func TestAnEntitysPolicyEndsWhereTheEntityDoes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scope, path        string
		namespaces, entity bool
	}{
		{"orders", "orders", true, true},
		{"orders", "orders/$deadletterqueue", true, true},
		{"orders", "orders/$transfer/$deadletterqueue", true, true},
		{"orders", "orders/$management", true, true},
		{"orders", "orders/subscriptions/eu", true, true},
		{"orders", "orders/subscriptions/eu/$deadletterqueue", true, true},
		{"orders", "orders/express", true, false},
		{"orders", "orders/express/$management", true, false},
		{"orders", "orders/messages/x", true, false},
		{"orders", "orders2", false, false},
		{"orders/subscriptions/eu", "orders/subscriptions/eu/$management", true, true},
		{"orders/subscriptions/eu", "orders/subscriptions/us", false, false},
		{"orders/subscriptions/eu", "orders", false, false},
		{"", "orders", true, false},
	} {
		for ofEntity, want := range map[bool]bool{false: c.namespaces, true: c.entity} {
			if got := (&Grant{Scope: c.scope, OfEntity: ofEntity}).Covers(c.path); got != want {
				t.Errorf("scope %q, of an entity %v, path %q: got %v, want %v", c.scope, ofEntity, c.path, got, want)
			}
		}
	}
}
