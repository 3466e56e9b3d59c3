package e2e

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// fleet starts two gateways on one Redis.
func fleet(t *testing.T) (a, b *env) {
	t.Helper()
	r := redistest.Start(t, redistest.Options{AOF: "always"})
	return &env{T: t, gw: own(t, r.URL()), plain: true}, &env{T: t, gw: own(t, r.URL()), plain: true}
}

func TestGatewaysShareEverything(t *testing.T) {
	t.Parallel()
	a, b := fleet(t)
	queue := a.queue(nil) // created at one, known to the other at once
	rb := b.receiver(queue)
	waiting := beside(b, func() *azservicebus.ReceivedMessage {
		ms, err := rb.ReceiveMessages(b.ctx(), 1, nil)
		if err != nil {
			b.Fatal(err)
		}
		return ms[0]
	})
	b.hasReceiver(queue)
	a.send(queue, "hello")
	m, ok := <-waiting
	if !ok {
		return
	}
	a.nothing(a.receiver(queue)) // its lock holds everywhere
	a.completeByToken(queue, m)  // any gateway settles any token
	b.wantLockLost(queue, m)

	// A change of settings holds at both, links and all.
	sb := b.sender(queue)
	b.post(sb, &azservicebus.Message{})
	got, err := a.admin().GetQueue(a.ctx(), queue, nil)
	if err != nil || got == nil {
		t.Fatal(err)
	}
	status := admin.EntityStatusSendDisabled
	got.Status = &status
	if _, err := a.admin().UpdateQueue(a.ctx(), queue, got.QueueProperties, nil); err != nil {
		t.Fatal(err)
	}
	b.eventually("the other gateway refuses to send", func() bool {
		return sb.SendMessage(b.ctx(), &azservicebus.Message{}, nil) != nil
	})
}

func TestAStoppingGatewayLosesNothing(t *testing.T) {
	t.Parallel()
	for name, websocket := range map[string]bool{"tcp": false, "websocket": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stopUnderLoad(t, websocket)
		})
	}
}

func stopUnderLoad(t *testing.T, websocket bool) {
	t.Helper()
	a, b := fleet(t)
	a.websocket = websocket
	queue := a.queue(nil)
	link, err := a.amqp().NewSender(a.ctx(), queue, nil)
	if err != nil {
		t.Fatal(err)
	}
	var acknowledged atomic.Int64
	var sending sync.WaitGroup
	for range 16 {
		sending.Go(func() {
			for link.Send(a.ctx(), amqp.NewMessage([]byte("x")), nil) == nil {
				acknowledged.Add(1)
			}
		})
	}
	a.eventually("messages flow", func() bool { return acknowledged.Load() > 200 })
	a.gw.stop()
	if a.gw.err != nil {
		t.Errorf("SIGTERM under load: got %v\n%s", a.gw.err, a.gw.log.String())
	}
	sending.Wait()
	// What was in flight at the end may be stored without its sender knowing.
	stored := int64(b.runtime(queue).ActiveMessageCount)
	if n := acknowledged.Load(); stored < n || stored > n+16 {
		t.Errorf("%d messages were acknowledged, %d are stored", n, stored)
	}
}

func TestAReceiversMessagesReturnWhenItsGatewayDies(t *testing.T) {
	t.Parallel()
	a, b := fleet(t)
	queue := a.queue(shortLock())
	a.send(queue, "x")
	m := a.one(a.receiver(queue))
	a.gw.kill()
	again := b.one(b.receiver(queue)) // once the lock has ended
	if again.DeliveryCount != 2 || *again.SequenceNumber != *m.SequenceNumber {
		t.Errorf("got message %d, delivery %d; want message %d, delivery 2", *again.SequenceNumber, again.DeliveryCount, *m.SequenceNumber)
	}
	if wait := time.Until(*m.LockedUntil); wait > 0 {
		t.Errorf("it came back %v before its lock ended", wait)
	}
}
