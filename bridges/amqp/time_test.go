package amqp

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// bubble runs a test with a fake clock and a peer on a pipe to the bridge. A goroutine that stays fails it.
func bubble(t *testing.T, b bridges.Front, a core.Authority, o Options, f func(p *peer, stop context.CancelFunc)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = New(b, a, o).ServeConn(ctx, there)
		}()
		f(newPeer(t, here), stop)
		_ = here.Close()
		<-done
		stop()
	})
}

func TestHandshakeTimeout(t *testing.T) {
	t.Parallel()
	bubble(t, newFakeBroker(), &fakeAuthority{}, Options{}, func(p *peer, _ context.CancelFunc) {
		start := time.Now()
		p.header(wire.ProtocolSASL)
		for p.next() != nil {
		}
		if got := time.Since(start); got != 20*time.Second {
			t.Errorf("closed after %v, want 20s", got)
		}
	})
}

func TestClientWithoutTokenIsClosed(t *testing.T) {
	t.Parallel()
	bubble(t, newFakeBroker(), &fakeAuthority{}, Options{}, func(p *peer, _ context.CancelFunc) {
		p.header(wire.ProtocolAMQP)
		p.send(0, &wire.Open{ContainerID: "peer"})
		start := time.Now()
		c := await[*wire.Close](p)
		if c == nil || c.Error == nil || c.Error.Condition != wire.CondUnauthorizedAccess {
			t.Errorf("close: got %v, want %s", c, wire.CondUnauthorizedAccess)
		}
		if got := time.Since(start); got != 20*time.Second {
			t.Errorf("closed after %v, want 20s", got)
		}
	})
}

func TestHeartbeatsKeepTheClientHappy(t *testing.T) {
	t.Parallel()
	bubble(t, newFakeBroker(), &fakeAuthority{}, Options{}, func(p *peer, _ context.CancelFunc) {
		p.header(wire.ProtocolSASL)
		await[*wire.SASLMechanisms](p)
		p.send(0, &wire.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00root\x00secret")})
		await[*wire.SASLOutcome](p)
		p.header(wire.ProtocolAMQP)
		p.send(0, &wire.Open{ContainerID: "peer", IdleTimeOut: value.Some(uint32(10_000))})
		await[*wire.Open](p)
		last := time.Now()
		for range 10 {
			f := p.next()
			if f == nil || len(f.Body) != 0 {
				t.Fatalf("got frame %v, want a heartbeat", f)
			}
			if got := time.Since(last); got > 7500*time.Millisecond || got < 6*time.Second {
				t.Fatalf("heartbeat after %v, want three quarters of 10s, or a little less", got)
			}
			last = time.Now()
		}
	})
}

// TestHeartbeatsGoOutTogether opens connections one after the other: their heartbeats come at few instants.
func TestHeartbeatsGoOutTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bridge := New(newFakeBroker(), &fakeAuthority{}, Options{})
		var served sync.WaitGroup
		var peers []*peer
		for range 5 {
			here, there := net.Pipe()
			served.Go(func() { _ = bridge.ServeConn(context.Background(), there) })
			p := newPeer(t, here)
			p.header(wire.ProtocolSASL)
			await[*wire.SASLMechanisms](p)
			p.send(0, &wire.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00root\x00secret")})
			await[*wire.SASLOutcome](p)
			p.header(wire.ProtocolAMQP)
			p.send(0, &wire.Open{ContainerID: "peer", IdleTimeOut: value.Some(uint32(30_000))})
			await[*wire.Open](p)
			peers = append(peers, p)
			time.Sleep(70 * time.Millisecond)
		}
		instants := make(map[time.Time]int)
		var mu sync.Mutex
		var heard sync.WaitGroup
		for _, p := range peers {
			heard.Go(func() {
				for range 10 {
					for f := p.next(); f != nil && len(f.Body) != 0; f = p.next() {
					}
					mu.Lock()
					instants[time.Now()]++
					mu.Unlock()
				}
			})
		}
		heard.Wait()
		for _, p := range peers {
			_ = p.nc.Close()
		}
		served.Wait()
		if len(instants) > 2*10 { // an instant may lie between the times at which they were opened
			t.Errorf("10 heartbeats of each of %d connections came at %d instants: %v", len(peers), len(instants), instants)
		}
	})
}

func TestSilentClientIsClosed(t *testing.T) {
	t.Parallel()
	bubble(t, newFakeBroker(), &fakeAuthority{}, Options{}, func(p *peer, _ context.CancelFunc) {
		p.open()
		start := time.Now()
		c := await[*wire.Close](p)
		if c == nil || c.Error == nil || c.Error.Condition != wire.CondConnectionForced || !strings.Contains(c.Error.Description, "inactive") {
			t.Errorf("close: got %v, want %s", c, wire.CondConnectionForced)
		}
		if got := time.Since(start); got != 4*time.Minute {
			t.Errorf("closed after %v, want twice the 120s announced", got)
		}
	})
}

func TestSlowReaderIsClosed(t *testing.T) {
	t.Parallel()
	bubble(t, newFakeBroker("q1"), &fakeAuthority{}, Options{}, func(p *peer, _ context.CancelFunc) {
		p.open()
		p.send(0, &wire.Flow{NextIncomingID: value.Some(uint32(0)), IncomingWindow: 100, OutgoingWindow: 100, Echo: true})
		start := time.Now()
		time.Sleep(29 * time.Second) // and the echo is not read
		synctest.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for p.next() != nil {
		}
		if got := time.Since(start); got != 31*time.Second {
			t.Errorf("closed after %v, want 30s", got)
		}
	})
}

func TestLinksEndWithTheirToken(t *testing.T) {
	t.Parallel()
	bubble(t, newFakeBroker("q1"), &fakeAuthority{life: time.Minute}, Options{}, func(p *peer, _ context.CancelFunc) {
		p.header(wire.ProtocolAMQP)
		p.send(0, &wire.Open{ContainerID: "peer"}, &wire.Begin{IncomingWindow: 100, OutgoingWindow: 100})
		tokens := p.node("$cbs", 0)
		tokens.put(t, "token", "amqp://localhost:5672/q1")
		p.attach(2, wire.RoleSender, "q1")
		p.attach(3, wire.RoleReceiver, "q1")
		time.Sleep(40 * time.Second)
		tokens.put(t, "token", "amqp://localhost:5672/q1") // renewed, until 100 s
		start := time.Now()
		for range 2 {
			d := await[*wire.Detach](p)
			if d == nil || d.Error == nil || d.Error.Condition != wire.CondUnauthorizedAccess || !strings.Contains(d.Error.Description, "ExpiredToken: ") {
				t.Fatalf("detach: got %v", d)
			}
		}
		if got := time.Since(start); got != time.Minute {
			t.Errorf("detached %v after the renewal, want 1m", got)
		}
	})
}

// Who sends through the transfer queue of one entity to another needs both rights.
func TestALinkThroughATransferQueueEndsWithEitherToken(t *testing.T) {
	t.Parallel()
	for _, renewed := range []string{"q1", "q2"} {
		bubble(t, newFakeBroker("q1", "q2"), &fakeAuthority{life: time.Minute}, Options{}, func(p *peer, _ context.CancelFunc) {
			p.header(wire.ProtocolAMQP)
			p.send(0, &wire.Open{ContainerID: "peer"}, &wire.Begin{IncomingWindow: 100, OutgoingWindow: 100})
			tokens := p.node("$cbs", 0)
			tokens.put(t, "token", "amqp://localhost:5672/q1")
			tokens.put(t, "token", "amqp://localhost:5672/q2")
			p.send(0, &wire.Attach{
				Name: "via", Handle: 2, Source: &wire.Source{}, Target: &wire.Target{Address: value.Some("q2")}, InitialDeliveryCount: value.Some(uint32(0)),
				Properties: value.Map{{Key: transferDestination, Value: "q1"}},
			})
			if a := await[*wire.Attach](p); a.Target == nil {
				t.Fatalf("attach: got %+v", a)
			}
			time.Sleep(40 * time.Second)
			tokens.put(t, "token", "amqp://localhost:5672/"+renewed)
			start := time.Now()
			d := await[*wire.Detach](p)
			if d == nil || d.Error == nil || !strings.Contains(d.Error.Description, "ExpiredToken: ") || time.Since(start) != 20*time.Second {
				t.Errorf("only the token for %s was renewed: got %+v after %v", renewed, d, time.Since(start))
			}
		})
	}
}

// Deliveries in flight are settled and sends stored before a stopping bridge lets go.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	b.hold = make(chan struct{})
	bubble(t, b, &fakeAuthority{}, Options{}, func(p *peer, stop context.CancelFunc) {
		b.hold = make(chan struct{}) // of this bubble
		p.open()
		p.attach(0, wire.RoleSender, "q1")
		await[*wire.Flow](p)
		p.transfer(&wire.Transfer{DeliveryID: value.Some(uint32(0)), DeliveryTag: []byte{1}}, plainMessage(1))
		synctest.Wait()
		stop()
		synctest.Wait()
		p.transfer(&wire.Transfer{DeliveryID: value.Some(uint32(1)), DeliveryTag: []byte{1}}, plainMessage(1))
		d := await[*wire.Disposition](p)
		if r, ok := d.State.(wire.Rejected); !ok || d.First != 1 || r.Error == nil || r.Error.Condition != wire.CondConnectionForced {
			t.Errorf("sent while stopping: got %d %+v, want 1 rejected with %s", d.First, d.State, wire.CondConnectionForced)
		}
		close(b.hold)
		d = await[*wire.Disposition](p)
		if _, ok := d.State.(wire.Accepted); !ok || d.First != 0 {
			t.Errorf("sent before: got %d %T, want 0 accepted", d.First, d.State)
		}
		c := await[*wire.Close](p)
		if c == nil || c.Error == nil || c.Error.Condition != wire.CondConnectionForced {
			t.Errorf("close: got %v, want %s", c, wire.CondConnectionForced)
		}
		p.send(0, &wire.Close{})
	})
}

func TestDrainEndsAfterItsGrace(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	bubble(t, b, &fakeAuthority{}, Options{}, func(p *peer, stop context.CancelFunc) {
		b.hold = make(chan struct{}) // never closed
		p.open()
		p.attach(0, wire.RoleSender, "q1")
		await[*wire.Flow](p)
		p.transfer(&wire.Transfer{DeliveryID: value.Some(uint32(0)), DeliveryTag: []byte{1}}, plainMessage(1))
		synctest.Wait()
		start := time.Now()
		stop()
		if c := await[*wire.Close](p); c == nil {
			t.Error("no close")
		}
		if got := time.Since(start); got != 10*time.Second {
			t.Errorf("closed after %v, want 10s", got)
		}
	})
}

// What a client sent settled before it went is still stored.
func TestSettledMessagesOutliveTheirConnection(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	bubble(t, b, &fakeAuthority{}, Options{}, func(p *peer, _ context.CancelFunc) {
		b.hold = make(chan struct{})
		p.open()
		p.attach(0, wire.RoleSender, "q1")
		await[*wire.Flow](p)
		for i := range uint32(3) {
			p.transfer(&wire.Transfer{DeliveryID: value.Some(i), DeliveryTag: []byte{1}, Settled: value.Some(true)}, plainMessage(1))
			synctest.Wait()
		}
		_ = p.nc.Close()
		synctest.Wait()
		close(b.hold)
		synctest.Wait()
		if got := b.queues["q1"].sent; got != 3 {
			t.Errorf("stored: got %d, want 3", got)
		}
	})
}

// tardyBroker opens receivers when nobody wants them any more.
type tardyBroker struct{ *fakeBroker }

func (b tardyBroker) OpenReceiver(ctx context.Context, id core.Identity, address core.Address, o core.ReceiverOptions) (core.Receiver, error) {
	<-ctx.Done()
	return b.fakeBroker.OpenReceiver(ctx, id, address, o)
}

func TestReceiversThatOpenTooLateAreClosed(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	bubble(t, tardyBroker{b}, &fakeAuthority{}, Options{DrainGrace: time.Second}, func(p *peer, _ context.CancelFunc) {
		p.open()
		p.send(0, &wire.Attach{Name: "x", Role: wire.RoleReceiver, Source: &wire.Source{Address: value.Some("q1")}})
		synctest.Wait()
		_ = p.nc.Close()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if rs := b.queues["q1"].receivers; len(rs) != 1 || !rs[0].closed {
			t.Errorf("receivers: got %v, want one that is closed", rs)
		}
	})
}

// Deliveries that never reached the client are unlocked when it goes; those that did stay locked.
func TestUnsentDeliveriesAreReleased(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	bubble(t, b, &fakeAuthority{}, Options{}, func(p *peer, _ context.CancelFunc) {
		p.open()
		p.attach(0, wire.RoleSender, "q1")
		await[*wire.Flow](p)
		for i := range uint32(3) {
			p.transfer(&wire.Transfer{DeliveryID: value.Some(i), DeliveryTag: []byte{1}}, plainMessage(1))
			await[*wire.Disposition](p)
		}
		p.attach(1, wire.RoleReceiver, "q1")
		p.send(0, &wire.Flow{
			NextIncomingID: value.Some(uint32(0)), IncomingWindow: 1, OutgoingWindow: 100, NextOutgoingID: 3,
			Handle: value.Some(uint32(1)), DeliveryCount: value.Some(uint32(0)), LinkCredit: value.Some(uint32(10)),
		})
		await[*wire.Transfer](p)
		_ = p.nc.Close()
		synctest.Wait()
		time.Sleep(time.Second)
		got := b.settled("q1")
		if len(got) != 2 || got[0].Outcome != core.Release || got[1].Outcome != core.Release {
			t.Errorf("settlements: got %v, want two releases", got)
		}
		if n := len(b.queues["q1"].locked); n != 1 {
			t.Errorf("locked: got %d, want 1", n)
		}
	})
}
