package namespaces

import (
	"fmt"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// BenchmarkToken is what proving an identity costs where a thousand namespaces have
// a policy of the same name: by policy each of them may be whose key it is.
func BenchmarkToken(b *testing.B) {
	store := memory.New(memory.Options{})
	defer func() { _ = store.Close() }()
	g := newGateway(b, store, store)
	defer g.stop()
	for i := range 1000 {
		name := fmt.Sprintf("n%04d", i)
		if _, err := g.Create(b.Context(), core.Namespace{Name: name, Policies: []core.AccessRule{policy("root", name+"-key")}}); err != nil {
			b.Fatal(err)
		}
	}
	tokens := make([]string, 1000)
	for i := range tokens {
		tokens[i] = sas("root", fmt.Sprintf("n%04d-key", i))
	}
	for _, c := range []struct {
		name, host string
		first      int // of the namespaces that are used in turn
	}{{"by-host", "n0999.localhost:5672", 999}, {"by-policy", "localhost:5672", 999}, {"by-policy-in-turn", "localhost:5672", 0}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := c.first; b.Loop(); i++ {
				if i == len(tokens) {
					i = c.first
				}
				if _, err := g.Token(b.Context(), []string{c.host}, tokens[i], ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOf is what it costs to find the namespace of a peer, with each request.
func BenchmarkOf(b *testing.B) {
	store := memory.New(memory.Options{})
	defer func() { _ = store.Close() }()
	g := newGateway(b, store, store)
	defer g.stop()
	id := g.mustEnter("root", "set-key")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Space(b.Context(), id); err != nil {
			b.Fatal(err)
		}
	}
}
