package core_test

import (
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

func TestNamesMayBeginAndEndWithAnyOfTheirCharacters(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ entity, subscription bool }{
		"a":                           {true, true},
		"MassTransit--Fault--Order--": {true, true},
		"batcheditem__":               {true, true},
		"_some-name_":                 {true, true},
		".a.":                         {true, true},
		"-":                           {true, true},
		"...":                         {true, true},
		"~a~":                         {true, false},
		"_a-/.b_/-":                   {true, false},
		".":                           {},
		"..":                          {},
		"a/../b":                      {},
		"":                            {},
		"/a":                          {},
		"a/":                          {},
		"a//b":                        {},
		"$a":                          {},
		"a$":                          {},
		"a/$b":                        {},
		"a b":                         {},
		"a\xff":                       {},
		"é":                           {},
		"messages":                    {true, true},
		"a/messages/head":             {true, false},
		"a/Subscriptions/b":           {},
	} {
		if err := core.ValidateName(name); (err == nil) != want.entity || err != nil && core.CodeOf(err) != core.InvalidArgument {
			t.Errorf("entity %q: got %v, want allowed: %t", name, err, want.entity)
		}
		if err := core.ValidateSubscriptionName(name); (err == nil) != want.subscription || err != nil && core.CodeOf(err) != core.InvalidArgument {
			t.Errorf("subscription %q: got %v, want allowed: %t", name, err, want.subscription)
		}
	}
}
