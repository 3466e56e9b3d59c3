package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

// background runs a command until the test calls stop, which returns its exit code.
func (g *gateway) background(t *testing.T, args ...string) (out, errs *output, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, errs, end := g.begin(ctx, t, args...)
	stop = func() int { cancel(); return end() }
	t.Cleanup(func() { stop() })
	return out, errs, stop
}

// begin runs a command beside the test. The test calls end to wait for the command and get its exit code.
func (g *gateway) begin(ctx context.Context, t *testing.T, args ...string) (out, errs *output, end func() int) {
	t.Helper()
	out, errs = newOutput(), newOutput()
	exit := make(chan int, 1)
	environ := []string{"CROSSTOWN_CONNECTION_STRING=" + g.connection, "CROSSTOWN_DATA=" + g.data}
	go func() { exit <- run(ctx, args, strings.NewReader(""), out, errs, environ) }()
	return out, errs, func() int {
		select {
		case code := <-exit:
			exit <- code
			return code
		case <-time.After(patience):
			t.Fatalf("crosstown %s does not end: %s", strings.Join(args, " "), errs)
			return 0
		}
	}
}

// waitFor waits until a command has printed a text.
func waitFor(t *testing.T, o *output, want string) {
	t.Helper()
	deadline := time.After(patience)
	for !strings.Contains(o.String(), want) {
		select {
		case <-o.written:
		case <-deadline:
			t.Fatalf("lacks %q: %s", want, o)
		}
	}
}

func TestMessagesAreFollowed(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--config", write(t, "c.yaml", operatedEntities))
	g.command(t, "first\nsecond\nthird\n", "send", "orders", "--property=n=1")
	tail, _, endTail := g.background(t, "tail", "orders", "--last=2")
	waitFor(t, tail, "third")
	if strings.Contains(tail.String(), "first") {
		t.Errorf("tail prints more than the last two: %s", tail)
	}
	g.command(t, "", "send", "orders", "fourth")
	waitFor(t, tail, "fourth\n")
	if code := endTail(); code != exitOK {
		t.Errorf("tail: exit code %d", code)
	}
	if got := bodies(g.command(t, "", "tail", "orders", "--last=9", "--count=3")); got != "first second third" {
		t.Errorf("tail --count: got %q", got)
	}
	received, _, endReceive := g.background(t, "receive", "orders", "--follow")
	waitFor(t, received, "fourth")
	g.command(t, "", "send", "orders", "fifth")
	waitFor(t, received, "fifth")
	if code := endReceive(); code != exitOK || bodies(received.String()) != "first second third fourth fifth" {
		t.Errorf("receive --follow: exit code %d, %q", code, bodies(received.String()))
	}
	g.exits(t, exitNothing, []string{"peek", "orders"}, "there is no message")
	sessions, _, endSessions := g.background(t, "receive", "replies", "--follow", "--next-session", "--count=3")
	for _, s := range []string{"a", "b", "c"} {
		g.command(t, "", "send", "replies", "of-"+s, "--session", s)
		waitFor(t, sessions, "of-"+s)
	}
	if code := endSessions(); code != exitOK {
		t.Errorf("receive --follow --next-session: exit code %d", code)
	}
}

// What scripts need of a request and its reply: send and receive have it.
func TestSendAndReceiveMakeARequestAndItsReply(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--config", write(t, "c.yaml", operatedEntities))
	g.command(t, "", "send", "orders", "hello", "--message-id=r1", "--reply-to=replies", "--reply-to-session=c7")
	g.exits(t, exitOK, []string{"receive", "orders", "--json"}, `"messageId":"r1"`, `"replyTo":"replies"`, `"replyToSessionId":"c7"`)
	g.command(t, "", "send", "replies", "HELLO", "--correlation-id=r1", "--session=c7")
	if got := g.exits(t, exitOK, []string{"receive", "replies", "--session=c7"}, "correlation id: r1"); bodies(got) != "HELLO" {
		t.Errorf("got %q", got)
	}
}

func TestRulesAreTestedOnTheCommandLine(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--config", write(t, "c.yaml", operatedEntities))
	g.command(t, "", "rule", "create", "events", "eu", "big", "--sql=body.total > 100 AND sys.ContentType = 'application/json'", "--action=SET big = TRUE")
	g.exits(t, exitOK, []string{"rule", "test", "events", "--property=region=eu"}, "eu  eu  matches", "region = 'eu' is true", "all  $Default  matches", "eu  big  does not match")
	g.exits(t, exitOK, []string{"rule", "test", "events", "eu", "--body", `{"total":250}`, "--broker=content-type=application/json", "--json"}, `"rule":"big","matched":true`, `"big":true`)
	g.exits(t, exitNothing, []string{"rule", "test", "events/Subscriptions/eu", "--property=region=us"}, "none of the rules matches (number of rules: 2)")
	g.command(t, "", "send", "orders", "x", "--property=region=eu")
	line := g.command(t, "", "peek", "orders", "--json")
	if code, out, errs := g.try(t, g.connection, line, "rule", "test", "events", "eu", "--record=-"); code != exitOK || !strings.Contains(out, "eu  eu  matches") {
		t.Errorf("a record: got %d %s%s", code, out, errs)
	}
}
