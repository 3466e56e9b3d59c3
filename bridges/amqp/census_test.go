package amqp

import (
	"context"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/bridges/clients"
	"github.com/crosstown-mq/crosstown/core/value"
)

// named is a connection with an address, and a protocol around AMQP.
type named struct {
	net.Conn
	net.Addr
}

func (n named) RemoteAddr() net.Addr { return n.Addr }
func (n named) Protocol() string     { return "amqp over " + n.Addr.Network() }

func TestTheCensusTellsOfConnectionsAndTheirLinks(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		bridge := New(s.Broker, &fakeAuthority{}, Options{})
		if got := bridge.opts.Clients.Census(t.Context()); got != nil {
			t.Errorf("without connections: got %+v", got)
		}
		var served sync.WaitGroup
		t.Cleanup(served.Wait)
		connect := func(wrap func(net.Conn) net.Conn) *peer {
			here, there := net.Pipe()
			served.Go(func() { _ = bridge.ServeConn(context.Background(), wrap(there)) })
			return newPeer(t, here)
		}
		began := time.Now()
		fresh := connect(func(nc net.Conn) net.Conn { return nc })
		synctest.Wait()
		time.Sleep(time.Second)
		p := connect(func(nc net.Conn) net.Conn {
			return named{nc, &net.UnixAddr{Name: "peer-1", Net: "websocket"}}
		})
		p.open()
		s.put(t, "a", "1")
		p.attach(0, wire.RoleSender, "plain")
		p.accept(1, "a")
		p.attach(2, wire.RoleReceiver, "plain/$DeadLetterQueue")
		p.send(0, &wire.Attach{
			Name: "deletes", Handle: 3, Role: wire.RoleReceiver, SndSettleMode: value.Some(wire.SenderSettled),
			Source: &wire.Source{Address: value.Some("plain")}, Target: &wire.Target{},
		})
		await[*wire.Attach](p)
		p.attach(4, wire.RoleSender, "$cbs")

		got := bridge.opts.Clients.Census(t.Context())
		if len(got) != 2 || len(got[0].ID) != 16 || len(got[1].ID) != 16 || got[0].ID == got[1].ID {
			t.Fatalf("got %+v", got)
		}
		want := []bridges.Connection{
			{ID: got[0].ID, Protocol: "amqp", Peer: "pipe", Since: began, Links: []bridges.Link{}},
			{
				ID: got[1].ID, Protocol: "amqp over websocket", Peer: "peer-1", Since: began.Add(time.Second), Product: "peer", Policies: []string{"root"},
				Sessions: 1,
				Links: []bridges.Link{
					{Entity: "plain", Direction: bridges.Sends},
					{Entity: "plain", Direction: bridges.Receives, Mode: "receiveAndDelete"},
					{Entity: "plain/$DeadLetterQueue", Direction: bridges.Receives, Mode: "peekLock"},
					{Entity: "q", Direction: bridges.Receives, Mode: "peekLock", Session: new("a")},
				},
			},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		_ = fresh.nc.Close()
		_ = p.nc.Close()
		served.Wait()
		if got := bridge.opts.Clients.Census(t.Context()); got != nil {
			t.Errorf("after the end: got %+v", got)
		}
	})
}

func TestTheCensusDoesNotWaitForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bridge := New(newFakeBroker(), &fakeAuthority{}, Options{})
		var served sync.WaitGroup
		here, there := net.Pipe()
		served.Go(func() { _ = bridge.ServeConn(context.Background(), there) })
		defer func() { _ = here.Close(); served.Wait() }()
		stuck := newConn(bridge, there)
		release := make(chan struct{})
		go stuck.Owner.Do(func() { <-release; stuck.Owner.Stop() }) // jobs do not block; this one does
		bridge.opts.Clients.Add(stuck)
		synctest.Wait()
		began := time.Now()
		if got := bridge.opts.Clients.Census(t.Context()); len(got) != 1 || time.Since(began) != clients.CensusTimeout {
			t.Errorf("got %+v after %v, want one connection after %v", got, time.Since(began), clients.CensusTimeout)
		}

		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan struct{})
		go func() { defer close(first); bridge.opts.Clients.Census(t.Context()) }()
		synctest.Wait()
		cancel()
		if got := bridge.opts.Clients.Census(ctx); got != nil {
			t.Errorf("while there is another census: got %+v, want nothing", got)
		}
		<-first

		began = time.Now()
		bridge.opts.Clients.Add(stuck)
		go func() { time.Sleep(time.Second); close(release) }()
		if got := bridge.opts.Clients.Census(t.Context()); len(got) != 1 || time.Since(began) != time.Second {
			t.Errorf("got %+v after %v, want one connection after a second", got, time.Since(began))
		}
		stuck.Dispose(func() {})
	})
}

func TestProductOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		properties value.Map
		want       string
	}{
		{value.Map{{Key: value.Symbol("product"), Value: "MSJSClient"}, {Key: value.Symbol("version"), Value: "7.9.5"}}, "MSJSClient 7.9.5"},
		{value.Map{{Key: value.Symbol("product"), Value: value.Symbol("x")}}, "x"},
		{value.Map{{Key: value.Symbol("user-agent"), Value: "u/1"}, {Key: value.Symbol("version"), Value: "2"}}, "u/1"},
		{value.Map{{Key: value.Symbol("product"), Value: int32(5)}}, "container"},
		{nil, "container"},
		{value.Map{{Key: value.Symbol("product"), Value: strings.Repeat("x", maxProduct-1) + "ü"}}, strings.Repeat("x", maxProduct-1)},
	} {
		if got := productOf(&wire.Open{ContainerID: "container", Properties: c.properties}); got != c.want {
			t.Errorf("%v: got %q, want %q", c.properties, got, c.want)
		}
	}
}

func TestACensusWhileConnectionsComeAndGo(t *testing.T) {
	t.Parallel()
	bridge := New(newFakeBroker("q1"), &fakeAuthority{}, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	var counting, served sync.WaitGroup
	for range 2 {
		counting.Go(func() {
			for ctx.Err() == nil {
				bridge.opts.Clients.Census(ctx)
			}
		})
	}
	for range 50 {
		here, there := net.Pipe()
		served.Go(func() { _ = bridge.ServeConn(context.Background(), there) })
		p := newPeer(t, here)
		p.open()
		p.attach(0, wire.RoleSender, "q1")
		_ = here.Close()
	}
	served.Wait()
	cancel()
	counting.Wait()
	if got := bridge.opts.Clients.Census(t.Context()); got != nil {
		t.Errorf("got %+v, want none", got)
	}
}
