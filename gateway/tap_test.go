package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
	"github.com/crosstown-mq/crosstown/internal/variants"
)

// startTap runs crosstown record --tap until it records, and returns what it prints, and what ends it and
// returns its exit code.
func (g *gateway) startTap(t *testing.T, args string) (out, problems *output, end func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	exit := make(chan int, 1)
	out, problems = newOutput(), newOutput()
	go func() {
		exit <- run(ctx, strings.Fields("record --tap "+args), strings.NewReader(""), out, problems, []string{"CROSSTOWN_CONNECTION_STRING=" + g.connection})
	}()
	waiting, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for !strings.Contains(problems.String(), "recording the messages that are sent") {
		select {
		case <-problems.written:
		case <-waiting.Done():
			t.Fatalf("the tap does not open: %s", problems)
		}
	}
	return out, problems, func() int { cancel(); return <-exit }
}

// lines waits until so many lines are there.
func (o *output) lines(t *testing.T, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		if all := strings.SplitAfter(o.String(), "\n"); len(all) > n {
			return all[:len(all)-1]
		}
		select {
		case <-o.written:
		case <-ctx.Done():
			t.Fatalf("%d lines did not come:\n%s", n, o)
		}
	}
}

func TestATapMissesNothingThatIsReceivedAtOnce(t *testing.T) {
	t.Parallel()
	variants.Each(t, func(t *testing.T, store string) {
		t.Parallel()
		g := startGateway(t, "--store="+storeOf(t, store))
		for _, queue := range []string{"orders", "other", "copy", "original"} {
			g.command(t, "", "queue", "create", queue)
		}
		g.command(t, "", "topic", "create", "events")
		out, problems, end := g.startTap(t, "orders events original")
		c := g.sdk(t)
		r, err := c.NewReceiverForQueue("orders", &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		received := make(chan int)
		go func() {
			n := 0
			for n < 100 {
				ms, err := r.ReceiveMessages(ctx, 50, nil)
				if err != nil {
					t.Error(err)
					break
				}
				n += len(ms)
			}
			received <- n
		}()
		s, err := c.NewSender("orders", nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if err := s.SendMessage(ctx, &azservicebus.Message{Body: fmt.Append(nil, i)}, nil); err != nil {
				t.Fatal(err)
			}
		}
		<-received
		g.command(t, "", "send", "other", "not this one")
		g.command(t, "", "send", "events", "for no subscription") // the topic has no subscription
		if s, err = c.NewSender("original", nil); err != nil {
			t.Fatal(err)
		}
		for _, m := range awkward() {
			if err := s.SendAMQPAnnotatedMessage(ctx, m, nil); err != nil {
				t.Fatal(err)
			}
		}
		lines := out.lines(t, 109)
		// Taps of several entities are in no order.
		slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(entityOf(t, b), entityOf(t, a)) })
		for i := range 100 {
			if m := tapped(t, lines[i+8]); string(m.Body.Bytes) != fmt.Sprint(i) || m.SequenceNumber == 0 || m.EnqueuedTime.IsZero() {
				t.Errorf("line %d: got %s", i, lines[i+8])
			}
		}
		if code := end(); code != exitOK || len(lines) != 109 || !strings.Contains(problems.String(), "recorded 109 messages") || !strings.Contains(lines[108], "for no subscription") {
			t.Errorf("got %d, %d lines\n%s", code, len(lines), problems)
		}
		for i, m := range g.browse(t, "original") {
			got := tapped(t, lines[i]).Message
			if m.TimeToLive = got.TimeToLive; lineOf(t, got) != lineOf(t, m) {
				t.Errorf("message %d: got\n%s\nwant\n%s", i, lineOf(t, got), lineOf(t, m))
			}
		}
		g.command(t, strings.Join(lines[:8], ""), "replay", "--to", "copy", "--speed", "max")
		if n := g.active(t, "copy"); n != 8 {
			t.Errorf("%d messages were replayed", n)
		}
	}, "memory", "file", "redis")
}

// tapped is the message of a line.
func tapped(t *testing.T, line string) *core.Stored {
	t.Helper()
	var l record.Line
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		t.Fatal(err)
	}
	m, err := l.Stored()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// entityOf is the entity that a line names.
func entityOf(t *testing.T, line string) string {
	t.Helper()
	var l struct{ Entity string }
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		t.Fatal(err)
	}
	return l.Entity
}

func TestATapSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	g.command(t, "", "queue", "create", "orders")
	g.command(t, "", "topic", "create", "events")
	g.command(t, "", "subscription", "create", "events", "all")
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"none":                          {exitFailure, "could not be found"},
		"events/Subscriptions/all":      {exitUsage, "specify the queue or topic"},
		"orders/$DeadLetterQueue":       {exitUsage, "specify the queue or topic"},
		"orders --once":                 {exitUsage, "once"},
		"orders --new":                  {exitUsage, "new"},
		"orders events/$Transfer":       {exitUsage, "specify the queue or topic"},
		"orders --for 1ms":              {exitOK, "recorded 0 messages"},
		"orders events --for 1ms":       {exitOK, "recorded 0 messages"},
		"orders none --for 1m":          {exitFailure, "could not be found"},
		"orders --count -1":             {exitUsage, "--count"},
		"orders --connection-string=ab": {exitUsage, "connection string"},
	} {
		if code, _, stderr := g.try(t, g.connection, "", append([]string{"record", "--tap"}, strings.Fields(args)...)...); code != want.code || !strings.Contains(stderr, want.text) {
			t.Errorf("%s: got %d\n%s", args, code, stderr)
		}
	}
	out, _, end := g.startTap(t, "orders --count 2")
	g.command(t, "a\nb\nc\n", "send", "orders")
	if lines := out.lines(t, 2); len(lines) != 2 {
		t.Errorf("got %v", lines)
	}
	if code := end(); code != exitOK {
		t.Errorf("got %d", code)
	}
	_, problems, end := g.startTap(t, "orders")
	g.halt(t) // within its drain timeout
	waitFor(t, problems, "ended the recording of orders")
	if code := end(); code != exitFailure && code != exitOK {
		t.Errorf("got %d", code)
	}
}

func TestRepeatedMessagesAreNotInATap(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	g.command(t, "", "queue", "create", "orders", "--requires-duplicate-detection")
	out, _, end := g.startTap(t, "orders")
	for _, body := range []string{"first", "second"} {
		g.command(t, "", "send", "orders", body, "--message-id", "7")
	}
	g.command(t, "", "send", "orders", "later", "--schedule", "1h")
	lines := out.lines(t, 2)
	end()
	if len(lines) != 2 || !strings.Contains(lines[0], "first") || !strings.Contains(lines[1], `"`+core.Scheduled.String()) && !strings.Contains(lines[1], "scheduled") {
		t.Errorf("got %v", lines)
	}
}
