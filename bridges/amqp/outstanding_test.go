package amqp

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/value"
)

// A client that never settles has its link stall only until the locks end. What it renewed it may still settle; the
// rest is answered as lost.
func TestLapsedDeliveriesMakeRoom(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"link": {MaxUnsettled: 3}, "connection": {MaxConnectionUnsettled: 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFakeBroker("q1")
			bubble(t, b, &fakeAuthority{}, o, func(p *peer, _ context.CancelFunc) {
				p.open()
				b.put(t, "q1", 10)
				p.attach(0, wire.RoleReceiver, "q1")
				management := p.node("q1/$management", 1)
				p.flowTo(0, 0, 0, 100, false)
				tags := make([]core.LockToken, 3)
				for i := range tags {
					tags[i] = core.LockToken(await[*wire.Transfer](p).DeliveryTag)
				}
				time.Sleep(fakeLock / 2)
				renewed := value.UUID(swapToken(tags[1]))
				if a := management.call(
					value.Map{{Key: "operation", Value: "com.microsoft:renew-lock"}},
					value.Map{{Key: "lock-tokens", Value: value.ArrayOf([]value.UUID{renewed})}},
				); a.get("statusCode") != int32(200) {
					t.Fatalf("renew: got %v", a.headers)
				}
				start := time.Now()
				for range 2 {
					if tr := await[*wire.Transfer](p); tr == nil {
						t.Fatal("no delivery after locks have ended")
					}
				}
				if waited := time.Since(start); waited < fakeLock/2 || waited > fakeLock {
					t.Errorf("further deliveries came after %v, want some time after %v", waited, fakeLock/2)
				}
				p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: 0, Last: value.Some(uint32(2)), State: wire.Accepted{}})
				for range 3 {
					d := await[*wire.Disposition](p)
					r, rejected := d.State.(wire.Rejected)
					if renewed := d.First == 1; rejected == renewed || rejected && r.Error.Condition != wire.CondMessageLockLost {
						t.Errorf("delivery %d: got %+v", d.First, d.State)
					}
				}
			})
		})
	}
}

// However many links have credit when messages come, no more than the bound are out.
func TestUnsettledDeliveriesOfAllLinksAreBounded(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1", "q2")
	bubble(t, b, &fakeAuthority{}, Options{MaxConnectionUnsettled: 5}, func(p *peer, _ context.CancelFunc) {
		p.open()
		p.attach(0, wire.RoleReceiver, "q1")
		p.attach(1, wire.RoleReceiver, "q2")
		p.flowTo(0, 0, 0, 100, false)
		p.flowTo(1, 0, 0, 100, false)
		synctest.Wait()
		for range 10 {
			b.put(t, "q1", 1)
			b.put(t, "q2", 1)
		}
		for range 5 {
			await[*wire.Transfer](p)
		}
		synctest.Wait()
		if got := len(b.queues["q1"].locked) + len(b.queues["q2"].locked); got != 5 {
			t.Errorf("locked: got %d, want 5", got)
		}
		p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: 0, Last: value.Some(uint32(4)), State: wire.Accepted{}})
		for range 5 {
			await[*wire.Transfer](p)
		}
	})
}

// Deliveries that wait for the client's window are unlocked when it takes its credit back, and a drain is answered.
func TestCreditTakenBackWhileTheWindowIsClosed(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	bubble(t, b, &fakeAuthority{}, Options{}, func(p *peer, _ context.CancelFunc) {
		flow := func(count, credit uint32, drain bool) {
			p.send(0, &wire.Flow{
				NextIncomingID: value.Some(uint32(0)), IncomingWindow: 1, OutgoingWindow: 100, Handle: value.Some(uint32(0)),
				DeliveryCount: value.Some(count), LinkCredit: value.Some(credit), Drain: drain,
			})
		}
		p.open()
		b.put(t, "q1", 3)
		p.attach(0, wire.RoleReceiver, "q1")
		flow(0, 3, false)
		await[*wire.Transfer](p)
		synctest.Wait()
		if got := len(b.queues["q1"].locked); got != 3 {
			t.Fatalf("locked while two wait: got %d, want 3", got)
		}
		flow(1, 0, true)
		if f := await[*wire.Flow](p); !f.Drain || f.DeliveryCount != value.Some(uint32(1)) || f.LinkCredit != value.Some(uint32(0)) {
			t.Errorf("drained: got %+v", f)
		}
		synctest.Wait()
		if got := len(b.queues["q1"].locked); got != 1 {
			t.Errorf("locked: got %d, want 1", got)
		}
	})
}

// A client that does not read keeps its links, which share the bytes that may wait for it.
func TestBytesThatWaitForAClientAreBounded(t *testing.T) {
	t.Parallel()
	const links, size = 8, 100 << 10
	b := newFakeBroker("q1")
	b.queues["q1"].forget = true
	m, err := decodeMessage(plainMessage(size))
	if err != nil {
		t.Fatal(err)
	}
	b.queues["q1"].ready = []core.Delivery{{Message: m}} // for ever
	memory := fair.New(0, nil, nil)
	bubble(t, b, &fakeAuthority{}, Options{Pools: fair.Pools{Budget: memory}, MaxConnectionUnsettled: 1 << 20, MaxUnsettled: 1 << 20}, func(p *peer, _ context.CancelFunc) {
		p.open()
		for h := range uint32(links) {
			p.attach(h, wire.RoleReceiver, "q1")
		}
		window := func(n uint32, handle value.Opt[uint32]) {
			p.send(0, &wire.Flow{
				NextIncomingID: value.Some(uint32(0)), IncomingWindow: n, OutgoingWindow: 100, Handle: handle,
				DeliveryCount: value.Some(uint32(0)), LinkCredit: value.Some(uint32(1000)),
			})
		}
		for h := range uint32(links) {
			window(0, value.Some(h))
		}
		synctest.Wait()
		if held := memory.Stats().Held; held < fair.Pending/2 || held > fair.Pending+links*(size+1<<10) {
			t.Errorf("held for a client that does not read: got %d bytes, want about %d", held, fair.Pending)
		}
		window(1<<20, value.Opt[uint32]{})
		for range 2 * fair.Pending / size {
			await[*wire.Transfer](p)
		}
	})
}
