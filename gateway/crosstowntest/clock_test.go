package crosstowntest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// receive receives one message. The SDK returns no messages and no error when it finds that a connection
// is broken, and opens another with the next call.
func receive(tb testing.TB, r interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
},
) *azservicebus.ReceivedMessage {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), eventually.Bound)
	defer cancel()
	for {
		ms, err := r.ReceiveMessages(ctx, 1, nil)
		if err != nil {
			tb.Fatal(err)
		}
		if len(ms) > 0 {
			return ms[0]
		}
	}
}

func TestHoursPassInAMoment(t *testing.T) {
	t.Parallel()
	b := Start(t,
		Queue("orders", func(s *core.Settings) {
			s.LockDuration, s.DefaultMessageTimeToLive, s.DeadLetteringOnMessageExpiration = 5*time.Minute, 48*time.Hour, true
		}),
		Queue("onward"), Queue("forwards", func(s *core.Settings) { s.ForwardTo = "onward" }),
		Queue("sessions", func(s *core.Settings) { s.RequiresSession = true }),
	)
	b.Freeze()
	c := connect(t, b)
	send(t, c, "orders", "one")
	r, err := c.NewReceiverForQueue("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	first := receive(t, r)
	if want := b.Now().Add(5 * time.Minute); first.LockedUntil.Sub(want).Abs() > time.Millisecond {
		t.Errorf("locked until %v, want %v", first.LockedUntil, want)
	}

	b.Advance(5*time.Minute + time.Second) // the lock ends, and a receiver that waits gets the message again
	if again := receive(t, r); again.DeliveryCount != 2 {
		t.Errorf("delivery count %d, want 2", again.DeliveryCount)
	}
	var lost *azservicebus.Error
	if err := r.CompleteMessage(t.Context(), first, nil); !errors.As(err, &lost) || lost.Code != azservicebus.CodeLockLost {
		t.Errorf("complete under the first lock: got %v", err)
	}

	dead, err := c.NewReceiverForQueue("orders", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
	if err != nil {
		t.Fatal(err)
	}
	b.Advance(5*time.Minute + time.Second)
	b.Advance(48 * time.Hour)
	if m := receive(t, dead); *m.DeadLetterReason != core.ReasonExpired {
		t.Errorf("dead-lettered because of %q", *m.DeadLetterReason)
	}
	b.ExpectEmpty("orders")

	s, err := c.NewSender("forwards", nil)
	if err != nil {
		t.Fatal(err)
	}
	due := b.Now().Add(72 * time.Hour)
	if err := s.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("later"), ScheduledEnqueueTime: &due}, nil); err != nil {
		t.Fatal(err)
	}
	b.ExpectMessages("forwards", "later")
	b.Advance(72 * time.Hour)
	b.ExpectMessages("onward", "later")
	b.ExpectEmpty("forwards")

	id := "s"
	holder, err := c.AcceptSessionForQueue(t.Context(), "sessions", id, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Advance(2 * time.Minute)
	other, err := c.AcceptSessionForQueue(t.Context(), "sessions", id, nil)
	if err != nil {
		t.Fatalf("accept a session whose lock has ended: %v", err)
	}
	if err := holder.SetSessionState(t.Context(), []byte("x"), nil); err == nil {
		t.Error("the first holder has set the session's state")
	}
	_ = other.Close(t.Context())
}

func TestTimeIsSetForEachNamespaceAlone(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("onward"), Topic("news"), Subscription("news", "all", func(s *core.Settings) { s.ForwardTo = "onward" }))
	other := b.Namespace(t)
	b.Freeze()
	begin := time.Date(2030, 2, 28, 23, 59, 0, 0, time.UTC)
	b.SetTime(begin)
	if at := b.Now(); !at.Equal(begin) {
		t.Errorf("it is %v", at)
	}
	if ahead := time.Until(other.Now()); ahead > time.Minute {
		t.Errorf("the other namespace is %v ahead", ahead)
	}
	s, err := connect(t, b).NewSender("news", nil)
	if err != nil {
		t.Fatal(err)
	}
	due := begin.Add(24 * time.Hour)
	if err := s.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("tomorrow"), ScheduledEnqueueTime: &due}, nil); err != nil {
		t.Fatal(err)
	}
	b.SetTime(due)
	ds, err := b.messages("onward") // at once: what is due has been done
	if err != nil || len(ds) != 1 || !ds[0].EnqueuedTime.Equal(due) {
		t.Errorf("published and forwarded: %+v, %v", ds, err)
	}
}

func TestTimeFreezesAndResumes(t *testing.T) {
	t.Parallel()
	b := Start(t)
	b.Advance(time.Hour)
	if ahead := time.Until(b.Now()); ahead < 59*time.Minute || ahead > 61*time.Minute {
		t.Errorf("the clock is %v ahead", ahead)
	}
	b.Freeze()
	at, frozen := b.Now(), time.Now()
	eventually.True(t, "the machine's clock goes on", func() bool { return time.Since(frozen) > time.Millisecond })
	if now := b.Now(); !now.Equal(at) {
		t.Errorf("it went from %v to %v", at, now)
	}
	resumed := time.Now()
	b.Resume()
	eventually.True(t, "the clock goes on", func() bool { return b.Now().After(at) })
	if past := b.Now().Sub(at); past > time.Since(resumed)+time.Second {
		t.Errorf("it went on by %v in %v", past, time.Since(resumed))
	}
}
