package e2e

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

func TestExpiredMessagesAreDropped(t *testing.T) {
	everywhere(t, func(e *env) {
		e = e.inVirtualTime()
		queue := e.queue(nil)
		s := e.sender(queue)
		e.post(s, &azservicebus.Message{Body: []byte("short"), TimeToLive: new(time.Second)})
		e.post(s, &azservicebus.Message{Body: []byte("long")})
		e.advance(time.Second)
		r := e.receiver(queue)
		if m := e.one(r); string(m.Body) != "long" {
			e.Errorf("got %q, want long", m.Body)
		}
		if c := e.runtime(queue); c.TotalMessageCount != 1 || c.DeadLetterMessageCount != 0 {
			e.Errorf("got %d messages, %d of them dead letters; want 1 and 0", c.TotalMessageCount, c.DeadLetterMessageCount)
		}
	})
}

func TestExpiredMessagesAreDeadLetteredWhereAsked(t *testing.T) {
	everywhere(t, func(e *env) {
		e = e.inVirtualTime()
		queue := e.queue(&admin.QueueProperties{DeadLetteringOnMessageExpiration: new(true)})
		e.post(e.sender(queue), &azservicebus.Message{Body: []byte("late"), TimeToLive: new(time.Second)})
		e.advance(time.Second)
		d := e.one(e.deadLetters(queue)) // no receiver looks at the queue itself meanwhile
		if string(d.Body) != "late" || d.DeadLetterReason == nil || *d.DeadLetterReason != "TTLExpiredException" {
			e.Errorf("got %q for reason %v", d.Body, d.DeadLetterReason)
		}
		if d.ExpiresAt == nil || !d.ExpiresAt.Equal(d.EnqueuedTime.Add(time.Second)) {
			e.Errorf("a dead letter keeps its times: got expiry %v of what was enqueued at %v", d.ExpiresAt, d.EnqueuedTime)
		}
	})
}

func TestTheEntityCapsTimeToLive(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{DefaultMessageTimeToLive: new("PT10M")})
		s := e.sender(queue)
		for _, tt := range []struct{ sent, want time.Duration }{
			{0, 10 * time.Minute}, {time.Hour, 10 * time.Minute}, {time.Minute, time.Minute},
		} {
			m := &azservicebus.Message{}
			if tt.sent > 0 {
				m.TimeToLive = &tt.sent
			}
			e.post(s, m)
			r := e.receiver(queue)
			got := e.one(r)
			if got.TimeToLive == nil || *got.TimeToLive != tt.want || !got.ExpiresAt.Equal(got.EnqueuedTime.Add(tt.want)) {
				e.Errorf("sent with %v: got %v until %v, want %v", tt.sent, got.TimeToLive, got.ExpiresAt, tt.want)
			}
			e.complete(r, got)
		}
	})
}

func TestALockedMessageOutlivesItsTime(t *testing.T) {
	onEachEngine(t, func(e *env) {
		e = e.inVirtualTime()
		queue := e.queue(nil)
		e.post(e.sender(queue), &azservicebus.Message{TimeToLive: new(5 * time.Second)})
		r := e.receiver(queue)
		m := e.one(r)
		e.advance(6 * time.Second)
		e.complete(r, m)
	})
}
