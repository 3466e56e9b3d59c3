package namespaces

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

func TestANamespaceWithoutPoliciesGetsOneWithRandomKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		seen := map[string]bool{}
		for _, n := range []core.Namespace{{Name: "one"}, {Name: "two", Policies: []core.AccessRule{{Name: DefaultPolicy, Rights: core.AllRights}}}} {
			made, err := g.Create(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			p := made.Policies[0]
			for _, key := range []string{p.PrimaryKey, p.SecondaryKey} {
				if id := g.mustEnter(DefaultPolicy, key); id.Namespace() != n.Name || len(key) != 44 || seen[key] || p.Rights != core.AllRights {
					t.Errorf("%s: got %+v", n.Name, p)
				}
				seen[key] = true
			}
		}
	})
}

func TestAmbiguousPoliciesAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		if _, err := g.Create(t.Context(), core.Namespace{Name: "made", Hosts: []string{"made.example"}, Policies: []core.AccessRule{policy("root", "made-key")}}); err != nil {
			t.Fatal(err)
		}
		many := make([]core.AccessRule, core.MaxAccessRules+1)
		for i := range many {
			many[i] = policy(fmt.Sprint("p", i), fmt.Sprint("k", i))
		}
		for _, c := range []struct {
			n    core.Namespace
			want core.Code
			text string
		}{
			{core.Namespace{Name: "MADE"}, core.AlreadyExists, "'MADE' already exists"},
			{core.Namespace{Name: "home"}, core.AlreadyExists, "'home' already exists"},
			{core.Namespace{Name: "Set"}, core.AlreadyExists, "'Set' already exists"},
			{core.Namespace{Name: ""}, core.InvalidArgument, "not a valid namespace name"},
			{core.Namespace{Name: "-a"}, core.InvalidArgument, "not a valid namespace name"},
			{core.Namespace{Name: "a.b"}, core.InvalidArgument, "not a valid namespace name"},
			{core.Namespace{Name: strings.Repeat("a", 64)}, core.InvalidArgument, "not a valid namespace name"},
			{core.Namespace{Name: "new", Hosts: []string{"MADE.example"}}, core.AlreadyExists, "'made'"},
			{core.Namespace{Name: "new", Hosts: []string{"set.localhost"}}, core.AlreadyExists, "'set'"},
			{core.Namespace{Name: "new", Hosts: []string{"localhost"}}, core.InvalidArgument, "cannot identify a namespace"},
			{core.Namespace{Name: "new", Hosts: []string{"LocalHost."}}, core.InvalidArgument, "cannot identify a namespace"},
			{core.Namespace{Name: "new", Hosts: []string{"[::1]"}}, core.InvalidArgument, "cannot identify a namespace"},
			{core.Namespace{Name: "new", Hosts: []string{"127.0.0.1."}}, core.InvalidArgument, "cannot identify a namespace"},
			{core.Namespace{Name: "new", Hosts: []string{"10.0.0.1"}}, core.InvalidArgument, "cannot identify a namespace"},
			{core.Namespace{Name: "new", Hosts: []string{"new.example:5672"}}, core.InvalidArgument, "valid host name"},
			{core.Namespace{Name: "new", Hosts: []string{"sb://new.example"}}, core.InvalidArgument, "valid host name"},
			{core.Namespace{Name: "new", Hosts: []string{""}}, core.InvalidArgument, "valid host name"},
			{core.Namespace{Name: "new", Hosts: make([]string, MaxHosts+1)}, core.OutOfRange, "33 hosts"},
			{core.Namespace{Name: "new", Policies: many}, core.OutOfRange, "13 policies"},
			{core.Namespace{Name: "new", Policies: []core.AccessRule{policy("root", "made-key")}}, core.InvalidArgument, "'made' already has"},
			{core.Namespace{Name: "new", Policies: []core.AccessRule{{Name: "root", PrimaryKey: "new-key", SecondaryKey: "home-key", Rights: core.Send}}}, core.InvalidArgument, "'home' already has"},
			{core.Namespace{Name: "new", Policies: []core.AccessRule{policy("a;b", "k")}}, core.InvalidArgument, "valid policy name"},
			{core.Namespace{Name: "new", Policies: []core.AccessRule{policy("a", "k;k")}}, core.InvalidArgument, "semicolon"},
			{core.Namespace{Name: "new", Policies: []core.AccessRule{policy("a", "k"), policy("a", "l")}}, core.InvalidArgument, "twice"},
			{core.Namespace{Name: "new", Policies: []core.AccessRule{{Name: "a", PrimaryKey: "k"}}}, core.InvalidArgument, "no rights"},
			{core.Namespace{Name: "new", Policies: []core.AccessRule{policy("a", "known-key")}}, core.InvalidArgument, "is publicly known"},
			{core.Namespace{Name: "new", Policies: []core.AccessRule{{Name: "a", PrimaryKey: "k", SecondaryKey: "known-key", Rights: core.Send}}}, core.InvalidArgument, "is publicly known"},
			{core.Namespace{Name: "new", Quotas: core.NamespaceQuotas{MaxEntities: -1}}, core.OutOfRange, "negative"},
		} {
			if _, err := g.Create(t.Context(), c.n); core.CodeOf(err) != c.want || !strings.Contains(core.TextOf(err), c.text) {
				t.Errorf("%+v: got %v, want %s with %q", c.n, err, c.want, c.text)
			}
			if c.n.Name != "new" {
				continue
			}
			g.create("new") // is all right itself
			_, err := g.Change(t.Context(), "new", func(n *core.Namespace) error {
				n.Hosts, n.Quotas = c.n.Hosts, c.n.Quotas
				if c.n.Policies != nil {
					n.Policies = c.n.Policies
				}
				return nil
			})
			if core.CodeOf(err) != c.want || !strings.Contains(core.TextOf(err), c.text) {
				t.Errorf("a change to %+v: got %v, want %s with %q", c.n, err, c.want, c.text)
			}
			if err := g.Delete(t.Context(), "new"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// deaf is a registry that tells nobody of changes.
type deaf struct{ core.Store }

func (deaf) WatchNamespaces(func(string)) (stop func()) { return func() {} }

func TestManagerOfADeletedNamespaceGetsNoKeysOfItsSuccessor(t *testing.T) {
	inBubble(t, func(t *testing.T, one *gateway) {
		one.create("made")
		late := newGateway(t, one.store, deaf{one.store})
		defer late.stop()
		synctest.Wait() // it has read the registry
		if err := one.Delete(t.Context(), "made"); err != nil {
			t.Fatal(err)
		}
		one.create("made")
		late.mustEnter("root", "made-key") // it has not heard of that
		if about, err := late.Rotate(t.Context(), "made", "root"); !errors.Is(err, core.NotFound) || len(about.Policies) > 0 {
			t.Errorf("rotated at a gateway that is late: got %+v, %v", about, err)
		}
		if about, err := one.Describe(t.Context(), "made"); err != nil || about.Policies[0].PrimaryKey != "made-key" {
			t.Errorf("afterwards: %+v, %v", about, err)
		}
	})
}

func TestARotatedKeyIsGoodUntilTheNextRotation(t *testing.T) {
	withTwo(t, func(t *testing.T, one, two *gateway) {
		one.create("made")
		keys := []string{"made-key"}
		for range 3 {
			made, err := two.Rotate(t.Context(), "made", "root")
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, made.Policies[0].PrimaryKey)
			for i, key := range slices.Backward(keys) {
				for _, g := range []*gateway{one, two} {
					if _, err := g.enter("root", key); (err == nil) != (i >= len(keys)-2) {
						t.Errorf("after %d rotations, key %d: got %v", len(keys)-1, i, err)
					}
				}
			}
		}
		if _, err := one.Rotate(t.Context(), "made", "other"); !errors.Is(err, core.NotFound) {
			t.Errorf("an unknown policy: got %v", err)
		}
		if _, err := one.Rotate(t.Context(), "unknown", "root"); !errors.Is(err, core.NotFound) {
			t.Errorf("an unknown namespace: got %v", err)
		}
	})
}

func TestAChangeTakesEffectAtAllGateways(t *testing.T) {
	withTwo(t, func(t *testing.T, one, two *gateway) {
		id := one.create("made")
		one.queue(id, "q")
		before, _ := one.Describe(t.Context(), "made")
		time.Sleep(time.Minute)
		after, err := two.Change(t.Context(), "made", func(n *core.Namespace) error {
			n.Hosts = []string{"new.example"}
			n.Policies = append([]core.AccessRule{{Name: "root", Rights: core.Listen}}, core.AccessRule{Name: "sender", Rights: core.Send})
			n.Quotas.MaxEntities = 1
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p := after.Policies; p[0].PrimaryKey != "made-key" || p[0].Rights != core.Listen || !p[0].CreatedAt.Equal(before.CreatedAt) || len(p[1].PrimaryKey) != 44 {
			t.Errorf("policies: got %+v", p)
		}
		if !after.CreatedAt.Equal(before.CreatedAt) || after.ModifiedAt.Sub(before.ModifiedAt) != time.Minute {
			t.Errorf("times: got %v and %v", after.CreatedAt, after.ModifiedAt)
		}
		for _, g := range []*gateway{one, two} {
			listens := g.mustEnter("root", "made-key", "new.example")
			if _, err := g.OpenSender(t.Context(), listens, core.At("q"), nil); !errors.Is(err, core.Unauthorized) {
				t.Errorf("send without the right: got %v", err)
			}
			if _, err := g.CreateEntity(t.Context(), id, core.Queue, "r", core.DefaultSettings(core.Queue), nil); !errors.Is(err, core.QuotaExceeded) || !strings.Contains(core.TextOf(err), "'made'") {
				t.Errorf("a second queue: got %v", err)
			}
			g.send(g.mustEnter("sender", after.Policies[1].PrimaryKey), "q", "x")
		}
	})
}

func TestChangesAtTwoGatewaysDoNotUndoEachOther(t *testing.T) {
	withDeaf(t, func(t *testing.T, one, two *gateway, _ *counted) {
		one.create("made")
		for i, g := range []*gateway{two, one, two, one} {
			if _, err := g.Change(t.Context(), "made", func(n *core.Namespace) error {
				n.Hosts = append(n.Hosts, fmt.Sprintf("h%d.example", i))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if about, err := one.Describe(t.Context(), "made"); err != nil || len(about.Hosts) != 4 {
			t.Errorf("got %v, %v", about.Hosts, err)
		}
		stop := errors.New("stop")
		if _, err := one.Change(t.Context(), "made", func(*core.Namespace) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("got %v", err)
		}
	})
}

func TestConfiguredNamespacesStayAsTheyAre(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		for _, name := range []string{"home", "SET"} {
			for what, err := range map[string]error{
				"delete": g.Delete(t.Context(), name),
				"change": second(g.Change(t.Context(), name, func(*core.Namespace) error { return nil })),
				"rotate": second(g.Rotate(t.Context(), name, "root")),
			} {
				if !errors.Is(err, core.NotAllowed) || !strings.Contains(core.TextOf(err), "configuration") {
					t.Errorf("%s %s: got %v", what, name, err)
				}
			}
			if about, err := g.Describe(t.Context(), name); err != nil || !about.Fixed {
				t.Errorf("%s: got %+v, %v", name, about, err)
			}
		}
	})
}

func TestNamesAreAsLongAsTheTierAllows(t *testing.T) {
	t.Parallel()
	store := memory.New(memory.Options{})
	defer func() { _ = store.Close() }()
	limits := core.StandardLimits()
	g := newGatewayWithin(t, store, store, limits)
	defer g.stop()
	for n, want := range map[int]core.Code{
		limits.MinNamespaceName - 1: core.InvalidArgument, limits.MinNamespaceName: "",
		limits.MaxNamespaceName: "", limits.MaxNamespaceName + 1: core.InvalidArgument,
	} {
		if _, err := g.Create(t.Context(), core.Namespace{Name: strings.Repeat("n", n)}); core.CodeOf(err) != want {
			t.Errorf("%d characters: got %v, want %q", n, err, want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestNamespacesAreListedByName(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		for _, name := range []string{"Zoo", "about", "Market"} {
			g.create(name)
		}
		var names []string
		for after := ""; ; {
			page := g.All(after, 2)
			for _, about := range page {
				names = append(names, about.Name)
				after = about.Name
			}
			if len(page) < 2 {
				break
			}
		}
		if want := []string{"about", "home", "Market", "set", "Zoo"}; !slices.Equal(names, want) {
			t.Errorf("got %q, want %q", names, want)
		}
	})
}

func TestWhoManagesTheGatewaysOwnNamespaceRunsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		home := g.mustEnter("root", "home-key")
		part := slices.Clone(home)
		part[0].Scope = "q"
		for _, c := range []struct {
			id   core.Identity
			want bool
		}{{home, true}, {part, false}, {g.create("made"), false}, {nil, false}} {
			if got := g.Operator(c.id, time.Now()); got != c.want {
				t.Errorf("%+v: got %v", c.id, got)
			}
		}
	})
}
