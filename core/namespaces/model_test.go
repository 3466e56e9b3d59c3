package namespaces

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/crosstown-mq/crosstown/core"
)

// model is what two gateways on one store should make of what was done to them.
type model struct {
	ids   map[string]string        // of namespaces by name
	hosts map[string]string        // whose a host is
	keys  map[string][2]string     // of a namespace's policy, the new and the old
	spent map[string]struct{}      // keys that were good once
	gone  map[string]core.Identity // who was in a deleted namespace, by its ID
}

// Whatever is made, changed, rotated and deleted through one gateway or the other,
// both place every key and every host where it belongs.
func TestTwoGatewaysPlacePeersAsTheModelSays(t *testing.T) {
	withTwo(t, func(t *testing.T, one, two *gateway) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		m := model{map[string]string{}, map[string]string{}, map[string][2]string{}, map[string]struct{}{}, map[string]core.Identity{}}
		for range 100 {
			g := []*gateway{one, two}[random.IntN(2)]
			name := fmt.Sprintf("n%d", random.IntN(6))
			host := fmt.Sprintf("h%d.example", random.IntN(6))
			m.step(t, g, name, host, random.IntN(5))
			synctest.Wait()
			m.compare(t, one)
			m.compare(t, two)
		}
	})
}

// step does one thing to a namespace, which the model knows to succeed or not.
func (m *model) step(t *testing.T, g *gateway, name, host string, what int) {
	_, exists := m.ids[name]
	expect := func(err error, ok bool) bool {
		if (err == nil) != ok {
			t.Fatalf("step %d on %s with %s: got %v, want success: %v", what, name, host, err, ok)
		}
		return ok
	}
	switch what {
	case 0: // one with a host of its own
		_, taken := m.hosts[host]
		made, err := g.Create(t.Context(), core.Namespace{Name: name, Hosts: []string{host}})
		if expect(err, !exists && !taken) {
			m.ids[name], m.hosts[host] = made.ID, name
			m.keys[name] = [2]string{made.Policies[0].PrimaryKey, made.Policies[0].SecondaryKey}
		}
	case 1:
		owner, taken := m.hosts[host]
		_, err := g.Change(t.Context(), name, func(n *core.Namespace) error {
			n.Hosts = []string{host}
			return nil
		})
		if expect(err, exists && (!taken || owner == name)) {
			maps.DeleteFunc(m.hosts, func(_, of string) bool { return of == name })
			m.hosts[host] = name
		}
	case 2:
		made, err := g.Rotate(t.Context(), name, DefaultPolicy)
		if expect(err, exists) {
			m.spent[m.keys[name][1]] = struct{}{}
			m.keys[name] = [2]string{made.Policies[0].PrimaryKey, m.keys[name][0]}
		}
	case 3:
		if exists {
			m.gone[m.ids[name]] = g.mustEnter(DefaultPolicy, m.keys[name][0])
		}
		if expect(g.Delete(t.Context(), name), exists) {
			for _, key := range m.keys[name] {
				m.spent[key] = struct{}{}
			}
			maps.DeleteFunc(m.hosts, func(_, of string) bool { return of == name })
			delete(m.ids, name)
			delete(m.keys, name)
		}
	case 4: // used
		if exists {
			g.mustEnter(DefaultPolicy, m.keys[name][1], name+".localhost")
		}
	}
}

// compare checks everything at one gateway.
func (m *model) compare(t *testing.T, g *gateway) {
	for name, keys := range m.keys {
		for _, key := range keys {
			if id := g.mustEnter(DefaultPolicy, key); id.NamespaceID() != m.ids[name] {
				t.Fatalf("a key of %s opens %s", name, id.Namespace())
			}
		}
		for host, owner := range m.hosts {
			if _, err := g.enter(DefaultPolicy, keys[0], host); (err == nil) != (owner == name) {
				t.Fatalf("a key of %s at %s, which is %s's: got %v", name, host, owner, err)
			}
		}
	}
	var names []string
	for _, about := range g.All("", 100) {
		if !about.Fixed {
			names = append(names, about.Name)
		}
	}
	if want := slices.Sorted(maps.Keys(m.ids)); !slices.Equal(names, want) {
		t.Fatalf("got namespaces %q, want %q", names, want)
	}
	for key := range m.spent {
		if _, err := g.enter(DefaultPolicy, key); err == nil {
			t.Fatal("a key is good that was rotated away, or deleted")
		}
		break // each takes a look at the registry
	}
	for _, id := range m.gone {
		if _, err := g.Directory.Enter(id, nil); core.CodeOf(err) != core.NotFound {
			t.Fatalf("who was in a deleted namespace may enter: %v", err)
		}
	}
}
