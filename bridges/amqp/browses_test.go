package amqp

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// browse attaches a browser.
func (p *peer) browse(handle uint32, address string, mode wire.SenderSettleMode) *wire.Attach {
	p.tb.Helper()
	p.send(0, &wire.Attach{
		Name: fmt.Sprint("b", handle), Handle: handle, Role: wire.RoleReceiver, SndSettleMode: value.Some(mode),
		Source: &wire.Source{Address: value.Some(address), DistributionMode: "copy"}, Target: &wire.Target{},
	})
	return await[*wire.Attach](p)
}

// bodies receives n messages, and returns their bodies and the last transfer.
func (p *peer) bodies(n int) (all []string, last *wire.Transfer) {
	p.tb.Helper()
	for range n {
		tr, payload := p.receiveTransfer()
		all, last = append(all, string(p.sections(payload).Body)), tr
	}
	return all, last
}

// slowPeeks is a broker whose Peek takes a second. It counts the calls that run side by side.
type slowPeeks struct {
	bridges.Front
	mu            sync.Mutex
	running, most int
}

func (s *slowPeeks) Peek(ctx context.Context, id core.Identity, a core.Address, state *core.State, from int64, n int) ([]core.Delivery, error) {
	s.mu.Lock()
	s.running++
	s.most = max(s.most, s.running)
	s.mu.Unlock()
	time.Sleep(time.Second) // virtual time
	s.mu.Lock()
	s.running--
	s.mu.Unlock()
	return s.Front.Peek(ctx, id, a, state, from, n)
}

// While the owner is busy, a pause may end and the client may send a flow, which ends the pause, too.
func TestAPauseOfABrowserEndsOnce(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		peeks := &slowPeeks{Front: s.Broker}
		b := New(peeks, &fakeAuthority{}, s.o)
		p := newPeer(t, overPipe(t, b))
		p.open()
		p.browse(0, "plain", wire.SenderSettled)
		p.flowTo(0, 0, 0, 3, false)
		synctest.Wait()
		c := slices.Collect(b.opts.Clients.All())[0].(*conn)
		busy := make(chan bool)
		for paused := false; !paused; {
			time.Sleep(time.Millisecond)
			c.Owner.Post(func() {
				paused := false
				for l := range c.eng.Links() {
					browser := l.Data.(*browseLink)
					if paused = browser.wake != nil; paused {
						time.Sleep(2 * lateBrowse) // longer than the pause
						browser.flowed()
					}
				}
				busy <- paused
			})
			paused = <-busy
		}
		time.Sleep(10 * time.Second)
		peeks.mu.Lock()
		defer peeks.mu.Unlock()
		if peeks.most != 1 {
			t.Errorf("%d looks ran side by side, want one at a time", peeks.most)
		}
	})
}

func TestBrowserSeesMessagesAndTakesNone(t *testing.T) {
	t.Parallel()
	for _, mode := range []wire.SenderSettleMode{wire.SenderSettled, wire.SenderUnsettled} {
		whole(t, Options{}, func(t *testing.T, s *fixture) {
			s.putAt(t, "plain", "", "1", "2", "3", "4", "5")
			p, _ := s.connect(t)
			p.attach(7, wire.RoleReceiver, "plain")
			p.flowTo(7, 0, 0, 2, false)
			if locked, _ := p.bodies(2); !slices.Equal(locked, []string{"1", "2"}) {
				t.Fatalf("a receiver: got %q", locked)
			}
			a := p.browse(0, "plain", mode)
			if a.Source == nil || a.Source.DistributionMode != "copy" {
				t.Fatalf("attach: got %+v, want a source with the mode copy", a)
			}
			p.flowTo(0, 0, 0, 3, false)
			got, last := p.bodies(3)
			p.flowTo(0, 3, 0, 10, true)
			more, _ := p.bodies(2)
			if got = append(got, more...); !slices.Equal(got, []string{"1", "2", "3", "4", "5"}) {
				t.Errorf("got %q, want all messages in their order, locked ones too", got)
			}
			if f := await[*wire.Flow](p); !f.Drain || f.DeliveryCount != value.Some(uint32(13)) {
				t.Errorf("at the end of a drain: got %+v, want all credit used up", f)
			}
			if last.Settled.V != (mode == wire.SenderSettled) {
				t.Errorf("settled: got %v", last.Settled)
			}
			if mode == wire.SenderUnsettled {
				p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: last.DeliveryID.V, State: wire.Modified{UndeliverableHere: value.Some(true)}})
				if d := await[*wire.Disposition](p); !d.Settled {
					t.Errorf("an outcome: got %+v, want it settled", d)
				}
			}
			p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: 0, Last: value.Some(uint32(1)), Settled: true, State: wire.Released{}})
			synctest.Wait()
			p.flowTo(7, 2, 0, 10, false)
			for _, want := range []string{"1", "2", "3", "4", "5"} {
				_, payload := p.receiveTransfer()
				m := p.sections(payload)
				if h, err := wire.DecodeHeader(m.Header); err != nil || h.DeliveryCount != 0 || string(m.Body) != want {
					t.Errorf("a receiver afterwards: got %q with the delivery count %d (%v), want %s with 0", m.Body, h.DeliveryCount, err, want)
				}
			}
		})
	}
}

func TestBrowserAtTheEndWaitsForMore(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		p, _ := s.connect(t)
		p.browse(0, "q", wire.SenderSettled)
		p.flowTo(0, 0, 0, 1000, false)
		var all []string
		for i := range 300 {
			all = append(all, fmt.Sprint(i))
		}
		time.Sleep(3 * time.Minute)
		s.put(t, "a", all[:150]...)
		s.put(t, "b", all[150:]...)
		if got, _ := p.bodies(300); !slices.Equal(got, all) {
			t.Errorf("got %q, want the messages of all sessions in their order", got)
		}
		time.Sleep(30 * time.Second)
		start := time.Now()
		p.flowTo(0, 300, 0, 700, true)
		if f := await[*wire.Flow](p); !f.Drain || time.Since(start) > 0 {
			t.Errorf("got %+v after %v, want the drain answered at once", f, time.Since(start))
		}
		if err := s.DeleteEntity(t.Context(), rootIdentity, "q"); err != nil {
			t.Fatal(err)
		}
		p.flowTo(0, 300, 700, 1, false)
		if d := await[*wire.Detach](p); d == nil || d.Error == nil || d.Error.Condition != wire.CondNotFound {
			t.Errorf("got %+v, want the link detached with its entity", d)
		}
	})
}

func TestBrowserOfPartitionsSeesEachMessageOnce(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		o := core.DefaultSettings(core.Queue)
		o.EnablePartitioning = true
		if _, err := s.CreateEntity(t.Context(), rootIdentity, core.Queue, "many", o, nil); err != nil {
			t.Fatal(err)
		}
		p, _ := s.connect(t)
		p.browse(0, "many", wire.SenderSettled)
		p.flowTo(0, 0, 0, 1000, false)
		var sent, got []string
		for round := range 3 {
			for i := range 50 {
				body := fmt.Sprint(round, "-", i)
				sent = append(sent, body)
				s.putAt(t, "many", "", body)
			}
			some, _ := p.bodies(50)
			got = append(got, some...)
		}
		slices.Sort(sent)
		slices.Sort(got)
		if !slices.Equal(got, sent) {
			t.Errorf("got %q, want each message once", got)
		}
	})
}

// What would change which messages a client gets is refused, not ignored.
func TestTerminusThatIsNotServedIsRefused(t *testing.T) {
	t.Parallel()
	named := value.Described{Descriptor: value.Symbol(selectorFilter), Value: "colour = 'blue'"}
	coded := value.Described{Descriptor: selectorCode, Value: "colour = 'blue'"}
	for name, source := range map[string]*wire.Source{
		"selector by name":      {Address: value.Some("q1"), Filter: value.Map{{Key: value.Symbol("jms-selector"), Value: named}}},
		"selector by code":      {Address: value.Some("q1"), Filter: value.Map{{Key: value.Symbol("any"), Value: coded}}},
		"selector of a browser": {Address: value.Some("q1"), DistributionMode: "copy", Filter: value.Map{{Key: value.Symbol("x"), Value: coded}}},
		"node on demand":        {Dynamic: true},
		"browse of a session":   {Address: value.Some("q1"), DistributionMode: "copy", Filter: value.Map{{Key: value.Symbol(sessionFilter), Value: "s"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, newFakeBroker("q1"), &fakeAuthority{}, Options{}, func(p *peer, _ context.CancelFunc) {
				p.open()
				p.send(0, &wire.Attach{Name: "r", Role: wire.RoleReceiver, Source: source, Target: &wire.Target{}})
				if err := p.refused(); err.Condition != wire.CondNotImplemented {
					t.Errorf("got %v, want %s", err, wire.CondNotImplemented)
				}
			})
		})
	}
}

func TestBrowserNeedsListen(t *testing.T) {
	t.Parallel()
	p := dialPeer(t, serve(t, newFakeBroker("q1", "q2"), &fakeAuthority{}, Options{}))
	p.header(wire.ProtocolAMQP)
	p.send(0, &wire.Open{ContainerID: "peer"}, &wire.Begin{IncomingWindow: 100, OutgoingWindow: 100})
	p.node("$cbs", 0).put(t, "root", "sb://localhost/q2")
	if a := p.browse(2, "q1", wire.SenderSettled); a.Source != nil {
		t.Errorf("got %+v, want a refusal", a)
	}
	if d := await[*wire.Detach](p); d.Error == nil || d.Error.Condition != wire.CondUnauthorizedAccess {
		t.Errorf("got %+v, want it unauthorized", d)
	}
}

func TestCoordinatorAnswersTheCapabilitiesThatItServes(t *testing.T) {
	t.Parallel()
	p := dialPeer(t, serve(t, newFakeBroker(), &fakeAuthority{}, Options{}))
	p.open()
	p.send(0, &wire.Attach{
		Name: "k", Source: &wire.Source{}, InitialDeliveryCount: value.Some(uint32(0)),
		Coordinator: &wire.Coordinator{Capabilities: []value.Symbol{"amqp:local-transactions", "amqp:distributed-transactions", "amqp:multi-txns-per-ssn"}},
	})
	want := []value.Symbol{"amqp:local-transactions", "amqp:multi-txns-per-ssn"}
	if a := await[*wire.Attach](p); a.Coordinator == nil || !slices.Equal(a.Coordinator.Capabilities, want) {
		t.Errorf("got %+v, want the capabilities %v", a.Coordinator, want)
	}
}
