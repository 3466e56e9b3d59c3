package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// Gateways are killed while they forward through a chain of queues, and into sessions. Nothing acknowledged
// is lost or doubled, the messages of a sender arrive in their order, and those of a session are delivered in
// it. The log says how long after a kill the first of them came: with Redis, after the dead gateway's locks end.
func TestOrderIsKeptInChaos(t *testing.T) {
	t.Parallel()
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		keepOrder(t, 5, own(t, "file"))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		r := redistest.Start(t, redistest.Options{AOF: "always"})
		keepOrder(t, 2, own(t, r.URL()), own(t, r.URL()))
	})
}

func keepOrder(t *testing.T, otherwise int64, gateways ...*gateway) {
	kills, chance := numberFrom(t, killsVariable, otherwise), newChance(t)
	e := &env{T: t, gw: gateways[0], plain: true}
	queue := func(p admin.QueueProperties) string {
		p.LockDuration, p.MaxDeliveryCount = new("PT5S"), new(int32(2000))
		return e.queue(&p)
	}
	last, sessions := queue(admin.QueueProperties{}), queue(admin.QueueProperties{RequiresSession: new(true)})
	middle := queue(admin.QueueProperties{ForwardTo: &last})
	first, entrance := queue(admin.QueueProperties{ForwardTo: &middle}), queue(admin.QueueProperties{ForwardTo: &sessions})
	flows := []*orderedFlow{
		newOrderedFlow(gateways, first, last, middle),
		newOrderedFlow(gateways, entrance, sessions),
	}
	flows[1].from.prepare = func(m *amqp.Message, id string) {
		m.Properties = &amqp.MessageProperties{GroupID: new(sessionOfID(id))}
	}
	flows[1].to.books.session = sessionOfID
	flows[1].to.options = func() *amqp.ReceiverOptions {
		return &amqp.ReceiverOptions{
			Credit: 20, SettlementMode: amqp.ReceiverSettleModeSecond.Ptr(),
			Filters: []amqp.LinkFilter{amqp.NewLinkFilter("com.microsoft:session-filter", 0x137000000C, nil)},
		}
	}
	flows[1].to.pause = silence

	sending, stopSending := context.WithCancel(t.Context())
	receiving, stopReceiving := context.WithCancel(t.Context())
	defer stopReceiving()
	defer stopSending()
	var senders, receivers sync.WaitGroup
	for _, f := range flows {
		for n := range 2 {
			senders.Go(func() {
				f.from.keep(sending, func(ctx context.Context, s *amqp.Session) error { return f.from.send(ctx, s, n) })
			})
			receivers.Go(func() { f.to.keep(receiving, f.to.receive) })
		}
	}
	for range kills {
		time.Sleep(chance.between(300*time.Millisecond, 1500*time.Millisecond)) // random moments are what this is about
		g := gateways[chance.IntN(len(gateways))]
		g.kill()
		for _, f := range flows {
			f.to.books.started()
		}
		if err := g.start(); err != nil {
			t.Fatal(err)
		}
		for _, f := range flows {
			e.eventually("a first delivery at "+f.to.queue, f.to.books.hasDelivered)
		}
	}
	stopSending()
	senders.Wait()
	for _, f := range flows {
		e.eventually("all of "+f.from.queue+" is received", func() bool {
			n := e.runtime(f.from.queue).TotalMessageCount + e.runtime(f.to.queue).TotalMessageCount
			for _, name := range f.between {
				n += e.runtime(name).TotalMessageCount
			}
			return n == 0
		})
	}
	stopReceiving()
	receivers.Wait()
	for _, f := range flows {
		f.to.books.checkOrder()
		f.to.books.check(t, true)
		if waits := slices.Sorted(slices.Values(f.to.books.waits)); len(waits) > 0 {
			t.Logf("first delivery at %s after a start: median %v, longest %v", f.to.queue, waits[len(waits)/2], waits[len(waits)-1])
		}
	}
}

// orderedFlow is what goes from one queue to another.
type orderedFlow struct {
	from, to *chaos
	between  []string // queues
}

func newOrderedFlow(gateways []*gateway, from, to string, between ...string) *orderedFlow {
	books := newBooks()
	return &orderedFlow{&chaos{queue: from, gateways: gateways, books: books}, &chaos{queue: to, gateways: gateways, books: books}, between}
}

// sessionOfID is the session of a message: each sender has ten.
func sessionOfID(id string) string { return id[:1] + id[len(id)-1:] }

// started says that a gateway is about to start.
func (b *books) started() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.start = time.Now()
}

// hasDelivered reports whether a message was delivered since started.
func (b *books) hasDelivered() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.start.IsZero()
}

// checkOrder compares the order of numbers with that in which each sender has sent.
func (b *books) checkOrder() {
	b.mu.Lock()
	defer b.mu.Unlock()
	sent := map[string]int{} // by sender: the last number of its own
	for _, number := range slices.Sorted(maps.Keys(b.delivered)) {
		who, text, _ := strings.Cut(b.delivered[number], "/")
		var n int
		if _, err := fmt.Sscan(text, &n); err != nil || n <= sent[who] {
			b.complain("message %d of sender %s came behind its message %d", n, who, sent[who])
		}
		sent[who] = n
	}
}
