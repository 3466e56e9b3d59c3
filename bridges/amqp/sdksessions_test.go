package amqp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/storetest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// sdkSessionful connects the official client to a bridge in front of the real broker, which has the session-aware queue
// "sessions" with locks of some duration.
func sdkSessionful(t *testing.T, lock time.Duration) *azservicebus.Client {
	t.Helper()
	return sdkSessionfulAt(t, lock, nil)
}

// sdkSessionfulAt is sdkSessionful with a clock.
func sdkSessionfulAt(t *testing.T, lock time.Duration, clock func() time.Time) *azservicebus.Client {
	t.Helper()
	addr, b := serveBrokerOn(t, memory.New(memory.Options{Clock: clock}), Options{}, func(b *broker.Broker) bridges.Front { return b })
	s := core.DefaultSettings(core.Queue)
	s.RequiresSession, s.LockDuration = true, lock
	if _, err := b.CreateEntity(t.Context(), rootIdentity, core.Queue, "sessions", s, nil); err != nil {
		t.Fatal(err)
	}
	return sdk(t, addr)
}

func sdkSendTo(t *testing.T, c *azservicebus.Client, id string, bodies ...string) {
	t.Helper()
	s, err := c.NewSender("sessions", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(sdkContext(t)) }()
	for _, body := range bodies {
		if err := s.SendMessage(sdkContext(t), &azservicebus.Message{SessionID: &id, Body: []byte(body)}, nil); err != nil {
			t.Fatalf("send %q: %v", body, err)
		}
	}
}

func sdkAccept(t *testing.T, c *azservicebus.Client, id string) *azservicebus.SessionReceiver {
	t.Helper()
	r, err := c.AcceptSessionForQueue(sdkContext(t), "sessions", id, nil)
	if err != nil {
		t.Fatalf("accept %q: %v", id, err)
	}
	return r
}

func sdkTake(t *testing.T, r *azservicebus.SessionReceiver, n int) []*azservicebus.ReceivedMessage {
	t.Helper()
	var got []*azservicebus.ReceivedMessage
	for len(got) < n {
		ms, err := r.ReceiveMessages(sdkContext(t), n-len(got), nil)
		if err != nil {
			t.Fatalf("receive after %d of %d: %v", len(got), n, err)
		}
		got = append(got, ms...)
	}
	return got
}

// sdkCode is the Code of an SDK error.
func sdkCode(err error) azservicebus.Code {
	if e, ok := errors.AsType[*azservicebus.Error](err); ok {
		return e.Code
	}
	return ""
}

func TestSDKReceivesFromNamedAndNextSession(t *testing.T) {
	t.Parallel()
	c := sdkSessionful(t, time.Minute)
	sdkSendTo(t, c, "a", "1", "2")
	sdkSendTo(t, c, "b", "3")
	named := sdkAccept(t, c, "a")
	if got := named.SessionID(); got != "a" {
		t.Errorf("named: got %q", got)
	}
	if left := time.Until(named.LockedUntil()); left < 50*time.Second || left > 70*time.Second {
		t.Errorf("locked for %v, want a minute", left)
	}
	next, err := c.AcceptNextSessionForQueue(sdkContext(t), "sessions", nil)
	if err != nil || next.SessionID() != "b" {
		t.Fatalf("next: got %v, %v", next, err)
	}
	for r, want := range map[*azservicebus.SessionReceiver][]string{named: {"1", "2"}, next: {"3"}} {
		ms := sdkTake(t, r, len(want))
		if got := bodies(ms); !slices.Equal(got, want) || *ms[0].SessionID != r.SessionID() {
			t.Errorf("got %v of %s, want %v of %s", got, *ms[0].SessionID, want, r.SessionID())
		}
		for _, m := range ms {
			if err := r.CompleteMessage(sdkContext(t), m, nil); err != nil {
				t.Errorf("complete: %v", err)
			}
		}
	}
}

// What the credit covers comes in order, however much more it is than a connection may have waiting.
func TestSDKReceivesLargeMessagesUnderManyCredits(t *testing.T) {
	t.Parallel()
	for _, session := range []string{"", "s"} {
		for _, c := range []struct{ messages, size int }{{256, 250_000}, {10, 10_000_000}} {
			t.Run(fmt.Sprintf("%d of %d bytes, session %q", c.messages, c.size, session), func(t *testing.T) {
				t.Parallel()
				addr, b := serveBroker(t, Options{})
				s := core.DefaultSettings(core.Queue)
				s.RequiresSession, s.MaxMessageSizeInKilobytes = session != "", core.MaxMessageSizeKB
				if _, err := b.CreateEntity(t.Context(), rootIdentity, core.Queue, "q", s, nil); err != nil {
					t.Fatal(err)
				}
				sender, err := b.OpenSender(t.Context(), rootIdentity, core.At("q"), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer sender.Close()
				body := make([]byte, c.size)
				for range c.messages {
					if a := sender.Send(t.Context(), [][]*core.Message{{{SessionID: session, Body: core.Body{Bytes: body}}}}); a[0].Err != nil {
						t.Fatal(a[0].Err)
					}
				}
				client := sdk(t, addr)
				var r interface {
					ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
				}
				if session == "" {
					r, err = client.NewReceiverForQueue("q", nil)
				} else {
					r, err = client.AcceptSessionForQueue(sdkContext(t), "q", session, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				ms, err := r.ReceiveMessages(sdkContext(t), c.messages, &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: eventually.Bound})
				if err != nil || len(ms) != c.messages {
					t.Fatalf("got %d messages, %v, want %d", len(ms), err, c.messages)
				}
				for i, m := range ms {
					if *m.SequenceNumber != int64(i+1) {
						t.Fatalf("got message %d in place of %d", *m.SequenceNumber, i+1)
					}
				}
			})
		}
	}
}

func TestSDKTimesOutWithoutASession(t *testing.T) {
	t.Parallel()
	c := sdkSessionful(t, time.Minute)
	// The gateway answers a twentieth before. A busy machine may be later than that, but not each time.
	eventually.True(t, "the SDK is told that no session came in time", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := c.AcceptNextSessionForQueue(ctx, "sessions", nil)
		if err == nil {
			t.Fatal("a session was accepted")
		}
		return sdkCode(err) == azservicebus.CodeTimeout
	})
}

func TestSDKSessionIsExclusiveUntilItIsClosed(t *testing.T) {
	t.Parallel()
	c := sdkSessionful(t, time.Minute)
	sdkSendTo(t, c, "a", "1")
	first := sdkAccept(t, c, "a")
	sdkTake(t, first, 1)
	if _, err := c.AcceptSessionForQueue(sdkContext(t), "sessions", "a", nil); err == nil {
		t.Error("a second holder was let in")
	}
	for range 20 { // it is free when close has returned
		if err := first.Close(sdkContext(t)); err != nil {
			t.Fatal(err)
		}
		first = sdkAccept(t, c, "a")
	}
	m := sdkTake(t, first, 1)[0]
	if string(m.Body) != "1" || m.DeliveryCount != 1 {
		t.Errorf("got %q, delivered for the %d. time; want 1 as if for the first", m.Body, m.DeliveryCount)
	}
}

func TestSDKSessionState(t *testing.T) {
	t.Parallel()
	c := sdkSessionful(t, time.Minute)
	r := sdkAccept(t, c, "a")
	if got, err := r.GetSessionState(sdkContext(t), nil); err != nil || got != nil {
		t.Errorf("at first: got %q, %v", got, err)
	}
	for _, want := range [][]byte{[]byte("one"), {}, []byte("two"), nil} {
		if err := r.SetSessionState(sdkContext(t), want, nil); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(sdkContext(t)); err != nil {
			t.Fatal(err)
		}
		r = sdkAccept(t, c, "a")
		if got, err := r.GetSessionState(sdkContext(t), nil); err != nil || string(got) != string(want) {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
}

func TestSDKSessionLockIsRenewedAndLost(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	c := sdkSessionfulAt(t, core.MinLockDuration, clock.Now)
	sdkSendTo(t, c, "a", "1")
	r := sdkAccept(t, c, "a")
	m := sdkTake(t, r, 1)[0]
	before := r.LockedUntil()
	if err := r.RenewSessionLock(sdkContext(t), nil); err != nil || r.LockedUntil().Before(before) {
		t.Errorf("renew: got %v until %v, from %v", err, r.LockedUntil(), before)
	}
	clock.Advance(core.MinLockDuration + core.SessionGrace)
	next, err := c.AcceptNextSessionForQueue(sdkContext(t), "sessions", nil)
	if err != nil {
		t.Fatal(err)
	}
	again := sdkTake(t, next, 1)[0]
	if string(again.Body) != "1" || again.DeliveryCount != 2 {
		t.Errorf("the next holder: got %q, delivered for the %d. time; want 1 for the second", again.Body, again.DeliveryCount)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // not so long that the SDK gets the session back
	defer cancel()
	if err := r.CompleteMessage(ctx, m, nil); err == nil {
		t.Error("a message was completed after the lock had expired")
	}
	if err := next.CompleteMessage(sdkContext(t), again, nil); err != nil {
		t.Errorf("complete by the next holder: %v", err)
	}
}

func TestSDKDefersAndPeeksInASession(t *testing.T) {
	t.Parallel()
	c := sdkSessionful(t, time.Minute)
	sdkSendTo(t, c, "a", "1", "2")
	sdkSendTo(t, c, "b", "3")
	r := sdkAccept(t, c, "a")
	m := sdkTake(t, r, 1)[0]
	if err := r.DeferMessage(sdkContext(t), m, nil); err != nil {
		t.Fatal(err)
	}
	peeked, err := r.PeekMessages(sdkContext(t), 10, nil)
	if got := bodies(peeked); err != nil || !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("peek: got %v, %v", got, err)
	}
	deferred, err := r.ReceiveDeferredMessages(sdkContext(t), []int64{*m.SequenceNumber}, nil)
	if err != nil || len(deferred) != 1 {
		t.Fatalf("deferred: got %v, %v", deferred, err)
	}
	if err := r.CompleteMessage(sdkContext(t), deferred[0], nil); err != nil {
		t.Errorf("complete: %v", err)
	}
}

func TestSDKRefusesAPlainReceiverOfASessionfulQueue(t *testing.T) {
	t.Parallel()
	c := sdkSessionful(t, time.Minute)
	r, err := c.NewReceiverForQueue("sessions", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReceiveMessages(sdkContext(t), 1, nil); err == nil {
		t.Error("it was let in")
	}
	s, err := c.NewSender("sessions", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMessage(sdkContext(t), &azservicebus.Message{Body: []byte("x")}, nil); err == nil {
		t.Error("a message without a session was taken")
	}
}

// Requests of many clients are answered over one reply queue, each in its own session.
func TestSDKMultiplexedReplies(t *testing.T) {
	t.Parallel()
	c := sdkSessionful(t, time.Minute)
	for i := range 5 {
		sdkSendTo(t, c, fmt.Sprint("client", i), fmt.Sprint("reply", i))
	}
	for i := range 5 {
		r := sdkAccept(t, c, fmt.Sprint("client", 4-i))
		if got, want := bodies(sdkTake(t, r, 1)), fmt.Sprint("reply", 4-i); got[0] != want {
			t.Errorf("client %d: got %v, want %s", 4-i, got, want)
		}
	}
}

func TestSDKSessionsOfASubscription(t *testing.T) {
	t.Parallel()
	addr, b := serveBroker(t, Options{})
	if _, err := b.CreateEntity(t.Context(), rootIdentity, core.Topic, "t", core.DefaultSettings(core.Topic), nil); err != nil {
		t.Fatal(err)
	}
	settings := core.DefaultSettings(core.Subscription)
	settings.RequiresSession = true
	if _, err := b.CreateEntity(t.Context(), rootIdentity, core.Subscription, core.SubscriptionPath("t", "s"), settings, nil); err != nil {
		t.Fatal(err)
	}
	c := sdk(t, addr)
	waiting := make(chan *azservicebus.SessionReceiver)
	go func() {
		defer close(waiting)
		if r, err := c.AcceptNextSessionForSubscription(sdkContext(t), "t", "s", nil); err != nil {
			t.Errorf("accept: %v", err)
		} else {
			waiting <- r
		}
	}()
	s, err := c.NewSender("t", nil)
	if err != nil {
		t.Fatal(err)
	}
	id := "a"
	if err := s.SendMessage(sdkContext(t), &azservicebus.Message{SessionID: &id, Body: []byte("1")}, nil); err != nil {
		t.Fatal(err)
	}
	r := <-waiting
	if r == nil {
		return
	}
	if got := bodies(sdkTake(t, r, 1)); r.SessionID() != "a" || got[0] != "1" {
		t.Errorf("got %v of %q, want 1 of a", got, r.SessionID())
	}
}
