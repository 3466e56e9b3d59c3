package amqp

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// Clients compare the answer to an attach with what they asked for, and take what it has for granted.
func TestAttachIsAnsweredWithWhatIsServed(t *testing.T) {
	t.Parallel()
	p := dialPeer(t, serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{}))
	p.open()
	everything := wire.Source{
		Address: value.Some("amqps://host/q1"), Durable: value.Some(uint32(2)), ExpiryPolicy: "never", Timeout: value.Some(uint32(9)),
		DistributionMode: "move", DefaultOutcome: wire.Accepted{}, Capabilities: []value.Symbol{"queue"},
		Filter:   value.Map{{Key: value.Symbol("some"), Value: value.Described{Descriptor: uint64(7), Value: "x"}}},
		Outcomes: []value.Symbol{"amqp:accepted:list", "amqp:modified:list", "other:list"},
	}
	for i, a := range []*wire.Attach{
		{
			Name: "s", Role: wire.RoleSender, SndSettleMode: value.Some(wire.SenderMixed), RcvSettleMode: value.Some(wire.ReceiverFirst),
			Source: &wire.Source{Address: value.Some("me")}, Target: &wire.Target{Address: value.Some("/Q1")}, InitialDeliveryCount: value.Some(uint32(3)),
		},
		{
			Name: "r", Role: wire.RoleReceiver, SndSettleMode: value.Some(wire.SenderUnsettled), RcvSettleMode: value.Some(wire.ReceiverSecond),
			Source: &everything, Target: &wire.Target{Address: value.Some("me"), Durable: value.Some(uint32(2)), Capabilities: []value.Symbol{"queue"}},
		},
		{
			Name: "d", Role: wire.RoleReceiver, SndSettleMode: value.Some(wire.SenderSettled),
			Source: &wire.Source{Address: value.Some("q1/$deadletterqueue")},
		},
	} {
		a.Handle = uint32(i)
		p.send(0, a)
		got := await[*wire.Attach](p)
		if got.Name != a.Name || got.Role == a.Role || got.SndSettleMode != a.SndSettleMode || got.RcvSettleMode != a.RcvSettleMode {
			t.Errorf("%s: got %+v", a.Name, got)
		}
		if got.Source == nil && a.Source != nil || got.Source != nil && got.Source.Address != a.Source.Address {
			t.Errorf("%s: source: got %+v, want %+v", a.Name, got.Source, a.Source)
		}
		if a.Target != nil && (got.Target == nil || got.Target.Address != a.Target.Address) {
			t.Errorf("%s: target: got %+v, want %+v", a.Name, got.Target, a.Target)
		}
		want := wire.Source{Address: a.Source.Address}
		if a.Source == &everything {
			want.DistributionMode, want.Outcomes = "move", everything.Outcomes[:2]
		}
		if !reflect.DeepEqual(*got.Source, want) || got.Target != nil && !reflect.DeepEqual(*got.Target, wire.Target{Address: a.Target.Address}) {
			t.Errorf("%s: got the source %+v and the target %+v, want %+v and an address only", a.Name, got.Source, got.Target, want)
		}
		if got.Properties == nil || !got.MaxMessageSize.Set || got.MaxMessageSize.V == 0 {
			t.Errorf("%s: properties %v, max-message-size %v", a.Name, got.Properties, got.MaxMessageSize)
		}
		if a.Role == wire.RoleReceiver && got.InitialDeliveryCount != value.Some(uint32(0)) {
			t.Errorf("%s: initial-delivery-count: got %v, want 0", a.Name, got.InitialDeliveryCount)
		}
	}
}

func TestMissingRightIsRefusedAtAttach(t *testing.T) {
	t.Parallel()
	p := dialPeer(t, serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{}))
	p.header(wire.ProtocolAMQP)
	p.send(0, &wire.Open{ContainerID: "peer"}, &wire.Begin{IncomingWindow: 100, OutgoingWindow: 100})
	p.node("$cbs", 0).put(t, "listen", "sb://localhost/q1")
	if a := p.attach(2, wire.RoleSender, "q1"); a.Target != nil {
		t.Errorf("refused attach has a target: %+v", a.Target)
	}
	d := await[*wire.Detach](p)
	if d.Error == nil || d.Error.Condition != wire.CondUnauthorizedAccess || !strings.Contains(d.Error.Description, "'Send' claim(s) are required") || !d.Closed {
		t.Errorf("detach: got %+v", d)
	}
	if a := p.attach(3, wire.RoleReceiver, "q1"); a.Source == nil {
		t.Error("receive: refused")
	}
}

// flowTo gives credit on a link of which n deliveries have arrived, and skipped more were given up in drains.
func (p *peer) flowTo(handle, n, skipped, credit uint32, drain bool) {
	p.tb.Helper()
	p.send(0, &wire.Flow{
		NextIncomingID: value.Some(n), IncomingWindow: 1000, OutgoingWindow: 100,
		Handle: value.Some(handle), DeliveryCount: value.Some(n + skipped), LinkCredit: value.Some(credit), Drain: drain,
	})
}

// put fills a queue of the fake broker.
func (b *fakeBroker) put(t *testing.T, queue string, n int) {
	t.Helper()
	for range n {
		m, err := decodeMessage(plainMessage(1))
		if err != nil {
			t.Fatal(err)
		}
		s := &fakeSender{q: b.queues[queue]}
		s.Send(t.Context(), [][]*core.Message{{m}})
	}
}

func TestDrainUsesUpCredit(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	bubble(t, b, &fakeAuthority{}, Options{}, func(p *peer, _ context.CancelFunc) {
		p.open()
		b.put(t, "q1", 2)
		p.attach(0, wire.RoleReceiver, "q1")
		p.flowTo(0, 0, 0, 5, false)
		await[*wire.Transfer](p)
		await[*wire.Transfer](p)
		start := time.Now()
		p.flowTo(0, 2, 0, 3, true)
		f := await[*wire.Flow](p)
		if !f.Drain || f.LinkCredit != value.Some(uint32(0)) || f.DeliveryCount != value.Some(uint32(5)) || time.Since(start) > 0 {
			t.Errorf("got %+v after %v, want drain, credit 0, delivery-count 5 at once", f, time.Since(start))
		}
		b.put(t, "q1", 1)
		synctest.Wait()
		// Draining nothing is answered as well, and credit given afterwards counts.
		p.flowTo(0, 2, 3, 0, true)
		if f := await[*wire.Flow](p); !f.Drain || f.DeliveryCount != value.Some(uint32(5)) {
			t.Errorf("drain without credit: got %+v", f)
		}
		p.flowTo(0, 2, 3, 1, false)
		if tr := await[*wire.Transfer](p); tr.DeliveryID != value.Some(uint32(2)) {
			t.Errorf("after the drain: got %+v", tr)
		}
	})
}

func TestCreditCanBeTakenBack(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	bubble(t, b, &fakeAuthority{}, Options{}, func(p *peer, _ context.CancelFunc) {
		p.open()
		p.attach(0, wire.RoleReceiver, "q1")
		p.flowTo(0, 0, 0, 10, false)
		p.flowTo(0, 0, 0, 1, false)
		synctest.Wait()
		if got := b.queues["q1"].receivers[0].credit; got != 1 {
			t.Errorf("credit of the broker: got %d, want 1", got)
		}
		b.put(t, "q1", 3)
		await[*wire.Transfer](p)
		p.flowTo(0, 1, 0, 0, false)
		synctest.Wait()
		if got := len(b.queues["q1"].ready); got != 2 {
			t.Errorf("left in the queue: got %d, want 2", got)
		}
	})
}

func TestUnsettledDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"link": {MaxUnsettled: 3}, "connection": {MaxConnectionUnsettled: 3}} {
		for _, settled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, settled %v", name, settled), func(t *testing.T) {
				t.Parallel()
				b := newFakeBroker("q1", "q2")
				bubble(t, b, &fakeAuthority{}, o, func(p *peer, _ context.CancelFunc) { boundUnsettled(t, b, p, settled) })
			})
		}
	}
}

func boundUnsettled(t *testing.T, b *fakeBroker, p *peer, settled bool) {
	p.open()
	b.put(t, "q1", 10)
	p.attach(0, wire.RoleReceiver, "q1")
	p.flowTo(0, 0, 0, 1<<31, false)
	for range 3 {
		await[*wire.Transfer](p)
	}
	synctest.Wait()
	if got := len(b.queues["q1"].ready); got != 7 {
		t.Errorf("left in the queue: got %d, want 7", got)
	}
	p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: 0, Last: value.Some(uint32(1)), Settled: settled, State: wire.Accepted{}})
	if tr := await[*wire.Transfer](p); tr == nil {
		t.Fatal("no delivery after two were settled")
	}
	await[*wire.Transfer](p)
	synctest.Wait()
	if got := len(b.queues["q1"].ready); got != 5 {
		t.Errorf("left in the queue: got %d, want 5", got)
	}
}

func TestLinksEndWithTheirEntity(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	p := dialPeer(t, serve(t, b, &fakeAuthority{}, Options{}))
	p.open()
	p.attach(0, wire.RoleSender, "q1")
	p.attach(1, wire.RoleReceiver, "q1")
	b.disable("q1", core.EntityDisabled)
	for range 2 {
		if d := await[*wire.Detach](p); d == nil || d.Error == nil || d.Error.Condition != wire.CondEntityDisabled {
			t.Errorf("detach: got %+v, want %s", d, wire.CondEntityDisabled)
		}
	}
}

// Outcomes of deliveries that were settled together come together.
func TestDispositionsAreMerged(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	bubble(t, b, &fakeAuthority{}, Options{}, func(p *peer, _ context.CancelFunc) {
		p.open()
		b.put(t, "q1", 100)
		p.attach(0, wire.RoleReceiver, "q1")
		p.flowTo(0, 0, 0, 100, false)
		for range 100 {
			await[*wire.Transfer](p)
		}
		p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: 0, Last: value.Some(uint32(99)), State: wire.Accepted{}})
		if d := await[*wire.Disposition](p); d.First != 0 || d.Last != value.Some(uint32(99)) || !d.Settled || d.Role != wire.RoleSender {
			t.Errorf("got %+v, want one for all", d)
		}
	})
}

// The properties that a settlement sets are kept while further frames are read over the buffer they came in.
func TestPropertiesToModifyOutliveTheirFrame(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	bubble(t, b, &fakeAuthority{}, Options{}, func(p *peer, _ context.CancelFunc) {
		p.open()
		b.put(t, "q1", 4)
		p.attach(0, wire.RoleReceiver, "q1")
		p.flowTo(0, 0, 0, 4, false)
		for range 4 {
			await[*wire.Transfer](p)
		}
		for i := range uint32(4) {
			p.send(0, &wire.Disposition{
				Role: wire.RoleReceiver, First: i,
				State: wire.Modified{
					UndeliverableHere:  value.Some(true),
					MessageAnnotations: encode(t, value.Map{{Key: value.Symbol("k"), Value: int64(i)}}),
				},
			})
			await[*wire.Disposition](p)
		}
		for i, s := range b.settled("q1") {
			if got, _ := s.Properties.Get("k"); got != int64(i) {
				t.Errorf("settlement %d: got %v, want %d", i, got, i)
			}
		}
	})
}

func TestLostLockIsInTheRejection(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	p := dialPeer(t, serve(t, b, &fakeAuthority{}, Options{}))
	p.open()
	b.put(t, "q1", 1)
	p.attach(0, wire.RoleReceiver, "q1")
	p.flowTo(0, 0, 0, 1, false)
	await[*wire.Transfer](p)
	b.mu.Lock()
	clear(b.queues["q1"].locked)
	b.mu.Unlock()
	p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: 0, State: wire.Accepted{}})
	d := await[*wire.Disposition](p)
	r, ok := d.State.(wire.Rejected)
	if !ok || r.Error == nil || r.Error.Condition != wire.CondMessageLockLost {
		t.Errorf("got %+v, want rejected with %s", d, wire.CondMessageLockLost)
	}
}

// A rejection would end the delivery for the client, which then has nothing to settle again.
func TestASettlementThatMaySucceedLaterIsNotRejected(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	p := dialPeer(t, serve(t, b, &fakeAuthority{}, Options{}))
	p.open()
	b.put(t, "q1", 1)
	p.attach(0, wire.RoleReceiver, "q1")
	p.flowTo(0, 0, 0, 1, false)
	await[*wire.Transfer](p)
	b.mu.Lock()
	b.queues["q1"].down = true
	b.mu.Unlock()
	p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: 0, State: wire.Accepted{}})
	answer, _ := p.receive()
	if d, ok := answer.(*wire.Detach); !ok || !d.Closed || d.Error == nil || d.Error.Condition != wire.CondDetachForced {
		t.Errorf("got %+v, want a detach with %s", answer, wire.CondDetachForced)
	}
}

func TestTooLargeIsRejectedAndTheLinkLives(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	b.queues["q1"].maxSize = 1000
	p := dialPeer(t, serve(t, b, &fakeAuthority{}, Options{}))
	p.open()
	p.attach(0, wire.RoleSender, "q1")
	p.transfer(&wire.Transfer{DeliveryID: value.Some(uint32(0)), DeliveryTag: []byte{1}}, plainMessage(2000))
	d := await[*wire.Disposition](p)
	if r, ok := d.State.(wire.Rejected); !ok || r.Error == nil || r.Error.Condition != wire.CondMessageSizeExceeded {
		t.Errorf("too large: got %+v, want rejected with %s", d, wire.CondMessageSizeExceeded)
	}
	p.transfer(&wire.Transfer{DeliveryID: value.Some(uint32(1)), DeliveryTag: []byte{1}}, plainMessage(20))
	if d := await[*wire.Disposition](p); d.State != (wire.Accepted{}) {
		t.Errorf("next: got %+v, want accepted", d)
	}
}

// Nothing is read while too much waits to be stored, and the client is not given up meanwhile.
func TestReadingStopsWhileTooMuchIsUnderWay(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	bubble(t, b, &fakeAuthority{}, Options{MaxMessageBytes: 3000}, func(p *peer, _ context.CancelFunc) {
		b.hold = make(chan struct{})
		p.open()
		p.attach(0, wire.RoleSender, "q1")
		await[*wire.Flow](p)
		written := make(chan int, 100)
		go func() {
			for i := range uint32(10) {
				p.transfer(&wire.Transfer{DeliveryID: value.Some(i), DeliveryTag: []byte{1}}, plainMessage(1000))
				written <- int(i)
			}
		}()
		synctest.Wait()
		if got := len(written); got > 6 {
			t.Errorf("taken: %d messages, want few", got)
		}
		time.Sleep(50 * time.Second) // less than a broker call may take
		synctest.Wait()
		close(b.hold)
		for next := uint32(0); next < 10; {
			d := await[*wire.Disposition](p)
			if d == nil || d.First != next {
				t.Fatalf("got %+v, want the outcome of %d", d, next)
			}
			next = d.Last.Or(d.First) + 1
		}
	})
}

// Several senders and receivers with go-amqp, each over links of its own: nothing is lost, doubled or out of order.
func TestManyLinks(t *testing.T) {
	t.Parallel()
	addr := serveWhole(t, Options{}, "q0", "q1", "q2", "q3")
	c := dial(t, addr)
	const n = 300
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Bound)
	defer cancel()
	errs := make(chan error, 8)
	for i := range 4 {
		queue := fmt.Sprintf("q%d", i)
		snd := sender(t, session(t, c), queue)
		r, err := session(t, c).NewReceiver(ctx, queue, &goamqp.ReceiverOptions{SettlementMode: goamqp.ReceiverSettleModeSecond.Ptr(), Credit: 50})
		if err != nil {
			t.Fatal(err)
		}
		go func() { errs <- sendNumbers(ctx, snd, n) }()
		go func() { errs <- receiveNumbers(ctx, r, n) }()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func sendNumbers(ctx context.Context, s *goamqp.Sender, n int) error {
	var receipts []goamqp.SendReceipt
	for i := range n {
		r, err := s.SendWithReceipt(ctx, goamqp.NewMessage(fmt.Append(nil, i)), nil)
		if err != nil {
			return err
		}
		receipts = append(receipts, r)
	}
	for i, r := range receipts {
		state, err := r.Wait(ctx)
		if err != nil {
			return err
		}
		if _, ok := state.(*goamqp.StateAccepted); !ok {
			return fmt.Errorf("message %d: %T", i, state)
		}
	}
	return nil
}

func receiveNumbers(ctx context.Context, r *goamqp.Receiver, n int) error {
	for i := range n {
		m, err := r.Receive(ctx, nil)
		if err != nil {
			return err
		}
		if got, want := string(m.GetData()), fmt.Sprint(i); got != want {
			return fmt.Errorf("got message %s, want %s", got, want)
		}
		if err := r.AcceptMessage(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// slowSettler is a broker that settles when the test lets it, and notes the credit that receivers are given.
type slowSettler struct {
	*broker.Broker
	allowed chan struct{}

	mu    sync.Mutex
	given []int
}

func (b *slowSettler) Settle(ctx context.Context, id core.Identity, address core.Address, settlements []core.Settlement) []error {
	<-b.allowed
	return b.Broker.Settle(ctx, id, address, settlements)
}

func (b *slowSettler) OpenReceiver(ctx context.Context, id core.Identity, address core.Address, o core.ReceiverOptions) (core.Receiver, error) {
	r, err := b.Broker.OpenReceiver(ctx, id, address, o)
	return &countedReceiver{r, b}, err
}

type countedReceiver struct {
	core.Receiver
	b *slowSettler
}

func (r *countedReceiver) AddCredit(n int, bytes int64) {
	r.b.mu.Lock()
	r.b.given = append(r.b.given, n)
	r.b.mu.Unlock()
	r.Receiver.AddCredit(n, bytes)
}

// Credit that comes after an outcome which gives a message back is not used before the message is there again: else the
// messages behind it would overtake it.
func TestMessagesThatComeBackAreNotOvertaken(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]wire.DeliveryState{"released": wire.Released{}, "abandoned": wire.Modified{DeliveryFailed: value.Some(true)}} {
		for _, settled := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, settled %t", name, settled), func(t *testing.T) {
				t.Parallel()
				b := &slowSettler{allowed: make(chan struct{})}
				var addr string
				addr, b.Broker = serveBrokerAs(t, Options{}, func(whole *broker.Broker) bridges.Front {
					b.Broker = whole
					return b
				})
				if _, err := b.CreateEntity(t.Context(), rootIdentity, core.Queue, "q1", core.DefaultSettings(core.Queue), nil); err != nil {
					t.Fatal(err)
				}
				p := dialPeer(t, addr)
				p.open()
				p.attach(0, wire.RoleSender, "q1")
				for i := range uint32(3) {
					p.transfer(&wire.Transfer{Handle: 0, DeliveryID: value.Some(i), DeliveryTag: []byte{byte(i)}}, plainMessage(int(i)))
					for d := await[*wire.Disposition](p); d.Last.Or(d.First) < i; d = await[*wire.Disposition](p) {
					}
				}
				p.attach(1, wire.RoleReceiver, "q1")
				flow := func(credit, count uint32) *wire.Flow {
					return &wire.Flow{
						Handle: value.Some(uint32(1)), LinkCredit: value.Some(credit), DeliveryCount: value.Some(count),
						IncomingWindow: 1<<31 - 1, OutgoingWindow: 5000, NextIncomingID: value.Some(uint32(0)),
					}
				}
				p.send(0, flow(1, 0))
				first := await[*wire.Transfer](p).DeliveryID.V
				echo := flow(3, 1)
				echo.Echo = true
				p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: first, Settled: settled, State: state}, echo)
				await[*wire.Flow](p)
				b.mu.Lock()
				given := slices.Clone(b.given)
				b.mu.Unlock()
				if !slices.Equal(given, []int{1}) {
					t.Errorf("while the outcome is under way: receivers were given credit %v, want [1]", given)
				}
				close(b.allowed)
				var sizes []int
				for range 3 {
					perf, payload := p.receive()
					for _, ok := perf.(*wire.Transfer); !ok; _, ok = perf.(*wire.Transfer) {
						perf, payload = p.receive()
					}
					s := p.sections(bytes.Clone(payload))
					sizes = append(sizes, len(s.Body))
				}
				if !slices.Equal(sizes, []int{0, 1, 2}) {
					t.Errorf("messages by their sizes: got %v, want them in their order", sizes)
				}
			})
		}
	}
}

// stepBroker settles, and gives credit back, when the test lets it.
type stepBroker struct {
	*fakeBroker
	settle, drain chan struct{}

	calls []int // settlements of each call
}

func (b *stepBroker) Settle(ctx context.Context, id core.Identity, address core.Address, settlements []core.Settlement) []error {
	b.mu.Lock()
	b.calls = append(b.calls, len(settlements))
	b.mu.Unlock()
	if len(settlements) > 0 {
		<-b.settle
	}
	return b.fakeBroker.Settle(ctx, id, address, settlements)
}

func (b *stepBroker) OpenReceiver(ctx context.Context, id core.Identity, address core.Address, o core.ReceiverOptions) (core.Receiver, error) {
	r, err := b.fakeBroker.OpenReceiver(ctx, id, address, o)
	return &stepReceiver{r, b}, err
}

type stepReceiver struct {
	core.Receiver
	b *stepBroker
}

func (r *stepReceiver) Drain(drained func(int)) {
	go func() {
		<-r.b.drain
		r.Receiver.Drain(drained)
	}()
}

// The client takes its credit back while deliveries are on their way and an earlier message is being unlocked. The
// deliveries are then unlocked in one call, during which nothing is requested.
func TestMessagesThatComeBackTwiceAreNotOvertaken(t *testing.T) {
	t.Parallel()
	b := &stepBroker{fakeBroker: newFakeBroker("q1")}
	bubble(t, b, &fakeAuthority{}, Options{}, func(p *peer, _ context.CancelFunc) {
		b.settle, b.drain = make(chan struct{}), make(chan struct{})
		p.open()
		b.put(t, "q1", 1)
		p.attach(0, wire.RoleReceiver, "q1")
		p.flowTo(0, 0, 0, 3, false)
		await[*wire.Transfer](p)
		p.send(0, &wire.Disposition{Role: wire.RoleReceiver, State: wire.Released{}})
		synctest.Wait()
		p.flowTo(0, 1, 0, 4, false)
		p.flowTo(0, 1, 0, 0, false)
		synctest.Wait()
		b.put(t, "q1", 2)
		synctest.Wait()
		b.settle <- struct{}{}
		await[*wire.Disposition](p)
		synctest.Wait()
		close(b.drain)
		b.put(t, "q1", 1)
		p.flowTo(0, 1, 0, 4, false)
		synctest.Wait()
		b.mu.Lock()
		calls, ready := b.calls, len(b.queues["q1"].ready)
		b.mu.Unlock()
		if !slices.Equal(calls, []int{1, 2}) || ready != 2 {
			t.Errorf("got calls with %v settlements and %d messages in the queue, want calls with 1 and 2, and the messages before and after these 2", calls, ready)
		}
		close(b.settle)
		for range 4 {
			await[*wire.Transfer](p)
		}
	})
}
