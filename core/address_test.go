package core_test

import (
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

func TestAnAddressReadsTheSameAgain(t *testing.T) {
	t.Parallel()
	for _, spelled := range []string{
		"orders", "/Orders/", "sb://host:1/orders/$management", "a/b/Subscriptions/s/$DeadLetterQueue", "a%2Fb", "orders?x=y", "a/b%2Fsubscriptions/s",
		"orders/%3a//x/secret", "orders/%253a%252f%252fx%252fsecret", "a%2562", "a%3Fb", "orders//$management", "%2f%2f", "orders/%24management",
	} {
		a, err := core.ParseAddress(spelled)
		if err != nil {
			continue
		}
		again, err := core.ParseAddress(a.String())
		if err != nil || again != a {
			t.Errorf("%q is %+v, and that read again %+v, %v", spelled, a, again, err)
		}
		of, err := core.ParseAddress(a.Entity)
		if err != nil || of.Entity != a.Entity {
			t.Errorf("%q is of %q, and that read again of %q, %v", spelled, a.Entity, of.Entity, err)
		}
	}
}
