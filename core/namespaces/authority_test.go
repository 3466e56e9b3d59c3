package namespaces

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
)

func TestHostsThenPoliciesSayWhichNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		_, err := g.Create(t.Context(), core.Namespace{Name: "Made", Hosts: []string{"made.example"}, Policies: []core.AccessRule{policy("root", "made-key"), policy("other", "home-key")}})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			policy, key string
			hosts       []string
			want        string // "": refused
		}{
			{"root", "home-key", nil, "home"},
			{"root", "set-key", nil, "set"},
			{"root", "made-key", nil, "Made"},
			{"other", "home-key", nil, "Made"}, // of a key only the policy's name counts
			{"root", "wrong", nil, ""},
			{"unknown", "home-key", nil, ""},
			{"root", "set-key", []string{"localhost:5672", "127.0.0.1", "[::1]:5672", "unknown.example"}, "set"},
			{"root", "set-key", []string{"SET.example.:5671"}, "set"},
			{"root", "made-key", []string{"sb://made.example:5671/"}, "Made"},
			{"root", "made-key", []string{"made.localhost:5672"}, "Made"},
			{"root", "made-key", []string{"MADE.servicebus.windows.net"}, "Made"},
			{"root", "home-key", []string{"home.localhost"}, "home"},
			{"root", "made-key", []string{"localhost", "made.example", "set.example"}, "Made"}, // the first that is one's
			{"root", "set-key", []string{"localhost", "made.example", "set.example"}, ""},
			{"root", "home-key", []string{"set.example"}, ""}, // a host decides, whatever the key
			{"root", "made-key", []string{"home.localhost"}, ""},
		} {
			id, err := g.enter(c.policy, c.key, c.hosts...)
			grant, errKey := g.Key(t.Context(), c.hosts, c.policy, c.key)
			if c.want == "" {
				if !errors.Is(err, core.Unauthorized) || !errors.Is(errKey, core.Unauthorized) {
					t.Errorf("%s, %s at %q: got %v and %v, want refusals", c.policy, c.key, c.hosts, err, errKey)
				}
				continue
			}
			if err != nil || id.Namespace() != c.want {
				t.Errorf("%s, %s at %q: got %q, %v, want %q", c.policy, c.key, c.hosts, id.Namespace(), err, c.want)
			}
			if errKey != nil || grant.Namespace != c.want {
				t.Errorf("%s, %s at %q, by key: got %q, %v, want %q", c.policy, c.key, c.hosts, grant.Namespace, errKey, c.want)
			}
		}
	})
}

func TestEachKeyFindsItsNamespaceAmongMany(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		const many = 5 * recentlyUsed
		for i := range many {
			g.create(fmt.Sprintf("n%d", i))
		}
		for i := range 4 * many {
			name := fmt.Sprintf("n%d", i*37%many)
			if id := g.mustEnter("root", name+"-key"); id.Namespace() != name {
				t.Fatalf("the key of %s opens %s", name, id.Namespace())
			}
			if i%many == 3 {
				if err := g.Delete(t.Context(), name); err != nil {
					t.Fatal(err)
				}
				g.create(name)
			}
		}
	})
}

// Credentials that fit no namespace take a bounded number of tries where there are many
// namespaces, and clients that name their namespace are let in meanwhile.
func TestForgedCredentialsCostABoundedNumberOfTries(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		const many = 1000
		for i := range many {
			name := fmt.Sprintf("n%04d", i)
			if _, err := g.Create(t.Context(), core.Namespace{Name: name, Policies: []core.AccessRule{policy("root", name+"-key")}}); err != nil {
				t.Fatal(err)
			}
		}
		forged := auth.SignSAS("sb://localhost/", "root", "wrong", time.Now().Add(time.Hour))
		prove := map[string]func() error{
			"token": func() error { _, err := g.Token(t.Context(), []string{"localhost"}, forged, ""); return err },
			"key":   func() error { _, err := g.Key(t.Context(), []string{"localhost"}, "root", "wrong"); return err },
		}
		for name, prove := range prove {
			time.Sleep(10 * time.Second) // the budget is whole again
			began, at := g.KeyTries(), time.Now()
			const attempts = 500
			errs := make([]error, attempts)
			var all sync.WaitGroup
			for i := range errs {
				all.Go(func() { errs[i] = prove() })
			}
			all.Wait()
			codes := map[core.Code]int{}
			for _, err := range errs {
				codes[core.CodeOf(err)]++
			}
			// Each is tried with the recent ones; the registry is asked in between, which takes time.
			most := attempts*2*(recentlyUsed+3) + (3+int(time.Since(at).Seconds()))*searchesPerSecond
			if tries := int(g.KeyTries() - began); tries > most || codes[core.Busy] == 0 || codes[core.Unauthorized] == 0 || len(codes) != 2 {
				t.Errorf("%s: %d attempts took %d tries, want at most %d, and were answered %v", name, attempts, tries, most, codes)
			}
			if _, err := g.Token(t.Context(), []string{"localhost"}, auth.SignSAS("sb://n0500.localhost/", "root", "n0500-key", time.Now().Add(time.Hour)), ""); err != nil {
				t.Errorf("%s: with a key, and a host in the token: %v", name, err)
			}
			if _, err := g.enter("root", "n0501-key", "n0501.localhost"); err != nil {
				t.Errorf("%s: with a key, at a host: %v", name, err)
			}
			began = g.KeyTries()
			if _, err := g.Token(t.Context(), nil, auth.SignSAS("sb://n0502.localhost/", "root", "wrong", time.Now().Add(time.Hour)), ""); !errors.Is(err, core.Unauthorized) || g.KeyTries()-began > 2 {
				t.Errorf("%s: a forged token that names a host took %d tries: %v", name, g.KeyTries()-began, err)
			}
		}
		time.Sleep(10 * time.Second)
		for i := 0; i < many; i += 20 { // a search that finds something spends nothing
			name := fmt.Sprintf("n%04d", i)
			if id, err := g.enter("root", name+"-key"); err != nil || id.Namespace() != name {
				t.Fatalf("the key of %s: %v", name, err)
			}
		}
	})
}

func TestAnExpiredTokenIsToldFromAForgedOne(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		old := auth.SignSAS("sb://localhost/", "root", "set-key", time.Now().Add(-time.Second))
		began := time.Now()
		if _, err := g.Token(t.Context(), nil, old, ""); !strings.HasPrefix(core.TextOf(err), "ExpiredToken: ") {
			t.Errorf("got %v", err)
		}
		if !began.Equal(time.Now()) {
			t.Error("whose token it is was known, and the registry asked all the same")
		}
	})
}

func TestWebTokensAreForTheGatewaysOwnNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		for _, host := range []string{"", "localhost", "home.localhost", "unknown.example"} {
			if grant, err := g.Token(t.Context(), []string{host}, "Bearer eyJ", ""); err != nil || grant.Namespace != "home" || grant.NamespaceID != "home" {
				t.Errorf("at %q: got %+v, %v", host, grant, err)
			}
		}
		g.create("made")
		for _, host := range []string{"set.example", "made.localhost"} {
			if grant, err := g.Token(t.Context(), []string{host}, "Bearer eyJ", ""); !errors.Is(err, core.Unauthorized) {
				t.Errorf("at %s: got %+v, %v, want a refusal", host, grant, err)
			}
		}
	})
}

func TestPoliciesOfEntitiesNeedAHost(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		s := core.DefaultSettings(core.Queue)
		s.AuthorizationRules = []core.AccessRule{{Name: "reader", PrimaryKey: "made-reader", Rights: core.Listen}}
		if _, err := g.CreateEntity(t.Context(), g.create("made"), core.Queue, "q", s, nil); err != nil {
			t.Fatal(err)
		}
		s.AuthorizationRules[0].PrimaryKey = "home-reader"
		if _, err := g.CreateEntity(t.Context(), g.mustEnter("root", "home-key"), core.Queue, "q", s, nil); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ host, key, want string }{
			{"made.localhost", "made-reader", "made"},
			{"made.localhost", "home-reader", ""},
			{"localhost", "made-reader", ""},
			{"localhost", "home-reader", "home"},
		} {
			grant, err := g.Token(t.Context(), []string{c.host}, auth.SignSAS("sb://any/q", "reader", c.key, time.Now().Add(time.Hour)), "")
			if (err == nil) != (c.want != "") || grant.Namespace != c.want {
				t.Errorf("%s at %s: got %q, %v, want %q", c.key, c.host, grant.Namespace, err, c.want)
			}
			if err == nil && (grant.Rights != core.Listen || grant.Scope != "q") {
				t.Errorf("%s at %s: got %v on %q", c.key, c.host, grant.Rights, grant.Scope)
			}
		}
	})
}

func TestConnectionsAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		id := g.create("made")
		if _, err := g.Change(t.Context(), "made", func(n *core.Namespace) error { n.Quotas.MaxConnections = 2; return nil }); err != nil {
			t.Fatal(err)
		}
		first, err := g.Directory.Enter(id, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Directory.Enter(id, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Directory.Enter(id, nil); !errors.Is(err, core.QuotaExceeded) || !strings.Contains(core.TextOf(err), "'made' has 2") {
			t.Errorf("a third: got %v", err)
		}
		if _, err := g.Directory.Enter(g.mustEnter("root", "home-key"), nil); err != nil {
			t.Errorf("in another namespace: %v", err)
		}
		first()
		first()
		if about, err := g.Describe(t.Context(), "made"); err != nil || about.Connections != 1 {
			t.Errorf("got %+v, %v, want one connection", about, err)
		}
		if _, err := g.Directory.Enter(id, nil); err != nil {
			t.Errorf("after one has left: %v", err)
		}
	})
}

func TestPeersOfADeletedNamespaceAreRefusedAtOnce(t *testing.T) {
	withTwo(t, func(t *testing.T, one, two *gateway) {
		id := one.create("made")
		one.queue(id, "q")
		theirs := two.mustEnter("root", "made-key")
		told := map[*gateway]chan error{one: make(chan error, 1), two: make(chan error, 1)}
		for g, id := range map[*gateway]core.Identity{one: id, two: theirs} {
			if _, err := g.Directory.Enter(id, func(err error) { told[g] <- err }); err != nil {
				t.Fatal(err)
			}
		}
		if err := one.Delete(t.Context(), "MADE"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, g := range []*gateway{one, two} {
			if err := <-told[g]; !errors.Is(err, core.NotFound) || !strings.Contains(core.TextOf(err), "'made' was deleted") {
				t.Errorf("got %v", err)
			}
			if _, err := g.Directory.Enter(id, nil); !errors.Is(err, core.NotFound) {
				t.Errorf("enter: got %v", err)
			}
			if _, err := g.Peek(t.Context(), id, core.At("q"), nil, 0, 1); !errors.Is(err, core.NotFound) {
				t.Errorf("peek: got %v", err)
			}
			if _, err := g.enter("root", "made-key"); !errors.Is(err, core.Unauthorized) {
				t.Errorf("prove: got %v", err)
			}
		}
		again := one.create("made") // is another
		if _, err := one.Peek(t.Context(), id, core.At("q"), nil, 0, 1); !errors.Is(err, core.NotFound) {
			t.Errorf("whoever was in the old one: got %v", err)
		}
		if _, err := id.With(again[0], 10, time.Now()); !errors.Is(err, core.Unauthorized) {
			t.Errorf("a token for the new one: got %v", err)
		}
	})
}

// A namespace may be named as one of its queues is. A token for that queue is not
// one for all of the namespace.
func TestATokenForAQueueIsNotForTheNamespaceOfThatName(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		g.create("orders")
		for resource, scope := range map[string]string{
			"orders": "orders", "orders/": "orders", "orders/eu": "orders/eu", "sb://orders/": "", "orders.localhost": "", "orders.localhost/eu": "eu",
		} {
			token := auth.SignSAS(resource, "root", "orders-key", time.Now().Add(time.Hour))
			if grant, err := g.Token(t.Context(), nil, token, ""); err != nil || grant.Namespace != "orders" || grant.Scope != scope {
				t.Errorf("for %s: got the scope %q of %q, %v, want %q", resource, grant.Scope, grant.Namespace, err, scope)
			}
		}
	})
}

// A token by a policy of an entity is for the namespace whose host its resource names: at whichever host it is shown.
func TestThePolicyOfAnEntityIsOfTheNamespaceThatItsTokenNames(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		for _, id := range []core.Identity{g.create("made"), g.mustEnter("root", "home-key")} {
			s := core.DefaultSettings(core.Queue)
			s.AuthorizationRules = []core.AccessRule{{Name: "till", PrimaryKey: "key of " + id.Namespace(), Rights: core.Listen}}
			if _, err := g.CreateEntity(t.Context(), id, core.Queue, "orders", s, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct{ host, resource, key, want string }{
			{"made.localhost", "http://made.localhost/orders", "key of made", "made"},
			{"localhost", "http://made.localhost/orders", "key of made", "made"},
			{"made.localhost", "http://localhost/orders", "key of made", "made"},
			{"localhost", "http://localhost/orders", "key of home", "home"},
			{"localhost", "http://localhost/orders", "key of made", ""},
			{"localhost", "http://made.localhost/orders", "key of home", ""},
			{"made.localhost", "http://made.localhost/orders", "key of home", ""},
		} {
			grant, err := g.Token(t.Context(), []string{c.host}, auth.SignSAS(c.resource, "till", c.key, time.Now().Add(time.Hour)), "http://"+c.host+"/orders")
			switch {
			case c.want == "" && !errors.Is(err, core.Unauthorized):
				t.Errorf("%+v: got %+v, %v, want a refusal", c, grant, err)
			case c.want != "" && (err != nil || grant.Namespace != c.want || grant.Rights != core.Listen || grant.Scope != "orders"):
				t.Errorf("%+v: got %+v, %v", c, grant, err)
			}
		}
	})
}

func TestOnlyOperatorsEnterOtherNamespaces(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		g.create("made")
		ends := time.Now().Add(time.Minute)
		operator := core.Grant{Namespace: "home", NamespaceID: "home", Policy: "root", Rights: core.Manage, Expires: ends}
		for _, name := range []string{"set", "MADE", "home"} {
			in, err := g.Within(t.Context(), operator, name)
			want := g.named(name).record.Load()
			if err != nil || in.Namespace != want.Name || in.NamespaceID != want.ID {
				t.Errorf("in %s: got %+v, %v", name, in, err)
			}
			if in.Rights != core.Manage || in.Policy != "root" || !in.Expires.Equal(ends) {
				t.Errorf("in %s: got %+v, want the operator's rights, policy and end", name, in)
			}
		}
		if _, err := g.Within(t.Context(), operator, "none"); !errors.Is(err, core.NotFound) {
			t.Errorf("in none: got %v, want NotFound", err)
		}
		for why, alter := range map[string]func(*core.Grant){
			"of another namespace": func(o *core.Grant) { o.Namespace, o.NamespaceID = "set", "set" },
			"of one entity":        func(o *core.Grant) { o.Scope = "orders" },
			"without Manage":       func(o *core.Grant) { o.Rights = core.Send | core.Listen },
			"that has ended":       func(o *core.Grant) { o.Expires = time.Now() },
		} {
			other := operator
			alter(&other)
			for _, name := range []string{"made", "none"} {
				if in, err := g.Within(t.Context(), other, name); !errors.Is(err, core.Unauthorized) {
					t.Errorf("a grant %s, in %s: got %+v, %v, want Unauthorized", why, name, in, err)
				}
			}
		}
	})
}
