// Package crosstowntest runs a gateway inside Go tests: in this process, in memory, on a free port
// of the loopback interface. Each test has its own namespace with its own connection string, which
// unmodified clients accept.
//
//	bus := crosstowntest.Start(t, crosstowntest.Queue("orders"))
//	client, err := azservicebus.NewClientFromConnectionString(bus.ConnectionString, nil)
//	…
//	bus.ExpectMessages("orders", "one", "two")
//	bus.ExpectDeadLetters("orders", "MaxDeliveryCountExceeded")
//
// A gateway starts in less than a millisecond, and ends with its test, with all its goroutines.
// Tests that share one gateway call [Bus.Namespace].
package crosstowntest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/bridges/https"
	"github.com/crosstown-mq/crosstown/bridges/websocket"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/faults"
	"github.com/crosstown-mq/crosstown/core/intercept"
	"github.com/crosstown-mq/crosstown/core/namespaces"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
	"github.com/crosstown-mq/crosstown/gateway/internal/rungroup"
)

const drainGrace = 100 * time.Millisecond

type gateway struct {
	address   string // host:port
	store     *memory.Store
	directory *namespaces.Directory
	broker    *intercept.Front // of all namespaces
	faults    sync.Map         // *faults.Rules by the namespace's ID
	made      atomic.Int64
	behind    *rungroup.Group
	front     *rungroup.Group
}

func startGateway(ctx context.Context, log *slog.Logger) (*gateway, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the loopback interface: %w", err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	g := &gateway{address: net.JoinHostPort("localhost", port)}
	g.behind, g.front = rungroup.New(context.WithoutCancel(ctx)), rungroup.New(context.WithoutCancel(ctx))
	g.store = memory.New(memory.Options{})
	g.directory, err = namespaces.Open(ctx, namespaces.Options{
		Own:      core.Namespace{Name: "crosstowntest"},
		Registry: g.store,
		Now:      g.store.Now,
		Logger:   log,
		Open: func(_ context.Context, n core.Namespace, live *namespaces.Member) (namespaces.Served, error) {
			return g.serve(n, live, log), nil
		},
	})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	g.behind.Go("namespaces", g.directory.Run)
	mux := listen.New([]net.Listener{listener}, listen.Options{Logger: log})
	d, b := g.directory, intercept.New(g.directory)
	g.broker = b
	overAMQP := amqp.New(b, d, amqp.Options{Logger: log, DrainGrace: drainGrace})
	tunnel := websocket.NewTunnel(overAMQP.ServeConn, websocket.TunnelOptions{Logger: log})
	native := websocket.New(b, d, websocket.Options{Logger: log, DrainGrace: drainGrace})
	overHTTP := https.New(b, d, https.Options{Logger: log, Grace: drainGrace, Routes: map[string]http.Handler{
		websocket.TunnelPath: tunnel, websocket.TunnelPath + "/": tunnel, websocket.Path: native, websocket.Path + "/": native,
	}})
	g.front.Go("listen", mux.Serve)
	g.front.Go("amqp", func(ctx context.Context) error { return overAMQP.Serve(ctx, mux.AMQP()) })
	g.front.Go("amqp over websocket", tunnel.Run)
	g.front.Go("websocket", native.Run)
	g.front.Go("https", func(ctx context.Context) error { return overHTTP.Serve(ctx, mux.HTTP()) })
	return g, nil
}

func (g *gateway) serve(n core.Namespace, live *namespaces.Member, log *slog.Logger) namespaces.Served {
	b := broker.New(g.store.WithTime(live.Time), broker.Options{Namespace: n.ID, Name: n.Name, Logger: log, Quotas: live.Quotas, Answers: live.Answers})
	runs, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	g.behind.Go("broker of "+n.Name, func(context.Context) error {
		defer close(ended)
		return b.Run(runs)
	})
	rules := faults.New(live, g.store.Now)
	g.faults.Store(n.ID, rules)
	space := intercept.Space{Broker: b, Admin: b, Chain: []intercept.Interceptor{rules}}
	return namespaces.Served{Space: space, Grant: rules.Grant, RunDue: b.RunDue, Close: func() {
		g.faults.Delete(n.ID)
		stop()
		<-ended
	}}
}

func (g *gateway) stop() error {
	g.front.Stop()
	err := g.front.Wait()
	g.behind.Stop()
	return errors.Join(err, g.behind.Wait())
}

// Bus is a namespace for one test.
type Bus struct {
	// ConnectionString uses AMQP over TCP without TLS.
	ConnectionString string
	// Address is the gateway's host:port, for AMQP, HTTP and WebSocket.
	Address string
	// Patience is how long the Expect methods wait; 5 seconds by default.
	Patience time.Duration

	tb       testing.TB
	gateway  *gateway
	identity core.Identity
}

// Start starts a gateway with a namespace that contains the entities. Both end with the test.
func Start(tb testing.TB, entities ...Entity) *Bus {
	tb.Helper()
	g, err := startGateway(tb.Context(), slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatalf("crosstowntest: cannot start a gateway: %v", err)
	}
	tb.Cleanup(func() {
		if err := g.stop(); err != nil {
			tb.Errorf("crosstowntest: the gateway did not stop cleanly: %v", err)
		}
	})
	return g.namespace(tb, entities)
}

// Namespace creates another namespace at the same gateway, for a subtest that runs in parallel with
// others. The namespace ends with tb, and the gateway with the test that started it.
func (b *Bus) Namespace(tb testing.TB, entities ...Entity) *Bus {
	tb.Helper()
	made := b.gateway.namespace(tb, entities)
	made.Patience = b.Patience
	return made
}

func (g *gateway) namespace(tb testing.TB, entities []Entity) *Bus {
	tb.Helper()
	n, err := g.directory.Create(tb.Context(), core.Namespace{Name: fmt.Sprintf("test-%d", g.made.Add(1)), Clock: &core.VirtualClock{}})
	if err != nil {
		tb.Fatalf("crosstowntest: cannot create a namespace: %v", err)
	}
	p := n.Policies[0]
	b := &Bus{
		ConnectionString: fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=%s;SharedAccessKey=%s;UseDevelopmentEmulator=true", g.address, p.Name, p.PrimaryKey),
		Address:          g.address,
		tb:               tb, gateway: g,
		identity: core.Identity{{Namespace: n.Name, NamespaceID: n.ID, Policy: p.Name, Rights: core.AllRights}},
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), b.patience())
		defer cancel()
		if err := g.directory.Delete(ctx, n.Name); err != nil {
			tb.Errorf("crosstowntest: cannot delete the namespace: %v", err)
		}
	})
	for i := range entities {
		if err := b.create(tb.Context(), &entities[i]); err != nil {
			tb.Fatalf("crosstowntest: create '%s': %s", entities[i].name, cmp.Or(core.TextOf(err), err.Error()))
		}
	}
	return b
}

func (b *Bus) patience() time.Duration { return cmp.Or(b.Patience, 5*time.Second) }
