package websocket

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/crosstown-mq/crosstown/bridges/clients"
	"github.com/crosstown-mq/crosstown/core"
)

// hall is an authority that notes by what names peers call, and who is inside.
type hall struct {
	keys
	full bool // nobody may enter

	mu     sync.Mutex
	hosts  [][]string
	inside []func(error)
	left   int
}

func (h *hall) Token(ctx context.Context, hosts []string, token, audience string) (core.Grant, error) {
	h.mu.Lock()
	h.hosts = append(h.hosts, hosts)
	h.mu.Unlock()
	g, err := h.keys.Token(ctx, hosts, token, audience)
	if g.Policy == "elsewhere" {
		g.Namespace, g.NamespaceID = "there", "there"
	}
	return g, err
}

func (h *hall) Enter(_ core.Identity, closed func(error)) (leave func(), err error) {
	if h.full {
		return nil, core.Refuse(core.QuotaExceeded, "The namespace 'ns' has 0 connections, which is the limit.")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inside = append(h.inside, closed)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.left++
	}, nil
}

func TestAConnectionEndsWithItsNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, authority := openHouse(t, Options{}, "q"), &hall{}
		h.bridge.shared.Authority = authority
		p := h.dial(protocolJSON)
		p.ok("auth", object{"token": rootToken})
		p.ok("auth", object{"token": "other Send q"})
		if len(authority.inside) != 1 || authority.left != 0 {
			t.Fatalf("%d have entered, %d have left: want one inside", len(authority.inside), authority.left)
		}
		if want := []string{"gateway"}; !slices.Equal(authority.hosts[0], want) {
			t.Errorf("called by %q, want %q", authority.hosts[0], want)
		}
		p.refused("auth", object{"token": "elsewhere Manage "}, core.Unauthorized)
		authority.inside[0](core.Refuse(core.NotFound, "The namespace 'ns' was deleted."))
		if code := p.closed(); code != 4404 {
			t.Errorf("closed with %d, want 4404", code)
		}
		synctest.Wait()
		if authority.left != 1 {
			t.Errorf("%d have left, want 1", authority.left)
		}
	})
}

func TestAFullNamespaceLetsNobodyIn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		h.bridge.shared.Authority = &hall{full: true}
		p := h.dial(protocolJSON)
		p.refused("auth", object{"token": rootToken}, core.QuotaExceeded)
		p.send("peek", object{"entity": "q"})
		if code := p.closed(); code != 4401 {
			t.Errorf("closed with %d, want 4401", code)
		}
	})
}

func TestConnectionsOfOtherNamespacesAreNotListed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{Clients: &clients.Registry{Home: "home"}}, "q")
		h.bridge.shared.Authority = &hall{}
		stranger := h.dial(protocolJSON)
		stranger.ok("auth", object{"token": "elsewhere Manage "})
		p := h.dial(protocolJSON)
		p.ok("auth", object{"token": rootToken})
		ids := map[string]any{}
		for p, want := range map[*peer]string{stranger: "there", p: ""} {
			all := p.ok("connections", nil)["connections"].([]any)
			if len(all) != 1 || all[0].(object)["namespace"] != want {
				t.Errorf("in %q: got %v", want, all)
			}
			ids[want] = all[0].(object)["id"]
		}
		stranger.refused("closeConnection", object{"connection": ids[""]}, core.NotFound)
		p.ok("peek", object{"entity": "q"})
	})
}

func TestAConnectionIsClosedOnRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		p, other := h.connect(), h.connect()
		all := p.ok("connections", nil)["connections"].([]any)
		id := other.ok("auth", object{"token": rootToken})["connection"]
		if len(all) != 2 || all[0].(object)["id"] != id && all[1].(object)["id"] != id {
			t.Fatalf("got %v, want %v among them", all, id)
		}
		p.refused("closeConnection", object{"connection": "none"}, core.NotFound)
		p.ok("closeConnection", object{"connection": id})
		other.await("bye")
		if code := other.closed(); code != 4403 {
			t.Errorf("closed with %d, want 4403", code)
		}
		reader := h.dial(protocolJSON)
		reader.ok("auth", object{"token": "reader Listen "})
		reader.refused("closeConnection", object{"connection": id}, core.Unauthorized)
		if n := h.bridge.opts.Clients.Closed(); n != 1 {
			t.Errorf("%d connections count as closed, want 1", n)
		}
	})
}

func TestANamespaceMayBeNamedByOperators(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{Within: func(_ context.Context, g core.Grant, namespace string) (core.Grant, error) {
			if namespace != "there" {
				return g, core.Refuse(core.NotFound, "There is no namespace '%s'.", namespace)
			}
			g.Namespace, g.NamespaceID = namespace, namespace
			return g, nil
		}}, "q")
		p := h.dial(protocolJSON)
		p.refused("auth", object{"token": rootToken, "namespace": "none"}, core.NotFound)
		if in := p.ok("auth", object{"token": rootToken, "namespace": "there"}); in["namespace"] != "there" || in["operator"] != false {
			t.Errorf("signed in: got %v", in)
		}
		p.refused("auth", object{"token": rootToken}, core.Unauthorized) // a connection is for one namespace
		plain := openHouse(t, Options{}, "q")
		plain.dial(protocolJSON).refused("auth", object{"token": rootToken, "namespace": "there"}, core.Unauthorized)
	})
}
