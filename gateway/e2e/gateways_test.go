package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"

	"github.com/crosstown-mq/crosstown/core"
)

// gateways starts so many on one Redis.
func gateways(t *testing.T, n int) (es []*env) {
	t.Helper()
	r := redistest.Start(t, redistest.Options{AOF: "always"})
	for range n {
		es = append(es, &env{T: t, gw: own(t, r.URL()), plain: true})
	}
	return es
}

// everything peeks at all messages that a receiver could see, in their order.
func (e *env) everything(r *azservicebus.Receiver) (all []*azservicebus.ReceivedMessage) {
	e.Helper()
	for from := int64(0); ; from = *all[len(all)-1].SequenceNumber + 1 {
		ms := e.peek(r, from, 250)
		if len(ms) == 0 {
			return all
		}
		all = append(all, ms...)
	}
}

// afterDeath waits until a condition holds that the locks of a dead gateway, 20
// seconds long, may hold up.
func (e *env) afterDeath(what string, holds func() bool) {
	e.Helper()
	e.eventually(what, holds)
}

// Without the doorbell gateways look every second or so, from the last look on: then no message that is sent
// when the one before has arrived comes as fast as a quick one. With it some do on a busy machine, too.
const (
	quick     = 400 * time.Millisecond
	quickOnes = 5
	doorbells = 300 // at most
)

// rings sends messages one by one, each once the one before has arrived, until doorbells have brought some.
func (e *env) rings(send func(i int), arrived <-chan *azservicebus.ReceivedMessage, then func(*azservicebus.ReceivedMessage)) {
	e.Helper()
	fast := 0
	for i := 0; fast < quickOnes; i++ {
		if i == doorbells {
			e.Fatalf("%d of %d messages came within %v: no doorbell brings them", fast, doorbells, quick)
		}
		began := time.Now()
		send(i)
		select {
		case m, ok := <-arrived:
			if !ok {
				e.Fatal("the receiver has ended")
			}
			if time.Since(began) < quick {
				fast++
			}
			if string(m.Body) != fmt.Sprint(i) {
				e.Fatalf("got message %q, want %d", m.Body, i)
			}
			then(m)
		case <-time.After(patience):
			e.Fatalf("message %d does not come", i)
		}
	}
}

// attached is a sender whose link is there: the SDK makes it when it is used first.
func (e *env) attached(queue string) *azservicebus.Sender {
	e.Helper()
	s := e.sender(queue)
	if _, err := s.NewMessageBatch(e.ctx(), nil); err != nil {
		e.Fatal(err)
	}
	return s
}

// stream receives messages one by one until the context ends.
func (e *env) stream(ctx context.Context, receive func(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)) <-chan *azservicebus.ReceivedMessage {
	arrived, ended := make(chan *azservicebus.ReceivedMessage), make(chan struct{})
	e.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		defer close(arrived)
		for {
			ms, err := receive(ctx, 1, nil)
			if err != nil {
				if ctx.Err() == nil {
					e.Errorf("receive: %v", err)
				}
				return
			}
			select {
			case arrived <- ms[0]:
			case <-ctx.Done():
				return
			}
		}
	}()
	return arrived
}

func TestOneGatewaySendsAnotherDeliversAThirdSettles(t *testing.T) {
	t.Parallel()
	fleet := gateways(t, 3)
	a, b, c := fleet[0], fleet[1], fleet[2]
	queue := a.queue(nil)
	ctx, cancel := context.WithCancel(t.Context())
	arrived := b.stream(ctx, b.receiver(queue).ReceiveMessages)
	defer func() { cancel(); <-arrived }()
	s := a.attached(queue)
	b.hasReceiver(queue)
	a.rings(
		func(i int) { a.post(s, &azservicebus.Message{Body: fmt.Append(nil, i)}) }, arrived,
		func(m *azservicebus.ReceivedMessage) { c.completeByToken(queue, m) },
	)
	for _, e := range fleet {
		if n := e.runtime(queue).TotalMessageCount; n != 0 {
			t.Errorf("%d messages are left", n)
		}
	}
}

func TestSessionHolderIsWokenByMessagesOfOtherGateways(t *testing.T) {
	t.Parallel()
	fleet := gateways(t, 2)
	a, b := fleet[0], fleet[1]
	queue := a.queue(withSessions())
	held := b.accept(queue, "s")
	ctx, cancel := context.WithCancel(t.Context())
	arrived := b.stream(ctx, held.ReceiveMessages)
	defer func() { cancel(); <-arrived }()
	s := a.attached(queue)
	a.rings(
		func(i int) { a.post(s, &azservicebus.Message{Body: fmt.Append(nil, i), SessionID: new("s")}) }, arrived,
		func(m *azservicebus.ReceivedMessage) { held.complete(m) },
	)
}

// numbersOf are the texts of numbers from one up to and including another.
func numbersOf(first, last int) (texts []string) {
	for n := first; n <= last; n++ {
		texts = append(texts, fmt.Sprint(n))
	}
	return texts
}

func TestASessionLosesNothingWithItsGateway(t *testing.T) {
	t.Parallel()
	fleet := gateways(t, 2)
	a, b := fleet[0], fleet[1].inVirtualTime()
	a.namespace = b.namespace
	queue := b.queue(withSessions())
	a.sendTo(queue, "s", numbersOf(1, 20)...)
	held := a.accept(queue, "s")
	ms := held.take(6)
	held.complete(ms[:4]...)
	a.gw.kill()
	b.sendTo(queue, "s", numbersOf(21, 25)...)
	_, err := b.client().AcceptSessionForQueue(b.ctx(), queue, "s", nil)
	b.wantCondition(err, "com.microsoft:session-cannot-be-locked") // before the lock ends
	b.moveClock(`{"set": "` + held.LockedUntil().Add(core.SessionGrace).Format(time.RFC3339Nano) + `"}`)
	next := b.next(queue)
	if next.SessionID() != "s" {
		t.Errorf("session %q was accepted", next.SessionID())
	}
	ms = next.take(21)
	if got, want := bodies(ms), numbersOf(5, 25); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for i, m := range ms {
		if want := map[bool]uint32{true: 2, false: 1}[i < 2]; m.DeliveryCount != want { // two had been delivered
			t.Errorf("message %s: got delivery %d, want %d", m.Body, m.DeliveryCount, want)
		}
	}
	next.complete(ms...)
	if n := b.runtime(queue).TotalMessageCount; n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// handful is the number of messages a gateway moves at a time.
const handful = 200

// Two gateways forward, and one of them is killed: each message arrives once,
// and in order but for those that the dead one had in hand, which follow later,
// in order too.
func TestForwardingKeepsItsOrderWhenAGatewayDies(t *testing.T) {
	t.Parallel()
	fleet := gateways(t, 2)
	a, b := fleet[0], fleet[1]
	dest := b.queue(nil)
	queue := b.queue(forwarding(dest))
	s := b.sender(queue)
	const batches, each = 40, 25
	for first := 0; first < batches*each; first += each {
		batch, err := s.NewMessageBatch(b.ctx(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range each {
			if err := batch.AddMessage(&azservicebus.Message{Body: fmt.Append(nil, first+i)}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.SendMessageBatch(b.ctx(), batch, nil); err != nil {
			t.Fatal(err)
		}
		if first == batches*each/2 {
			a.gw.kill()
		}
	}
	b.afterDeath("all arrive", func() bool { return b.runtime(dest).ActiveMessageCount >= batches*each })
	onTime, late := -1, []int{} // the last on time; those that came after it
	seen := map[int]bool{}
	for _, m := range b.everything(b.receiver(dest)) {
		var n int
		if _, err := fmt.Sscan(string(m.Body), &n); err != nil || seen[n] {
			t.Errorf("message %q arrived again, %v", m.Body, err)
		}
		if seen[n] = true; n > onTime {
			onTime = n
		} else {
			late = append(late, n)
		}
	}
	if len(seen) != batches*each {
		t.Errorf("got %d different messages, want %d", len(seen), batches*each)
	}
	t.Logf("%d messages came late", len(late))
	if len(late) > handful || !slices.IsSorted(late) {
		t.Errorf("messages out of order: %v", late)
	}
	// What the dead one had moved but not yet taken off is tried once more.
	b.afterDeath("none are left where they came from", func() bool { return b.runtime(queue).TotalMessageCount == 0 })
	if n := b.runtime(dest).TotalMessageCount; n != batches*each {
		t.Errorf("%d messages are there in the end, want %d", n, batches*each)
	}
}

// Messages that are scheduled on a topic become due everywhere at once.
func TestScheduledMessagesAreFannedOutOnce(t *testing.T) {
	t.Parallel()
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprint("a gateway dies ", dies), func(t *testing.T) {
			t.Parallel()
			fleet := gateways(t, 2)
			a, b := fleet[0], fleet[1]
			topic := b.topic(nil)
			b.subscribe(topic, "all", nil)
			b.subscribe(topic, "few", nil, matching("r", "n < 10"))
			due := time.Now().Add(4 * time.Second).Truncate(time.Second)
			const each = 150
			for i, e := range fleet {
				var ms []*azservicebus.Message
				for n := i * each; n < (i+1)*each; n++ {
					ms = append(ms, &azservicebus.Message{Body: fmt.Append(nil, n), ApplicationProperties: map[string]any{"n": int64(n)}})
				}
				if _, err := e.sender(topic).ScheduleMessages(e.ctx(), ms, due, nil); err != nil {
					t.Fatal(err)
				}
			}
			if dies {
				// At any moment of the work, or about then.
				time.Sleep(time.Until(due) + time.Duration(time.Now().UnixNano()%int64(40*time.Millisecond))) // random moments are what this is about
				a.gw.kill()
			}
			for name, want := range map[string]int{"all": 2 * each, "few": 10} {
				b.afterDeath("all copies are there", func() bool {
					return int(b.subscriptionRuntime(topic, name).ActiveMessageCount) >= want
				})
			}
			time.Sleep(silence) // and no more come: a busy machine may miss one that is late, and fails nothing
			for name, want := range map[string]int{"all": 2 * each, "few": 10} {
				copies := map[string]int{}
				for _, m := range b.everything(b.subscriber(topic, name)) {
					if copies[string(m.Body)]++; copies[string(m.Body)] > 1 {
						t.Errorf("%s: another copy of message %s", name, m.Body)
					}
					if m.EnqueuedTime.Before(due) {
						t.Errorf("%s: message %s came %v early", name, m.Body, due.Sub(*m.EnqueuedTime))
					}
				}
				if len(copies) != want {
					t.Errorf("%s: got %d different messages, want %d", name, len(copies), want)
				}
			}
		})
	}
}

// A gateway hands its own messages to its own receivers only while no other gateway waits, so that
// the receivers of all gateways get their share of what one gateway's clients send.
func TestReceiversOfAnotherGatewayGetTheirShare(t *testing.T) {
	t.Parallel()
	const messages = 300
	es := gateways(t, 2)
	queue := es[0].queue(nil)
	type arrival struct{ at, n int }
	arrived := make(chan arrival, messages)
	for at, e := range es {
		r := e.receiver(queue)
		go func() {
			for {
				ms, err := r.ReceiveMessages(e.ctx(), 5, nil)
				if err != nil {
					return
				}
				for _, m := range ms {
					if err := r.CompleteMessage(e.ctx(), m, nil); err != nil {
						t.Errorf("complete: %v", err)
					}
				}
				arrived <- arrival{at, len(ms)}
			}
		}()
	}
	s := es[0].sender(queue)
	for i := range messages {
		es[0].post(s, &azservicebus.Message{Body: fmt.Append(nil, i)})
	}
	got := [2]int{}
	for got[0]+got[1] < messages {
		select {
		case a := <-arrived:
			got[a.at] += a.n
		case <-time.After(patience):
			t.Fatalf("got %v of %d messages", got, messages)
		}
	}
	if got[1] < messages/3 {
		t.Errorf("the receivers got %v, want at least a third for the other gateway", got)
	}
}
