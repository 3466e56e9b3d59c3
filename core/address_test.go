package core_test

import (
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

// spellings are of addresses that mean to be read as another one.
var spellings = []string{
	"orders", "/Orders/", "sb://host:1/orders/$management", "a/b/Subscriptions/s/$DeadLetterQueue", "a%2Fb", "orders?x=y", "a/b%2Fsubscriptions/s",
	"orders/%3a//x/secret", "orders/%253a%252f%252fx%252fsecret", "a%2562", "a%3Fb", "orders//$management", "%2f%2f", "orders/%24management",
	"sb://orders", `sb://host\orders`, `orders\..\secret`, "//", "?", "://", "://x/orders", "orders/://x/secret", "orders/../secret", "./orders", "orders/.",
	"orders//secret", "//host/orders", "orders/", "ORDERS/$DEADLETTERQUEUE", "orders/$deadletterqueue/", "orders/%2e%2e/secret", "orders%00secret",
	"\u212aelvin", "news/\u017fubscriptions/s", "orders/$tran\u017ffer", "orders#secret", "orders%23secret", "orders;secret", "%", "%zz", "$cbs", "orders/$cbs/x",
}

func TestAnAddressReadsTheSameAgain(t *testing.T) {
	t.Parallel()
	for _, spelled := range spellings {
		checkAddress(t, spelled)
	}
}

// Bridges read the address of each request.
func TestReadingAnAddressInItsUsualFormAllocatesNothing(t *testing.T) {
	for _, spelled := range []string{"orders", "orders/$DeadLetterQueue", "news/Subscriptions/s", "news/Subscriptions/s/$DeadLetterQueue"} {
		if n := testing.AllocsPerRun(100, func() { _, _ = core.ParseAddress(spelled) }); n > 0 {
			t.Errorf("%s: got %v allocations, want 0", spelled, n)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, spelled := range spellings {
		f.Add(spelled)
	}
	f.Fuzz(func(t *testing.T, spelled string) { checkAddress(t, spelled) })
}

// checkAddress checks that nothing else is found in an address, or in the entity that it
// is of, when it is read again: rights are asked on the one and the entity is looked up by
// the other.
func checkAddress(t *testing.T, spelled string) {
	t.Helper()
	a, err := core.ParseAddress(spelled)
	if err != nil {
		if core.CodeOf(err) != core.NotFound {
			t.Errorf("%q: got %v", spelled, err)
		}
		if at := core.At(spelled); at.Entity != "" || at.String() != spelled {
			t.Errorf("%q is not an address, and at is %+v", spelled, at)
		}
		return
	}
	if at := core.At(spelled); at != a {
		t.Errorf("%q is %+v, and at %+v", spelled, a, at)
	}
	again, err := core.ParseAddress(a.String())
	if err != nil || again != a {
		t.Errorf("%q is %+v, and that read again %+v, %v", spelled, a, again, err)
	}
	of, err := core.ParseAddress(a.Entity)
	if err != nil || of.Entity != a.Entity {
		t.Errorf("%q is of %q, and that read again of %q, %v", spelled, a.Entity, of.Entity, err)
	}
	if path := core.ResourcePath(spelled); core.ResourcePath(a.Entity) != a.Entity || !core.IsWithin(core.FoldName(path), core.FoldName(a.Entity)) {
		t.Errorf("%q is a part of %q, and read as one of %q", spelled, path, a.Entity)
	}
	grant := core.Grant{Scope: core.FoldName(a.Entity), OfEntity: true}
	if folded := core.FoldName(a.String()); !grant.Covers(folded) {
		t.Errorf("%q: a policy of %q does not cover %q", spelled, a.Entity, folded)
	}
}
