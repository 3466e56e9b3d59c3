package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"
)

// full returns a message with everything a producer may set.
func full() *azservicebus.Message {
	return &azservicebus.Message{
		Body:             []byte("payload \x00\xff"),
		ContentType:      new("application/json;charset=utf-8"),
		CorrelationID:    new("correlation"),
		MessageID:        new("message-id"),
		PartitionKey:     new("key"),
		ReplyTo:          new("reply-queue"),
		ReplyToSessionID: new("reply-session"),
		SessionID:        new("key"),
		Subject:          new("subject"),
		TimeToLive:       new(time.Hour),
		To:               new("destination"),
		ApplicationProperties: map[string]any{
			"text": "grüße", "int": int64(-5), "float": 1.5, "yes": true,
		},
	}
}

func TestEverythingAProducerSetsArrives(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		before := time.Now().Add(-time.Second) // the clocks of store and test may differ a little
		want := full()
		e.post(e.sender(queue), want)
		got := e.one(e.receiver(queue))

		if string(got.Body) != string(want.Body) || got.MessageID != *want.MessageID {
			e.Errorf("got body %q of message %q, want %q of %q", got.Body, got.MessageID, want.Body, *want.MessageID)
		}
		for _, p := range []struct {
			name      string
			got, want *string
		}{
			{"ContentType", got.ContentType, want.ContentType},
			{"CorrelationID", got.CorrelationID, want.CorrelationID},
			{"PartitionKey", got.PartitionKey, want.PartitionKey},
			{"ReplyTo", got.ReplyTo, want.ReplyTo},
			{"ReplyToSessionID", got.ReplyToSessionID, want.ReplyToSessionID},
			{"SessionID", got.SessionID, want.SessionID},
			{"Subject", got.Subject, want.Subject},
			{"To", got.To, want.To},
		} {
			if p.got == nil || *p.got != *p.want {
				e.Errorf("%s: got %v, want %q", p.name, p.got, *p.want)
			}
		}
		for k, v := range want.ApplicationProperties {
			if got.ApplicationProperties[k] != v {
				e.Errorf("property %s: got %#v, want %#v", k, got.ApplicationProperties[k], v)
			}
		}
		switch {
		case got.TimeToLive == nil || *got.TimeToLive != time.Hour:
			e.Errorf("TimeToLive: got %v, want 1h", got.TimeToLive)
		case got.SequenceNumber == nil || *got.SequenceNumber != 1:
			e.Errorf("SequenceNumber: got %v, want 1", got.SequenceNumber)
		case got.EnqueuedSequenceNumber == nil || *got.EnqueuedSequenceNumber != 1:
			e.Errorf("EnqueuedSequenceNumber: got %v, want 1", got.EnqueuedSequenceNumber)
		case got.EnqueuedTime == nil || got.EnqueuedTime.Before(before) || got.EnqueuedTime.After(time.Now().Add(time.Second)):
			e.Errorf("EnqueuedTime: got %v, want now", got.EnqueuedTime)
		case got.ExpiresAt == nil || !got.ExpiresAt.Equal(got.EnqueuedTime.Add(time.Hour)):
			e.Errorf("ExpiresAt: got %v, want an hour after %v", got.ExpiresAt, got.EnqueuedTime)
		case got.LockedUntil == nil || got.LockedUntil.Before(before.Add(50*time.Second)):
			e.Errorf("LockedUntil: got %v, want a minute from now", got.LockedUntil)
		case got.DeliveryCount != 1 || got.State != azservicebus.MessageStateActive:
			e.Errorf("got delivery %d in state %d, want the first, active", got.DeliveryCount, got.State)
		case got.LockToken == [16]byte{}:
			e.Error("there is no lock token")
		}
	})
}

func TestABatchIsStoredInOrder(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		s := e.sender(queue)
		batch, err := s.NewMessageBatch(e.ctx(), nil)
		if err != nil {
			e.Fatal(err)
		}
		var want []string
		for i := range 100 {
			want = append(want, fmt.Sprint("message ", i))
			if err := batch.AddMessage(&azservicebus.Message{Body: []byte(want[i])}, nil); err != nil {
				e.Fatal(err)
			}
		}
		if err := s.SendMessageBatch(e.ctx(), batch, nil); err != nil {
			e.Fatal(err)
		}
		r := e.receiver(queue)
		got := e.take(r, len(want))
		if !slices.Equal(bodies(got), want) {
			e.Errorf("got %q, want %q", bodies(got), want)
		}
		for i, m := range got {
			if *m.SequenceNumber != int64(i+1) {
				e.Errorf("message %d has sequence number %d: numbers have gaps", i+1, *m.SequenceNumber)
			}
		}
		e.complete(r, got...)
		e.nothing(r)
	})
}

func TestABatchWithABadMessageStoresNothing(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{EnablePartitioning: new(true)})
		s := e.sender(queue)
		batch, err := s.NewMessageBatch(e.ctx(), nil)
		if err != nil {
			e.Fatal(err)
		}
		for _, m := range []*azservicebus.Message{
			{Body: []byte("good"), PartitionKey: new("a")},
			{Body: []byte("bad"), PartitionKey: new("a"), SessionID: new("b")},
		} {
			if err := batch.AddMessage(m, nil); err != nil {
				e.Fatal(err)
			}
		}
		err = s.SendMessageBatch(e.ctx(), batch, nil)
		e.wantCondition(err, "amqp:not-allowed")
		e.nothing(e.receiver(queue))
		if r := e.runtime(queue); r.TotalMessageCount != 0 {
			e.Errorf("%d messages are stored, want none", r.TotalMessageCount)
		}
	})
}

func TestScheduledMessagesAreSeenAndCanBeCancelled(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		s, r := e.sender(queue), e.receiver(queue)
		due := time.Now().Add(time.Hour).UTC()
		numbers, err := s.ScheduleMessages(e.ctx(), []*azservicebus.Message{
			{Body: []byte("kept"), MessageID: new("1")}, {Body: []byte("cancelled"), MessageID: new("2")},
		}, due, nil)
		if err != nil || len(numbers) != 2 {
			e.Fatalf("schedule: got numbers %v, error %v", numbers, err)
		}
		e.post(s, &azservicebus.Message{Body: []byte("annotated"), ScheduledEnqueueTime: &due})

		browsed := e.peek(r, 0, 10)
		if len(browsed) != 3 {
			e.Fatalf("peek: got %q, want all three", bodies(browsed))
		}
		for _, m := range browsed {
			if m.State != azservicebus.MessageStateScheduled || m.ScheduledEnqueueTime == nil || !m.ScheduledEnqueueTime.Equal(due.Truncate(time.Millisecond)) {
				e.Errorf("peek %q: got state %d due %v, want scheduled for %v", m.Body, m.State, m.ScheduledEnqueueTime, due)
			}
		}
		if c := e.runtime(queue); c.ScheduledMessageCount != 3 || c.ActiveMessageCount != 0 {
			e.Errorf("got %d scheduled and %d active, want 3 and 0", c.ScheduledMessageCount, c.ActiveMessageCount)
		}
		if err := s.CancelScheduledMessages(e.ctx(), numbers[1:], nil); err != nil {
			e.Fatalf("cancel: %v", err)
		}
		if err := s.CancelScheduledMessages(e.ctx(), numbers[1:], nil); err == nil {
			e.Error("a second cancel succeeded")
		}
		if got := bodies(e.peek(r, 0, 10)); !slices.Equal(got, []string{"kept", "annotated"}) {
			e.Errorf("got %q, want all but the cancelled", got)
		}
		e.nothing(r)
	})
}

func TestScheduledMessagesComeWhenDue(t *testing.T) {
	everywhere(t, func(e *env) {
		e = e.inVirtualTime()
		queue := e.queue(nil)
		s, r := e.sender(queue), e.receiver(queue)
		due := e.now().Add(time.Hour).UTC()
		numbers, err := s.ScheduleMessages(e.ctx(), []*azservicebus.Message{{Body: []byte("asked")}}, due, nil)
		if err != nil {
			e.Fatal(err)
		}
		e.post(s, &azservicebus.Message{Body: []byte("annotated"), ScheduledEnqueueTime: &due})
		e.nothing(r)
		e.advance(time.Hour)
		got := e.take(r, 2)
		if bodies := bodies(got); !slices.Contains(bodies, "asked") || !slices.Contains(bodies, "annotated") {
			e.Errorf("got %q", bodies)
		}
		for _, m := range got {
			if m.EnqueuedTime.Before(due.Truncate(time.Millisecond)) {
				e.Errorf("%q: enqueued at %v, before it was due at %v", m.Body, m.EnqueuedTime, due)
			}
			if *m.SequenceNumber <= numbers[0] {
				e.Errorf("%q: activated as number %d, want one after that of scheduling, %d", m.Body, *m.SequenceNumber, numbers[0])
			}
		}
		e.complete(r, got...)
		e.nothing(r)
	})
}

func TestAWaitingReceiverLearnsOfASchedule(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		s, r := e.sender(queue), e.receiver(queue)
		e.nothing(r) // it has asked, and nothing was due
		due := time.Now().Add(time.Second)
		if _, err := s.ScheduleMessages(e.ctx(), []*azservicebus.Message{{Body: []byte("a")}}, due, nil); err != nil {
			e.Fatal(err)
		}
		e.one(r)
		if late := time.Since(due); late > patience/3 {
			e.Errorf("it came %v after it was due", late)
		}
	})
}

func TestDuplicatesAreDropped(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{
			RequiresDuplicateDetection: new(true), DuplicateDetectionHistoryTimeWindow: new("PT20S"),
		})
		s, r := e.sender(queue), e.receiver(queue)
		for _, m := range [][2]string{{"a", "1"}, {"a", "2"}, {"b", "3"}, {"a", "4"}} {
			e.post(s, &azservicebus.Message{MessageID: new(m[0]), Body: []byte(m[1])})
		}
		got := e.take(r, 2)
		if want := []string{"1", "3"}; !slices.Equal(bodies(got), want) {
			e.Errorf("got %q, want %q", bodies(got), want)
		}
		e.complete(r, got...)
		e.post(s, &azservicebus.Message{MessageID: new("a"), Body: []byte("5")})
		e.nothing(r) // a completed message's id counts too
	})
}

func TestAMessageTooLargeIsRefused(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		s := e.sender(queue)
		err := s.SendMessage(e.ctx(), &azservicebus.Message{Body: make([]byte, 257<<10)}, nil)
		if !errors.Is(err, azservicebus.ErrMessageTooLarge) {
			e.Errorf("the SDK: got %v, want %v", err, azservicebus.ErrMessageTooLarge)
		}
		e.post(s, &azservicebus.Message{Body: make([]byte, 255<<10)})

		// A client that does not look at the limit: a batch whose inner message is too large.
		raw, err := e.amqp().NewSender(e.ctx(), queue, nil)
		if err != nil {
			e.Fatal(err)
		}
		if got := raw.MaxMessageSize(); got != 256<<10 {
			e.Errorf("the attach says max-message-size %d, want %d", got, 256<<10)
		}
		if c := e.runtime(queue); c.ActiveMessageCount != 1 {
			e.Errorf("%d messages are stored, want 1", c.ActiveMessageCount)
		}
	})
}

func TestAFullQueueRefuses(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{MaxSizeInMegabytes: new(int32(1))})
		s := e.sender(queue)
		var err error
		for range 12 {
			if err = s.SendMessage(e.ctx(), &azservicebus.Message{Body: make([]byte, 200<<10)}, nil); err != nil {
				break
			}
		}
		e.wantCondition(err, "amqp:resource-limit-exceeded")
		stored := e.runtime(queue).ActiveMessageCount
		if stored < 4 || stored > 6 {
			e.Errorf("%d messages of 200 KiB fit into 1 MiB", stored)
		}
		r := e.receiver(queue)
		e.complete(r, e.take(r, 2)...)
		e.post(s, &azservicebus.Message{Body: make([]byte, 1<<10)}) // there is room again
	})
}

// fill sends messages of 200 KiB to a queue or topic, and has each dead-lettered by one delivery, until it is refused.
func (e *env) fill(entity string, r *azservicebus.Receiver) {
	e.Helper()
	s := e.sender(entity)
	for range 12 {
		if err := s.SendMessage(e.ctx(), &azservicebus.Message{Body: make([]byte, 200<<10)}, nil); err != nil {
			e.wantCondition(err, "amqp:resource-limit-exceeded")
			return
		}
		if err := r.AbandonMessage(e.ctx(), e.one(r), nil); err != nil {
			e.Fatal(err)
		}
	}
	e.Errorf("%s of 1 MiB takes dead letters without end", entity)
}

func TestDeadLettersFillAQueue(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{MaxSizeInMegabytes: new(int32(1)), MaxDeliveryCount: new(int32(1))})
		e.fill(queue, e.receiver(queue))
		if c := e.runtime(queue); c.DeadLetterMessageCount < 4 || c.DeadLetterMessageCount > 6 || c.SizeInBytes < 1<<20 || c.SizeInBytes > 3<<19 {
			e.Errorf("full with 1 MiB: got %d dead letters, size %d", c.DeadLetterMessageCount, c.SizeInBytes)
		}
		dead := e.deadLetters(queue)
		e.complete(dead, e.take(dead, 2)...)
		e.post(e.sender(queue), &azservicebus.Message{Body: make([]byte, 1<<10)}) // there is room again
	})
}

func TestDeadLettersOfSubscriptionsFillTheirTopic(t *testing.T) {
	onEachEngine(t, func(e *env) {
		topic := e.topic(&admin.TopicProperties{MaxSizeInMegabytes: new(int32(1))})
		e.subscribe(topic, "s", &admin.SubscriptionProperties{MaxDeliveryCount: new(int32(1))})
		e.fill(topic, e.subscriber(topic, "s"))
		size := func() int64 {
			got, err := e.admin().GetTopicRuntimeProperties(e.ctx(), topic, nil)
			if err != nil {
				e.Fatal(err)
			}
			return got.SizeInBytes
		}
		if got := size(); got < 1<<20 || got > 3<<19 {
			e.Errorf("full with 1 MiB: got size %d", got)
		}
		dead := e.subscriberWith(topic, "s", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
		e.complete(dead, e.take(dead, 2)...)
		e.post(e.sender(topic), &azservicebus.Message{Body: make([]byte, 1<<10)}) // there is room again
	})
}

func TestPartitionKeysPinAndSessionMustAgree(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{EnablePartitioning: new(true)})
		s, r := e.sender(queue), e.receiver(queue)
		const keys, each = 5, 6
		for n := range each {
			for k := range keys {
				e.post(s, &azservicebus.Message{PartitionKey: new(fmt.Sprint("key-", k)), Body: fmt.Append(nil, n)})
			}
		}
		for range 8 {
			e.post(s, &azservicebus.Message{Body: []byte("any")})
		}
		got := e.take(r, keys*each+8)
		partitions := map[string]int64{} // by key
		next := map[string]int{}
		spread := map[int64]bool{}
		for _, m := range got {
			p := *m.SequenceNumber >> 48
			if m.PartitionKey == nil || *m.PartitionKey == "" {
				spread[p] = true
				continue
			}
			k := *m.PartitionKey
			if q, ok := partitions[k]; ok && p != q {
				e.Errorf("%s is in partitions %d and %d", k, p, q)
			}
			partitions[k] = p
			if want := fmt.Sprint(next[k]); string(m.Body) != want {
				e.Errorf("%s: got message %s, want %s", k, m.Body, want)
			}
			next[k]++
		}
		if len(spread) < 2 {
			e.Errorf("8 messages without a key went to %d partitions", len(spread))
		}
		e.complete(r, got...)

		err := s.SendMessage(e.ctx(), &azservicebus.Message{SessionID: new("a"), PartitionKey: new("b")}, nil)
		e.wantCondition(err, "amqp:not-allowed")
	})
}

func TestARequestFindsItsReply(t *testing.T) {
	everywhere(t, func(e *env) {
		requests, replies := e.queue(nil), e.queue(nil)
		e.post(e.sender(requests), &azservicebus.Message{MessageID: new("r1"), ReplyTo: new(replies), ReplyToSessionID: new("s1")})
		r := e.receiver(requests)
		request := e.one(r)
		e.post(e.sender(*request.ReplyTo), &azservicebus.Message{CorrelationID: &request.MessageID, SessionID: request.ReplyToSessionID})
		e.complete(r, request)
		reply := e.one(e.receiver(replies))
		if reply.CorrelationID == nil || *reply.CorrelationID != "r1" || reply.SessionID == nil || *reply.SessionID != "s1" {
			e.Errorf("got correlation %v and session %v, want r1 and s1", reply.CorrelationID, reply.SessionID)
		}
	})
}

func TestAMessageWithoutIDGetsOne(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		s, err := e.amqp().NewSender(e.ctx(), queue, nil)
		if err != nil {
			e.Fatal(err)
		}
		if err := s.Send(e.ctx(), amqp.NewMessage(nil), nil); err != nil {
			e.Fatal(err)
		}
		m := e.one(e.receiver(queue))
		if m.MessageID == "" || len(m.Body) != 0 {
			e.Errorf("got id %q and body %q, want an id and an empty body", m.MessageID, m.Body)
		}
	})
}

func TestNamesWithSlashesAndTildes(t *testing.T) {
	everywhere(t, func(e *env) {
		name := e.name() + "/Orders~eu/v1.0_x-y"
		e.create(name, nil)
		e.send(strings.ToLower(name), "hello")
		r := e.receiver(strings.ToUpper(name)) // names are compared without regard to case
		m := e.one(r)
		e.complete(r, m)
		if got, err := e.admin().GetQueue(e.ctx(), name, nil); err != nil || got == nil {
			e.Errorf("get %s: %v %v", name, got, err)
		}
	})
}
