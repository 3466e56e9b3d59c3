package namespaces

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

func TestNamespacesShareNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		ids := []core.Identity{g.mustEnter("root", "home-key"), g.mustEnter("root", "set-key"), g.create("made"), g.create("more")}
		for _, id := range ids {
			g.queue(id, "q")
			g.queue(id, "only-"+id.Namespace())
			g.send(id, "q", "for "+id.Namespace())
		}
		for _, id := range ids {
			if got := g.holds(id, "q"); !slices.Equal(got, []string{"for " + id.Namespace()}) {
				t.Errorf("%s holds %q", id.Namespace(), got)
			}
			all, _, err := g.Entities(t.Context(), id, core.Listing{Kind: core.Queue}, 0, 10)
			if err != nil || len(all) != 2 || all[0].Name != "only-"+id.Namespace() {
				t.Errorf("%s: got %d queues, %v", id.Namespace(), len(all), err)
			}
			if info, err := g.Namespace(t.Context(), id); err != nil || info.Name != id.Namespace() {
				t.Errorf("%s: got %+v, %v", id.Namespace(), info, err)
			}
		}
		if err := g.DeleteEntity(t.Context(), ids[2], "q"); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			_, err := g.Resolve(t.Context(), id, core.At("q"))
			if want := id.Namespace() == "made"; errors.Is(err, core.NotFound) != want {
				t.Errorf("%s: got %v", id.Namespace(), err)
			}
		}
	})
}

// Fault rules of a namespace of the registry are in its record, for all gateways; those of a configured
// one are each gateway's own, and outlive another configuration of its policies.
func TestFaultRulesAreInTheRecordOfTheirNamespace(t *testing.T) {
	withTwo(t, func(t *testing.T, one, two *gateway) {
		one.create("made")
		synctest.Wait()
		add := func(g *gateway, name, text string) {
			if err := g.named(name).ChangeFaults(t.Context(), func(old string) (string, error) { return old + text, nil }); err != nil {
				t.Errorf("change the rules of %s: %v", name, err)
			}
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { add(one, "made", "1") })
			all.Go(func() { add(two, "made", "2") })
		}
		all.Wait()
		synctest.Wait()
		for _, g := range []*gateway{one, two} {
			got := g.named("made").Faults()
			if strings.Count(got, "1") != 10 || strings.Count(got, "2") != 10 {
				t.Errorf("got %q, want ten changes of each gateway", got)
			}
		}
		refused := errors.New("refused")
		if err := two.named("made").ChangeFaults(t.Context(), func(string) (string, error) { return "", refused }); !errors.Is(err, refused) || two.named("made").Faults() == "" {
			t.Errorf("a change that is refused: got %v", err)
		}

		add(one, "set", "own")
		one.Configure([]core.Namespace{{Name: "set", Policies: []core.AccessRule{policy("other", "other-key")}}})
		if got, other := one.named("set").Faults(), two.named("set").Faults(); got != "own" || other != "" {
			t.Errorf("of a configured namespace: got %q here and %q there", got, other)
		}
		old := one.named("made")
		if err := one.Delete(t.Context(), "made"); err != nil {
			t.Fatal(err)
		}
		one.create("made")
		if err := old.ChangeFaults(t.Context(), func(string) (string, error) { return "late", nil }); !errors.Is(err, core.NotFound) || one.named("made").Faults() != "" {
			t.Errorf("a change for a namespace that was deleted and made anew: got %v, %q", err, one.named("made").Faults())
		}
	})
}

func TestNobodyMayDoAnything(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		g.queue(g.mustEnter("root", "home-key"), "q")
		if _, err := g.Peek(t.Context(), nil, core.At("q"), nil, 0, 1); !errors.Is(err, core.Unauthorized) {
			t.Errorf("nobody: got %v", err)
		}
		if _, err := g.Peek(t.Context(), core.Identity{{Policy: "any", Rights: core.AllRights}}, core.At("q"), nil, 0, 1); err == nil {
			t.Error("a grant of no namespace is good")
		}
	})
}

func TestATransactionIsOfOneNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		home, set := g.mustEnter("root", "home-key"), g.mustEnter("root", "set-key")
		g.queue(home, "q")
		g.queue(set, "q")
		if err := g.Begin().Commit(t.Context()); err != nil {
			t.Errorf("an empty one: got %v", err)
		}
		tx := g.Begin()
		if err := tx.Send(t.Context(), set, core.At("q"), core.Address{}, []*core.Message{message("1")}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Send(t.Context(), home, core.At("q"), core.Address{}, []*core.Message{message("2")}); !errors.Is(err, core.NotAllowed) {
			t.Errorf("for another namespace: got %v", err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := g.holds(set, "q"); !slices.Equal(got, []string{"1"}) {
			t.Errorf("set holds %q", got)
		}
		if got := g.holds(home, "q"); len(got) != 0 {
			t.Errorf("home holds %q", got)
		}
	})
}

func TestNamespacesOpenWhenTheyAreUsedElseOneByOne(t *testing.T) {
	withTwo(t, func(t *testing.T, one, two *gateway) {
		for i := range 50 {
			one.create(fmt.Sprintf("n%02d", i))
		}
		synctest.Wait()
		if n := two.opened.Load(); n != 2 {
			t.Errorf("at once: got %d open, want the two configured ones", n)
		}
		id := two.mustEnter("root", "n49-key")
		two.queue(id, "q")
		if n := two.opened.Load(); n != 3 {
			t.Errorf("when one is used: got %d open, want 3", n)
		}
		time.Sleep(100 * openPause)
		synctest.Wait()
		if n := two.opened.Load(); n != 52 {
			t.Errorf("later: got %d open, want 52", n)
		}
	})
}

func TestGatewaysMayCreateDeleteAndUseAtOnce(t *testing.T) {
	t.Parallel()
	store := memory.New(memory.Options{})
	defer func() { _ = store.Close() }()
	gateways := []*gateway{newGateway(t, store, store), newGateway(t, store, store)}
	var all sync.WaitGroup
	for i := range 8 {
		g, other := gateways[i%2], gateways[(i+1)%2]
		all.Go(func() {
			for n := range 20 {
				name := fmt.Sprintf("n%d", (i+n)%5)
				made, err := g.Create(t.Context(), core.Namespace{Name: name})
				if core.CodeOf(err) == core.AlreadyExists {
					_ = other.Delete(t.Context(), name)
					continue
				}
				if err != nil {
					t.Errorf("create %s: %v", name, err)
					return
				}
				key, rotated := made.Policies[0].PrimaryKey, false
				if about, err := other.Rotate(t.Context(), name, DefaultPolicy); err == nil && about.ID == made.ID {
					rotated = true
				}
				id, err := other.enter(DefaultPolicy, key)
				if err != nil {
					continue // somebody has deleted it
				}
				if id.NamespaceID() != made.ID {
					t.Errorf("the key of %s %s opens %s (rotated: %v)", name, made.ID, id.NamespaceID(), rotated)
				}
				_, _ = other.CreateEntity(t.Context(), id, core.Queue, "q", core.DefaultSettings(core.Queue), nil)
			}
		})
	}
	all.Wait()
	for _, about := range gateways[0].All("", 100) {
		if !about.Fixed {
			if err := gateways[0].Delete(t.Context(), about.Name); err != nil && core.CodeOf(err) != core.NotFound {
				t.Error(err)
			}
		}
	}
	for _, g := range gateways {
		g.stop()
	}
}

func TestConfiguredNamespacesTakeUpOtherPolicies(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gateway) {
		policy := func(key string) []core.AccessRule {
			return []core.AccessRule{{Name: "root", PrimaryKey: key, Rights: core.AllRights}}
		}
		home, set := g.own.record.Load().Name, g.fixed[1].record.Load().Name
		connected := g.mustEnter("root", "home-key")
		g.Configure([]core.Namespace{
			{Name: home, Policies: policy("new-home-key")},
			{Name: set, Policies: policy("new-set-key"), Hosts: []string{"set.example"}},
			{Name: "of-nobody", Policies: policy("x")},
		})
		for key, want := range map[string]string{"new-home-key": home, "new-set-key": set} {
			if id := g.mustEnter("root", key); id.Namespace() != want {
				t.Errorf("%s opens %s, want %s", key, id.Namespace(), want)
			}
		}
		for _, key := range []string{"home-key", "set-key", "x"} {
			if _, err := g.Key(t.Context(), nil, "root", key); !errors.Is(err, core.Unauthorized) {
				t.Errorf("%s: got %v, want %v", key, err, core.Unauthorized)
			}
		}
		if !g.Answers("set.example") {
			t.Error("the namespace does not have its new host")
		}
		g.queue(connected, "still-here")
	})
}
