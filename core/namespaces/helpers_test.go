package namespaces

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/intercept"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// gateway is a Directory of real brokers on a store.
type gateway struct {
	*Directory
	*intercept.Front
	tb     testing.TB
	store  core.Store
	opened atomic.Int64
	closed atomic.Int64
	stop   func()
}

// issuers takes "eyJ" for a token of somebody who may do everything.
type issuers struct{}

func (issuers) Verify(_ context.Context, token string) (core.Grant, error) {
	if token != "eyJ" {
		return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidToken: It is not eyJ.")
	}
	return core.Grant{Policy: "issuer", Rights: core.AllRights}, nil
}

// policy is one with all rights.
func policy(name, key string) core.AccessRule {
	return core.AccessRule{Name: name, PrimaryKey: key, Rights: core.AllRights}
}

// newGateway opens a gateway whose own namespace is "home", with the policy "root"
// and the key "home-key", besides that "set", with the host set.example and the
// policy "root" and the key "set-key".
func newGateway(tb testing.TB, store core.Store, registry core.Namespaces) *gateway {
	tb.Helper()
	return newGatewayWithin(tb, store, registry, core.Limits{})
}

// newGatewayWithin is newGateway with the limits of a tier.
func newGatewayWithin(tb testing.TB, store core.Store, registry core.Namespaces, limits core.Limits) *gateway {
	tb.Helper()
	g := &gateway{tb: tb, store: store}
	d, err := Open(context.Background(), Options{
		Limits:     limits,
		Own:        core.Namespace{Name: "home", Policies: []core.AccessRule{policy("root", "home-key")}},
		Configured: []core.Namespace{{Name: "set", Hosts: []string{"Set.example"}, Policies: []core.AccessRule{policy("root", "set-key")}}},
		Registry:   registry, Open: g.open, Issuers: issuers{}, Hosts: []string{"localhost"}, PublicKeys: []string{"known-key"}, Now: store.Now,
	})
	if err != nil {
		tb.Fatal(err)
	}
	g.Directory, g.Front = d, intercept.New(d)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(ctx) })
	g.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if opened, closed := g.opened.Load(), g.closed.Load(); opened != closed {
			tb.Errorf("%d brokers were opened, %d closed", opened, closed)
		}
	})
	return g
}

func (g *gateway) open(_ context.Context, n core.Namespace, live *Member) (Served, error) {
	b := broker.New(g.store.WithTime(live.Time), broker.Options{Namespace: n.ID, Name: n.Name, Quotas: live.Quotas})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = b.Run(ctx) })
	g.opened.Add(1)
	return Served{Space: intercept.Space{Broker: b, Admin: b}, RunDue: b.RunDue, Close: func() {
		cancel()
		running.Wait()
		g.closed.Add(1)
	}}, nil
}

// inBubble runs a story under a fake clock with one gateway on a store of its own.
func inBubble(t *testing.T, story func(t *testing.T, g *gateway)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer func() { _ = store.Close() }()
		g := newGateway(t, store, store)
		defer g.stop()
		story(t, g)
	})
}

// withTwo is inBubble with two gateways on one store.
func withTwo(t *testing.T, story func(t *testing.T, one, two *gateway)) {
	t.Helper()
	inBubble(t, func(t *testing.T, one *gateway) {
		two := newGateway(t, one.store, one.store)
		defer two.stop()
		story(t, one, two)
	})
}

// sas is a token that is good for an hour, for all of whatever host it is given to.
func sas(policy, key string) string {
	return auth.SignSAS("sb://localhost/", policy, key, time.Now().Add(time.Hour))
}

// enter proves an identity by a policy and its key, at some hosts.
func (g *gateway) enter(name, key string, hosts ...string) (core.Identity, error) {
	grant, err := g.Token(g.tb.Context(), hosts, sas(name, key), "")
	if err != nil {
		return nil, err
	}
	return core.Identity{grant}, nil
}

func (g *gateway) mustEnter(name, key string, hosts ...string) core.Identity {
	g.tb.Helper()
	id, err := g.enter(name, key, hosts...)
	if err != nil {
		g.tb.Fatalf("enter by %s at %q: %v", name, hosts, err)
	}
	return id
}

// create makes a namespace with the policy "root" and a key of its own, and returns
// who that lets in.
func (g *gateway) create(name string) core.Identity {
	g.tb.Helper()
	made, err := g.Create(g.tb.Context(), core.Namespace{Name: name, Policies: []core.AccessRule{policy("root", name+"-key")}})
	if err != nil {
		g.tb.Fatalf("create %s: %v", name, err)
	}
	if made.Name != name || made.Fixed {
		g.tb.Fatalf("create %s: got %+v", name, made)
	}
	return g.mustEnter("root", name+"-key")
}

func (g *gateway) queue(id core.Identity, name string) {
	g.tb.Helper()
	if _, err := g.CreateEntity(g.tb.Context(), id, core.Queue, name, core.DefaultSettings(core.Queue), nil); err != nil {
		g.tb.Fatalf("create the queue %s in %s: %v", name, id.Namespace(), err)
	}
}

func (g *gateway) send(id core.Identity, queue, body string) {
	g.tb.Helper()
	s, err := g.OpenSender(g.tb.Context(), id, core.At(queue), nil)
	if err != nil {
		g.tb.Fatalf("send to %s in %s: %v", queue, id.Namespace(), err)
	}
	defer s.Close()
	if err := s.Send(g.tb.Context(), [][]*core.Message{{message(body)}})[0].Err; err != nil {
		g.tb.Fatalf("send to %s in %s: %v", queue, id.Namespace(), err)
	}
}

func message(subject string) *core.Message { return &core.Message{Subject: subject} }

// holds lists the subjects of a queue's messages.
func (g *gateway) holds(id core.Identity, queue string) []string {
	g.tb.Helper()
	ds, err := g.Peek(g.tb.Context(), id, core.At(queue), nil, 0, 100)
	if err != nil {
		g.tb.Fatalf("peek at %s in %s: %v", queue, id.Namespace(), err)
	}
	var all []string
	for _, d := range ds {
		all = append(all, d.Subject)
	}
	return all
}
