package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

func TestScheduledAndDeferredMessagesAreFoundBehindOthers(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, g *gateway) {
		g.deferOne(t, "orders", "")
		g.command(t, "", "send", "orders", "x", "--count=600")
		g.command(t, "", "send", "orders", "later", "--schedule=1h", "--property=n=1")
		g.command(t, "", "send", "orders", "latest", "--schedule=2h", "--property=n=2")
		g.exits(t, exitOK, []string{"scheduled", "list", "orders"}, "DUE", "later", "latest")
		g.exits(t, exitOK, []string{"scheduled", "list", "orders", "--where", "n = 2"}, "latest")
		g.exits(t, exitNothing, []string{"scheduled", "list", "parts"})
		g.exits(t, exitOK, []string{"deferred", "list", "orders", "--json"}, `"state":"deferred"`, `"body":"d"`)
		g.exits(t, exitUsage, []string{"scheduled", "cancel", "orders"}, "--all")
		g.exits(t, exitUsage, []string{"scheduled", "cancel", "orders", "--all"}, "--yes")
		g.exits(t, exitOK, []string{"scheduled", "cancel", "orders", "--property=n=1", "--yes"}, "cancelled 1 message of orders")
		g.exits(t, exitOK, []string{"scheduled", "cancel", "orders", "--all", "--yes", "--json"}, `"cancelled":1`)
		g.exits(t, exitNothing, []string{"scheduled", "cancel", "orders", "--all", "--yes"}, "there is no message")
		g.exits(t, exitNothing, []string{"deferred", "receive", "orders", "--sequence-number=2"}, "no message matches")
		g.exits(t, exitOK, []string{"deferred", "receive", "orders", "--abandon"}, "deferred")
		g.exits(t, exitOK, []string{"deferred", "receive", "orders", "--sequence-number=1", "--dead-letter", "--reason=old"}, "#1")
		g.exits(t, exitOK, []string{"deadletter", "list", "orders", "--reason=old"}, "old")
		g.exits(t, exitUsage, []string{"deferred", "receive", "orders", "--reason=old"}, "--dead-letter")

		g.command(t, "", "send", "events", "e", "--schedule=1h", "--count=3")
		g.exits(t, exitOK, []string{"scheduled", "list", "events"}, "e")
		g.exits(t, exitOK, []string{"scheduled", "cancel", "events", "--all", "--yes"}, "cancelled 3 messages")

		for _, session := range []string{"a", "b"} {
			g.deferOne(t, "replies", session)
		}
		g.exits(t, exitOK, []string{"deferred", "list", "replies"}, "SESSION", "a", "b")
		if got := bodies(g.exits(t, exitOK, []string{"deferred", "receive", "replies"})); got != "d d" {
			t.Errorf("deferred in sessions: got %q", got)
		}
	})
}

func TestHeldMessagesAreActivated(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, g *gateway) {
		g.deferOne(t, "orders", "")
		g.exits(t, exitUsage, []string{"deferred", "activate", "orders"}, "--all")
		g.exits(t, exitOK, []string{"deferred", "activate", "orders", "--sequence-number=1"}, "activated 1 message of orders")
		g.exits(t, exitNothing, []string{"deferred", "activate", "orders", "--all"}, "there is no message")
		r, err := g.sdk(t).NewReceiverForQueue("orders", nil)
		if err != nil {
			t.Fatal(err)
		}
		ms, err := r.ReceiveMessages(t.Context(), 1, nil)
		if err != nil || ms[0].DeliveryCount != 2 || *ms[0].SequenceNumber != 1 {
			t.Fatalf("got %+v, %v, want the first message with its count", ms, err)
		}
		g.exits(t, exitOK, []string{"unlock", "orders", "--sequence-number=1"}, "unlocked 1 message of orders")
		g.exits(t, exitFailure, []string{"unlock", "orders", "--sequence-number=1"}, "1 message of orders could not be unlocked")
		g.exits(t, exitNothing, []string{"unlock", "orders", "--all"}, "no message is locked")
		g.exits(t, exitOK, []string{"receive", "orders"}, "d")

		g.command(t, "", "send", "orders", "later", "--schedule=1h", "--message-id=m")
		g.exits(t, exitUsage, []string{"scheduled", "activate", "orders", "--all", "--at=soon"}, "2026-12-24T18:00:00Z")
		g.exits(t, exitOK, []string{"scheduled", "activate", "orders", "--all", "--at=2100-01-01T00:00:00Z"}, "rescheduled 1 message of orders")
		g.exits(t, exitOK, []string{"scheduled", "list", "orders"}, "2100-01-01T00:00:00Z")
		g.exits(t, exitOK, []string{"scheduled", "activate", "orders", "--message-id=m", "--json"}, `"activated":1`)
		g.exits(t, exitOK, []string{"receive", "orders", "--json"}, `"messageId":"m"`)

		g.command(t, "", "send", "replies", "r", "--session=a")
		s, err := g.sdk(t).AcceptSessionForQueue(t.Context(), "replies", "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.ReceiveMessages(t.Context(), 1, nil); err != nil {
			t.Fatal(err)
		}
		g.exits(t, exitFailure, []string{"unlock", "replies", "--all"}, "a receiver has locked the message's session: unlock the session first")
		g.exits(t, exitOK, []string{"session", "unlock", "replies", "a"}, "unlocked session a of replies")
		g.exits(t, exitFailure, []string{"session", "unlock", "replies", "a"}, "no receiver has locked the session 'a'")
		g.exits(t, exitOK, []string{"receive", "replies", "--session=a", "--json"}, `"deliveryCount":1`)
	})
}

// deferOne sends a message and defers it.
func (g *gateway) deferOne(t *testing.T, queue, session string) {
	t.Helper()
	args := []string{"send", queue, "d"}
	if session != "" {
		args = append(args, "--session", session)
	}
	g.command(t, "", args...)
	g.deferNext(t, queue, session)
}

// deferNext defers the next message of a queue, or of a session.
func (g *gateway) deferNext(t *testing.T, queue, session string) {
	t.Helper()
	var r interface {
		ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
		DeferMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.DeferMessageOptions) error
		Close(context.Context) error
	}
	var err error
	if session == "" {
		r, err = g.sdk(t).NewReceiverForQueue(queue, nil)
	} else {
		r, err = g.sdk(t).AcceptSessionForQueue(t.Context(), queue, session, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close(t.Context()) }()
	ms, err := r.ReceiveMessages(t.Context(), 1, nil)
	if err == nil {
		err = r.DeferMessage(t.Context(), ms[0], nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryStateIsPurged(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, g *gateway) {
		fill := func(queue string, more ...string) {
			g.command(t, "", append([]string{"send", queue, "x", "--count=3"}, more...)...)
			g.command(t, "", append([]string{"send", queue, "later", "--schedule=1h", "--count=2"}, more...)...)
		}
		for _, queue := range []string{"orders", "parts"} {
			fill(queue)
			g.command(t, "", "receive", queue, "--dead-letter")
			if queue == "orders" {
				g.deferOne(t, queue, "")
			}
			g.exits(t, exitUsage, []string{"queue", "purge", queue}, "this would permanently remove all messages of "+queue, "--yes")
			g.exits(t, exitUsage, []string{"queue", "purge", queue, "--state=gone", "--yes"}, "--state", "dead-letter")
			g.exits(t, exitOK, []string{"queue", "purge", queue, "--state=scheduled", "--yes"}, "purged 2 messages from "+queue)
			g.command(t, "", "send", queue, "later", "--schedule=1h")
			g.exits(t, exitOK, []string{"queue", "purge", queue, "--state=all", "--yes"}, "1 scheduled, 1 dead-letter")
			g.exits(t, exitOK, []string{"queue", "purge", queue, "--state=all", "--yes", "--json"}, `"purged":0`)
		}
		fill("replies", "--session=a")
		fill("replies", "--session=b")
		g.deferOne(t, "replies", "c")
		g.exits(t, exitOK, []string{"queue", "purge", "replies", "--state=all", "--yes"}, "purged 11 messages from replies: 6 active, 1 deferred, 4 scheduled")

		g.command(t, "", "send", "events", "e", "--count=4")
		g.command(t, "", "receive", "events/Subscriptions/all", "--dead-letter")
		g.exits(t, exitOK, []string{"subscription", "purge", "events", "all", "--state=active,dead-letter", "--yes"}, "purged 4 messages from events/Subscriptions/all: 3 active, 1 dead-letter")
		g.exits(t, exitFailure, []string{"queue", "purge", "nope", "--yes"}, "nope")
	})
	g := startGateway(t, "--store=memory", "--config", write(t, "c.yaml", operatedEntities))
	away := g.notOurs(t)
	g.command(t, "", "send", "orders", "x", "--count=3")
	g.command(t, "", "send", "orders", "later", "--schedule=1h", "--count=300")
	g.deferOne(t, "orders", "")
	if code, out, errs := g.try(t, away, "", "queue", "purge", "orders", "--state=all", "--yes"); code != exitOK || !strings.Contains(out, "3 active, 1 deferred, 300 scheduled") {
		t.Errorf("another broker: got %d %s%s", code, out, errs)
	}
}

func TestPeekShowsEveryTypeAndChooses(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, g *gateway) {
		if code, _, errs := g.try(t, g.connection, fmt.Sprintf(typedOrder, 1)+"\n"+fmt.Sprintf(typedOrder, 2), "send", "orders", "--records"); code != exitOK {
			t.Fatal(errs)
		}
		g.exits(t, exitOK, []string{"peek", "orders", "--count=1"}, "d = 4822679907192029E-398 (decimal64)", "n = 1 (int)", "b = 5 (byte)", "at = 2031-01-02T03:04:05.678Z (timestamp)", "subject: order")
		if got := g.exits(t, exitOK, []string{"peek", "orders", "--where", "n = 2", "--json"}); strings.Count(got, "\n") != 1 || !strings.Contains(got, `{"$decimal64":"00112233aabbccdd"}`) {
			t.Errorf("chosen: %s", got)
		}
		g.exits(t, exitNothing, []string{"peek", "orders", "--state=deferred"}, "no message")
		g.exits(t, exitUsage, []string{"peek", "orders", "--state=gone"}, "--state")
		g.exits(t, exitOK, []string{"receive", "orders"}, "d = 4822679907192029E-398 (decimal64)", "n = 1 (int)", "b = 5 (byte)")
		for _, m := range []struct{ body, session string }{{"one", "a"}, {"two", "b"}, {"three", "A"}} {
			g.command(t, "", "send", "replies", m.body, "--session", m.session)
		}
		for args, want := range map[string]string{"": "one two three", "--session=a": "one three", "--next-session": "one three", "--session=c": ""} {
			code := exitOK
			if want == "" {
				code = exitNothing
			}
			if got := bodies(g.exits(t, code, append([]string{"peek", "replies"}, strings.Fields(args)...))); got != want {
				t.Errorf("peek %s: got %q, want %q", args, got, want)
			}
		}
		g.command(t, "", "receive", "replies", "--session=b", "--dead-letter", "--reason=bad")
		g.exits(t, exitOK, []string{"peek", "replies", "--dlq", "--json"}, `"deadLetterReason":"bad"`)
	})
}
