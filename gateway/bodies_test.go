package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/value"
)

// sendSections sends messages as their sections are encoded: go-amqp cannot encode every type, but carries
// encoded messages inside a batch.
func (g *gateway) sendSections(t *testing.T, queue string, ms ...[]value.Described) {
	t.Helper()
	s, err := g.dial(t).NewSender(t.Context(), queue, nil)
	if err != nil {
		t.Fatal(err)
	}
	batch := &goamqp.Message{Format: 0x80013700}
	for _, sections := range ms {
		var encoded []byte
		for _, section := range sections {
			if encoded, err = value.Append(encoded, section); err != nil {
				t.Fatal(err)
			}
		}
		batch.Data = append(batch.Data, encoded)
	}
	if err := s.Send(t.Context(), batch, nil); err != nil {
		t.Fatal(err)
	}
}

// otherBodies are messages whose body is not one data section, and properties as .NET sends a TimeSpan and a Uri.
func otherBodies(session string) [][]value.Described {
	described := func(name string, v any) value.Described {
		return value.Described{Descriptor: value.Symbol("com.microsoft:" + name), Value: v}
	}
	var all [][]value.Described
	for _, body := range [][]value.Described{
		{{Descriptor: uint64(0x77), Value: "a text as JMS sends it"}},
		{{Descriptor: uint64(0x77), Value: value.Map{{Key: "a", Value: int32(1)}, {Key: "b", Value: "two"}}}},
		{{Descriptor: uint64(0x76), Value: value.List{int32(1), value.Symbol("two"), nil}}},
		{{Descriptor: uint64(0x76), Value: value.List{true}}, {Descriptor: uint64(0x76), Value: value.List{false}}},
		{{Descriptor: uint64(0x75), Value: []byte("two ")}, {Descriptor: uint64(0x75), Value: []byte("sections")}},
		{},
	} {
		message := []value.Described{
			{Descriptor: uint64(0x74), Value: value.Map{
				{Key: "span", Value: described("timespan", int64(36_000_000_000))}, {Key: "link", Value: described("uri", "https://example.org/x")}, {Key: "empty", Value: ""},
			}},
		}
		if session != "" {
			properties := make(value.List, 11)
			properties[10] = session
			message = append([]value.Described{{Descriptor: uint64(0x73), Value: properties}}, message...)
		}
		all = append(all, append(message, body...))
	}
	return all
}

// held are the bodies and properties of the messages of an entity as they are encoded.
func (g *gateway) held(t *testing.T, entity string) (all []string) {
	t.Helper()
	for _, m := range g.browse(t, entity) {
		all = append(all, fmt.Sprintf("%d %x %x", m.Body.Kind, m.Body.Bytes, m.Properties.Encoded()))
	}
	return all
}

// What is received is gone: all of it must be printed, whatever the client that sent it.
func TestReceivedMessagesArePrintedWhole(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, g *gateway) {
		g.sendSections(t, "orders", otherBodies("")...)
		want := g.held(t, "orders")
		if len(want) != 6 {
			t.Fatalf("the queue has %d messages, want 6", len(want))
		}
		lines := g.command(t, "", "receive", "orders", "--count=6", "--json")
		g.exits(t, exitNothing, []string{"peek", "orders"})
		g.command(t, lines, "send", "archive", "--records")
		if got := g.held(t, "archive"); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("sent again: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for _, how := range [][]string{{"--complete"}, {"--mode=delete"}} {
			g.command(t, lines, "send", "gone", "--records")
			out := g.exits(t, exitOK, append([]string{"receive", "gone", "--count=6"}, how...),
				"span = 01:00:00 (com.microsoft:timespan)", "link = https://example.org/x (com.microsoft:uri)")
			if got := bodies(out); got != `a text as JMS sends it {"a":1,"b":"two"} [1,"two",null] [[true],[false]] two sections ` {
				t.Errorf("receive %s: got %q", how[0], got)
			}
			g.exits(t, exitNothing, []string{"peek", "gone"})
		}

		g.sendSections(t, "replies", otherBodies("s")...)
		want = g.held(t, "replies")
		lines = g.command(t, "", "receive", "replies", "--next-session", "--count=6", "--json")
		g.command(t, lines, "send", "replies", "--records")
		if got := g.held(t, "replies"); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("of a session: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		g.command(t, "", "receive", "replies", "--session=s", "--count=6")

		for _, session := range []string{"", "s"} {
			queue := map[string]string{"": "parts", "s": "replies"}[session]
			g.sendSections(t, queue, otherBodies(session)[:1]...)
			want := g.held(t, queue)
			g.deferNext(t, queue, session)
			lines := g.command(t, "", "deferred", "receive", queue, "--json")
			g.exits(t, exitNothing, []string{"peek", queue})
			g.command(t, lines, "send", queue, "--records")
			if got := g.held(t, queue); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("deferred in %s: got\n%s\nwant\n%s", queue, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	})
}

// Commands that move messages keep what no SDK can read, through a gateway and as any client does.
func TestBodiesOfEveryKindAreMoved(t *testing.T) {
	t.Parallel()
	g, other := startGateway(t, "--store=memory", "--config", write(t, "c.yaml", operatedEntities)), startGateway(t, "--store=memory", "--config", write(t, "c.yaml", operatedEntities))
	away := g.notOurs(t)
	g.sendSections(t, "orders", otherBodies("")...)
	want := strings.Join(g.held(t, "orders"), "\n")
	same := func(what string, g *gateway, entity string) {
		t.Helper()
		if got := strings.Join(g.held(t, entity), "\n"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
		}
	}
	for what, connection := range map[string]string{"by a gateway": g.connection, "as any client": away} {
		g.command(t, "", "receive", "orders", "--count=6", "--dead-letter", "--reason=x")
		if code, _, errs := g.try(t, connection, "", "deadletter", "resubmit", "orders", "--new-message-id"); code != exitOK {
			t.Fatalf("%s: %s", what, errs)
		}
		same("resubmitted "+what, g, "orders")
	}
	if code, _, errs := g.try(t, other.connection, "", "migrate", "--from", g.connection, "orders"); code != exitOK {
		t.Fatal(errs)
	}
	same("migrated", other, "orders")
	lines := other.command(t, "", "record", "orders", "--once")
	other.command(t, lines, "replay", "--speed=max", "--to=archive")
	same("recorded and replayed", other, "archive")
	if out := other.command(t, "", "queue", "purge", "archive", "--yes"); !strings.Contains(out, "purged 6 messages") {
		t.Errorf("purged: %s", out)
	}
}

// A header's time to live ends at 49.7 days.
func TestSendKeepsALongTimeToLive(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, g *gateway) {
		for ttl, want := range map[string]time.Duration{"49d": 49 * 24 * time.Hour, "60d": 60 * 24 * time.Hour, "106751d": 106751 * 24 * time.Hour, "forever": 0} {
			g.command(t, "", "send", "orders", ttl, "--ttl", ttl)
			g.command(t, "", "send", "orders", ttl, "--ttl", ttl, "--schedule=1h")
			var got []string
			for _, m := range g.browse(t, "orders") {
				if string(m.Body.Bytes) == ttl {
					got = append(got, m.TimeToLive.String())
				}
			}
			if len(got) != 2 || got[0] != want.String() || got[1] != want.String() {
				t.Errorf("--ttl %s: messages live for %v, want %v", ttl, got, want)
			}
		}
	})
}
