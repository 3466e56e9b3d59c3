package interop

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// KEDA's scaler azure-servicebus asks for the runtime properties of a queue or of a subscription, or lists all of them and
// picks names by a pattern. It is not imported here: its package needs those of all other scalers and of Kubernetes.
func TestCallsOfKEDAsScaler(t *testing.T) {
	onEachEngine(t, func(s *story) {
		const orders, returns, topic = "keda-orders", "keda-returns", "keda-topic"
		c := s.admin()
		made := func(_ any, err error) {
			s.Helper()
			if err != nil {
				s.Fatal(err)
			}
		}
		for i := range 100 { // a page; the queues of the test follow it
			made(c.CreateQueue(s.Context(), fmt.Sprintf("another-%d", i), nil))
		}
		for _, queue := range []string{orders, returns, "keda-orders-old"} {
			made(c.CreateQueue(s.Context(), queue, nil))
		}
		made(c.CreateTopic(s.Context(), topic, nil))
		for _, subscription := range []string{"all", "almost-all", "all-else"} {
			made(c.CreateSubscription(s.Context(), topic, subscription, nil))
		}
		client, err := azservicebus.NewClientFromConnectionString(s.connection(), nil)
		if err != nil {
			s.Fatal(err)
		}
		defer func() { _ = client.Close(s.Context()) }()
		s.send(client, orders, 6)
		s.send(client, returns, 2)
		s.send(client, topic, 3)
		s.useUp(client, orders)

		for name, want := range map[string]int32{orders: 4, returns: 2, "keda-orders-old": 0} { // one of the 4 is locked, one is deferred
			got, err := c.GetQueueRuntimeProperties(s.Context(), name, nil)
			if err != nil || got == nil || got.ActiveMessageCount != want {
				s.Errorf("queue %s: got %+v, error %v; want %d active messages", name, got, err, want)
			}
		}
		if got, err := c.GetQueueRuntimeProperties(s.Context(), "keda-missing", nil); got != nil || err != nil {
			s.Errorf("a missing queue: got %+v, error %v; want neither", got, err)
		}
		if got, err := c.GetSubscriptionRuntimeProperties(s.Context(), topic, "all", nil); err != nil || got == nil || got.ActiveMessageCount != 3 {
			s.Errorf("a subscription: got %+v, error %v; want 3 active messages", got, err)
		}
		for _, topic := range []string{topic, "keda-missing"} {
			if got, err := c.GetSubscriptionRuntimeProperties(s.Context(), topic, "missing", nil); got != nil || err != nil {
				s.Errorf("a missing subscription of topic %s: got %+v, error %v; want neither", topic, got, err)
			}
		}

		queues := map[string]int32{}
		for pager := c.NewListQueuesRuntimePropertiesPager(nil); pager.More(); {
			page, err := pager.NextPage(s.Context())
			if err != nil {
				s.Fatal(err)
			}
			for _, q := range page.QueueRuntimeProperties {
				if whole("keda-(orders|returns)", q.QueueName) {
					queues[q.QueueName] = q.ActiveMessageCount
				}
			}
		}
		if want := map[string]int32{orders: 4, returns: 2}; !maps.Equal(queues, want) {
			s.Errorf("queues by a pattern: got %v, want %v", queues, want)
		}
		subscriptions := map[string]int32{}
		for pager := c.NewListSubscriptionsRuntimePropertiesPager(topic, nil); pager.More(); {
			page, err := pager.NextPage(s.Context())
			if err != nil {
				s.Fatal(err)
			}
			for _, sub := range page.SubscriptionRuntimeProperties {
				if whole(".*all", sub.SubscriptionName) {
					subscriptions[sub.SubscriptionName] = sub.ActiveMessageCount
				}
			}
		}
		if want := map[string]int32{"all": 3, "almost-all": 3}; !maps.Equal(subscriptions, want) {
			s.Errorf("subscriptions by a pattern: got %v, want %v", subscriptions, want)
		}
	})
}

// whole is whether a pattern's leftmost longest match is all of a name.
func whole(pattern, name string) bool {
	p := regexp.MustCompile(pattern)
	p.Longest()
	return p.FindString(name) == name
}

func (s *story) send(client *azservicebus.Client, entity string, n int) {
	s.Helper()
	sender, err := client.NewSender(entity, nil)
	if err != nil {
		s.Fatal(err)
	}
	for range n {
		if err := sender.SendMessage(s.Context(), &azservicebus.Message{Body: []byte("work")}, nil); err != nil {
			s.Fatalf("send to %s: %v", entity, err)
		}
	}
}

// useUp completes, defers and dead-letters one message of a queue each, keeps a fourth locked, and schedules another.
func (s *story) useUp(client *azservicebus.Client, queue string) {
	s.Helper()
	sender, err := client.NewSender(queue, nil)
	if err != nil {
		s.Fatal(err)
	}
	if _, err := sender.ScheduleMessages(s.Context(), []*azservicebus.Message{{Body: []byte("later")}}, time.Now().Add(time.Hour), nil); err != nil {
		s.Fatal(err)
	}
	receiver, err := client.NewReceiverForQueue(queue, nil)
	if err != nil {
		s.Fatal(err)
	}
	var ms []*azservicebus.ReceivedMessage
	for len(ms) < 4 {
		got, err := receiver.ReceiveMessages(s.Context(), 4-len(ms), nil)
		if err != nil {
			s.Fatalf("receive from %s: %v", queue, err)
		}
		ms = append(ms, got...)
	}
	if err := errors.Join(
		receiver.CompleteMessage(s.Context(), ms[0], nil),
		receiver.DeferMessage(s.Context(), ms[1], nil),
		receiver.DeadLetterMessage(s.Context(), ms[2], nil),
	); err != nil {
		s.Fatal(err)
	}
}
