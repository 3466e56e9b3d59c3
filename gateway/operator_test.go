package main

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

const operatedEntities = `
queues:
  - {name: orders, lock-duration: 10s, max-message-size-in-kilobytes: 1024}
  - {name: parts, enable-partitioning: true}
  - {name: replies, requires-session: true}
  - {name: archive}
  - {name: once, requires-duplicate-detection: true}
  - {name: intake, forward-to: gone}
  - {name: gone}
topics:
  - name: events
    subscriptions:
      - {name: eu, rules: [{name: eu, sql: "region = 'eu'"}]}
      - {name: all}
`

// onStores starts a gateway with the operated entities on each engine.
func onStores(t *testing.T, story func(t *testing.T, g *gateway)) {
	t.Helper()
	for name, store := range map[string]string{"memory": "memory", "file": "file", "redis": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if store == "" {
				store = redistest.Start(t, redistest.Options{}).URL()
			}
			story(t, startGateway(t, "--store="+store, "--config", write(t, "c.yaml", operatedEntities)))
		})
	}
}

// exits runs a command and wants its exit code, and texts in what it prints.
func (g *gateway) exits(t *testing.T, code int, args []string, wants ...string) string {
	t.Helper()
	got, out, errs := g.try(t, g.connection, "", args...)
	if got != code {
		t.Errorf("crosstown %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, out, errs)
	}
	for _, want := range wants {
		if !strings.Contains(out+errs, want) {
			t.Errorf("crosstown %s: lacks %q:\n%s%s", strings.Join(args, " "), want, out, errs)
		}
	}
	return out
}

// typedOrder has a property of each kind of type.
const typedOrder = `{"messageId":"m%d","state":"active","subject":"order","sessionId":"s","properties":{"region":"eu","n":{"$int":%[1]d},"b":{"$byte":5},"u":{"$uuid":"00112233-4455-6677-8899-aabbccddeeff"},"at":{"$timestamp":"2031-01-02T03:04:05.678Z"},"x":{"$double":2},"d":{"$decimal64":"00112233aabbccdd"}},"body":"{\"total\":%[1]d}","contentType":"application/json"}`

// bare is a line of a message without what is new at each place.
func bare(t *testing.T, line string) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	for _, name := range []string{"sequenceNumber", "enqueuedSequenceNumber", "enqueuedTime", "entity", "deliveryCount", "transit", "creationTime", "absoluteExpiryTime"} {
		delete(m, name)
	}
	text, _ := json.Marshal(m)
	return string(text)
}

// An operator finds dead letters, looks at some, brings those back that were repaired, moves others away
// and removes the rest. None is lost, and properties keep their types.
func TestAnOperatorDealsWithDeadLetters(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, g *gateway) {
		const n = 12
		var lines strings.Builder
		for i := range n {
			fmt.Fprintf(&lines, typedOrder+"\n", i)
		}
		for _, queue := range []string{"orders", "parts"} {
			if code, out, errs := g.try(t, g.connection, lines.String(), "send", queue, "--records"); code != exitOK {
				t.Fatalf("send: %d %s%s", code, out, errs)
			}
			before := map[string]string{}
			for line := range strings.Lines(g.command(t, "", "record", queue, "--once")) {
				var m struct{ MessageID string }
				_ = json.Unmarshal([]byte(line), &m)
				before[m.MessageID] = bare(t, line)
			}
			g.command(t, "", "queue", "purge", queue, "--yes")
			g.exits(t, exitNothing, []string{"deadletter", "list", queue}, "there is no message")
			var dead strings.Builder // the Go SDK cannot receive all types
			for i := range n {
				why := `"DeadLetterReason":"bad","DeadLetterErrorDescription":"first",`
				if i >= 4 {
					why = `"DeadLetterReason":"late",`
				}
				dead.WriteString(strings.Replace(fmt.Sprintf(typedOrder+"\n", i), `"properties":{`, `"properties":{`+why, 1))
			}
			a := &asks{T: t, g: g, policy: config.DevPolicy, key: config.DevKey}
			if status, text := a.do("POST", "/$crosstown/deposit/"+queue+"/$DeadLetterQueue", dead.String()); status != 200 {
				t.Fatalf("deposit: %d %s", status, text)
			}

			list := []string{"deadletter", "list", queue}
			if got := g.exits(t, exitOK, list, "NUMBER", "REASON", "bad", "late"); strings.Count(got, "\n") != n+1 {
				t.Errorf("list: %s", got)
			}
			for _, c := range []struct {
				flags string
				want  int
			}{
				{"--reason BAD", 4},
				{"--where n>=8", 4},
				{"--where body.total=3", 1},
				{"--where DeadLetterErrorDescription='first'AND\tsys.Label='order'", 4},
				{"--where n=", -1},
				{"--older-than soon", -1},
				{"--message-id m1,m2 --message-id m11", 3},
				{"--property region=eu --property n=7", 1},
				{"--property b", n},
				{"--older-than 7d", 0},
				{"--newer-than 1h --count 5", 5},
			} {
				args := append(append([]string{}, list...), append(strings.Split(c.flags, " "), "--json")...)
				code := exitOK
				switch c.want {
				case 0:
					code = exitNothing
				case -1:
					code = exitUsage
				}
				if got := strings.Count(g.exits(t, code, args), "\n"); got != max(c.want, 0) {
					t.Errorf("%s: got %d, want %d", c.flags, got, c.want)
				}
			}
			// What is chosen comes from the middle: the others stay available.
			g.exits(t, exitOK, []string{"deadletter", "resubmit", queue, "--where", "n >= 5 AND n <= 7", "--dry-run"}, "nothing was changed")
			g.exits(t, exitOK, []string{"deadletter", "resubmit", queue, "--where", "n >= 5 AND n <= 7"}, "resubmitted 3 messages from "+queue+"/$DeadLetterQueue to "+queue)
			for line := range strings.Lines(g.command(t, "", "record", queue, "--once")) {
				var m struct{ MessageID string }
				_ = json.Unmarshal([]byte(line), &m)
				if got := bare(t, line); got != before[m.MessageID] {
					t.Errorf("resubmitted:\n got %s\nwant %s", got, before[m.MessageID])
				}
			}
			if got := g.exits(t, exitOK, append(list, "--json")); strings.Count(got, `"deliveryCount":0`) != n-3 {
				t.Errorf("dead letters that are left: want %d, none delivered: %s", n-3, got)
			}
			g.exits(t, exitOK, []string{"deadletter", "move", queue, "--reason=bad", "--to=archive"}, "moved 4 messages")
			if got := strings.Count(g.command(t, "", "record", "archive", "--once"), `"DeadLetterReason":"bad"`); got != 4 {
				t.Errorf("%d archived messages with their reasons, want 4", got)
			}
			g.exits(t, exitUsage, []string{"deadletter", "purge", queue, "--message-id=m8"}, "--yes")
			g.exits(t, exitOK, []string{"deadletter", "purge", queue, "--message-id=m8", "--yes"}, "purged 1 message")
			g.exits(t, exitOK, []string{"deadletter", "purge", queue, "--yes"}, "purged 4 messages")
			g.exits(t, exitNothing, []string{"deadletter", "purge", queue, "--yes"}, "there are no dead letters")
			g.exits(t, exitNothing, list)
			g.exits(t, exitNothing, []string{"deadletter", "resubmit", queue}, "there is no message")
			g.command(t, "", "queue", "purge", queue, "--yes")
			g.command(t, "", "queue", "purge", "archive", "--yes")
		}
	})
}

func TestDeadLettersOfSubscriptionsSessionsAndTransfers(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, g *gateway) {
		g.command(t, "", "send", "events", "e", "--property", "region=eu")
		g.command(t, "", "receive", "events/Subscriptions/all", "--dead-letter")
		g.command(t, "", "receive", "events/Subscriptions/eu", "--dead-letter")
		// Back into the one subscription, and to the topic, which gives all subscriptions a copy.
		g.exits(t, exitOK, []string{"deadletter", "resubmit", "events/Subscriptions/eu", "--to", "events/Subscriptions/eu"}, "resubmitted 1 message")
		if got := bodies(g.command(t, "", "receive", "events/Subscriptions/eu", "--count=0", "--wait=3s")); got != "e" {
			t.Errorf("back in the subscription: got %q", got)
		}
		g.exits(t, exitNothing, []string{"receive", "events/Subscriptions/all", "--wait=200ms"}, "no message arrived within 200ms")
		g.exits(t, exitOK, []string{"deadletter", "resubmit", "events/Subscriptions/all/$DeadLetterQueue"}, "to events\n")
		for _, s := range []string{"eu", "all"} {
			if got := bodies(g.command(t, "", "receive", "events/Subscriptions/"+s, "--count=0", "--wait=3s")); got != "e" {
				t.Errorf("%s: got %q", s, got)
			}
		}
		g.command(t, "", "send", "replies", "a", "--session", "x")
		g.command(t, "", "receive", "replies", "--session", "x", "--dead-letter")
		g.exits(t, exitOK, []string{"deadletter", "resubmit", "replies"}, "resubmitted 1 message")
		if got := bodies(g.command(t, "", "receive", "replies", "--session", "x")); got != "a" {
			t.Errorf("session: got %q", got)
		}
		g.command(t, "", "queue", "create", "sorted", "--forward-dead-lettered-messages-to", "archive")
		g.exits(t, exitNothing, []string{"deadletter", "list", "sorted"}, "sorted forwards its dead letters: see crosstown peek archive")
		g.command(t, "", "queue", "delete", "gone")
		g.command(t, "", "send", "intake", "i")
		for code := exitNothing; code != exitOK; { // it becomes a transfer dead letter
			code, _, _ = g.try(t, g.connection, "", "deadletter", "list", "intake", "--transfer")
		}
		g.command(t, "", "queue", "create", "gone")
		g.exits(t, exitOK, []string{"deadletter", "resubmit", "intake", "--transfer"}, "from intake/$Transfer/$DeadLetterQueue to intake")
		if got := bodies(g.command(t, "", "receive", "gone")); got != "i" {
			t.Errorf("transfer: got %q", got)
		}
	})
}

func TestDeadLettersThatCannotBeMovedStay(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, g *gateway) {
		big := write(t, "big", strings.Repeat("x", 400_000))
		g.command(t, "", "send", "orders", "--file", big)
		g.command(t, "", "send", "orders", "y", "--message-id", "known")
		g.command(t, "", "send", "once", "y", "--message-id", "known")
		g.command(t, "", "receive", "orders", "--count=2", "--dead-letter")
		g.exits(t, exitFailure, []string{"deadletter", "move", "orders", "--to=none"}, "'none' could not be found")
		g.exits(t, exitFailure, []string{"deadletter", "move", "orders", "--to=once"}, "detects duplicates", "--new-message-id")
		g.exits(t, exitUsage, []string{"deadletter", "move", "orders", "--to=orders/$deadletterqueue"}, "--to")
		g.exits(t, exitUsage, []string{"deadletter", "move", "orders"}, "to")
		g.exits(t, exitUsage, []string{"queue", "update", "orders", "--user-metadata=\xff"}, `--user-metadata: "\xff" is not UTF-8`)
		g.exits(t, exitUsage, []string{"send", "orders", "x", "--message-id=\xff"}, `--message-id: "\xff" is not UTF-8`)
		g.exits(t, exitUsage, []string{"deadletter", "list", "orders", "--count=x"}, `--count is "x" (invalid syntax): write a value of the type int`)
		g.exits(t, exitFailure, []string{"deadletter", "move", "orders", "--to=archive"}, "moved 1 message", "message 1 stays: ", "could not move 1 message")
		g.exits(t, exitFailure, []string{"deadletter", "list", "nope"}, "nope", "crosstown queue list")
		g.exits(t, exitUsage, []string{"deadletter", "list", "events"}, "events is a topic")
		g.exits(t, exitOK, []string{"deadletter", "resubmit", "orders", "--json"}, `"resubmitted":1`)
		g.command(t, "", "receive", "archive", "--dead-letter")
		g.exits(t, exitOK, []string{"deadletter", "move", "archive", "--to=once", "--new-message-id"}, "moved 1 message")
		if got := g.exits(t, exitOK, []string{"receive", "once", "--count=0", "--wait=3s", "--json"}); strings.Count(got, "\n") != 2 || strings.Count(got, `"known"`) != 1 {
			t.Errorf("once: %s", got)
		}
	})
}

// A broker without the administration API gets what any client can do.
func TestDeadLettersOfAnotherBroker(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--config", write(t, "c.yaml", operatedEntities))
	away := g.notOurs(t)
	run := func(code int, args ...string) string {
		t.Helper()
		got, out, errs := g.try(t, away, "", args...)
		if got != code {
			t.Fatalf("%v: got %d, want %d\n%s%s", args, got, code, out, errs)
		}
		return out + errs
	}
	g.command(t, strings.Repeat("x\n", 300), "send", "orders", "--property=region=us")
	g.command(t, "", "send", "orders", "y", "--property=region=eu")
	g.command(t, "", "receive", "orders", "--count=301", "--dead-letter", "--reason=bad")
	if got := run(exitFailure, "deadletter", "resubmit", "orders", "--property=region=eu"); !strings.Contains(got, "--new-message-id") {
		t.Errorf("got %s", got)
	}
	if got := run(exitFailure, "deadletter", "move", "orders", "--to=events/Subscriptions/eu", "--new-message-id"); !strings.Contains(got, "clients cannot send") {
		t.Errorf("got %s", got)
	}
	run(exitOK, "deadletter", "resubmit", "orders", "--property=region=eu", "--new-message-id")
	if got := bodies(g.command(t, "", "receive", "orders", "--count=0", "--wait=3s")); got != "y" {
		t.Errorf("got %q", got)
	}
	if got := run(exitOK, "deadletter", "purge", "orders", "--count=250", "--property=region", "--yes"); !strings.Contains(got, "purged 250 messages") {
		t.Errorf("got %s", got)
	}
	// The others were given back, not kept under lock.
	if got := run(exitOK, "deadletter", "purge", "orders", "--yes"); !strings.Contains(got, "purged 50 messages") {
		t.Errorf("got %s", got)
	}
}

// A gateway that is killed while it moves messages leaves each in one place, once it has been asked again.
func TestDeadLettersAreMovedOnceThoughTheGatewayIsKilled(t *testing.T) {
	t.Parallel()
	const n = 2000
	file := write(t, "c.yaml", "queues: [{name: orders, max-delivery-count: 1}]")
	g := &gateway{data: t.TempDir()}
	start := func() *program {
		p := startProgram(t, "--store=file", "--data", g.data, "--config", file)
		_, port, _ := net.SplitHostPort(p.address)
		g.address = p.address
		g.connection = "Endpoint=sb://localhost:" + port + ";SharedAccessKeyName=" + config.DevPolicy + ";SharedAccessKey=" + config.DevKey + ";UseDevelopmentEmulator=true"
		return p
	}
	p := start()
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "message %04d\n", i)
	}
	g.command(t, lines.String(), "send", "orders")
	g.command(t, "", "receive", "orders", "--count", fmt.Sprint(n), "--abandon") // all at once, while --dead-letter waits for each
	g.command(t, "", "queue", "update", "orders", "--lock-duration=5s")          // so that those locked when it is killed come soon
	for killed := range 3 {
		had := g.active(t, "orders")
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.try(t, g.connection, "", "deadletter", "resubmit", "orders")
		}()
		ended := false // if the kill comes too late, the check below holds all the same
		for !ended && g.active(t, "orders") < had+100*(killed+1) {
			select {
			case <-done:
				ended = true
			default: // it is another process
			}
		}
		_ = p.command.Process.Kill()
		_ = p.exitCode()
		<-done
		p = start()
	}
	for code := exitOK; code != exitNothing; { // the locks of the killed gateway end first
		code, _, _ = g.try(t, g.connection, "", "deadletter", "resubmit", "orders")
	}
	var got []string
	for _, m := range g.browse(t, "orders") {
		got = append(got, string(m.Body.Bytes))
	}
	slices.Sort(got)
	if distinct := slices.Compact(slices.Clone(got)); len(got) != n || len(distinct) != n {
		t.Errorf("got %d messages, %d different, want %d", len(got), len(distinct), n)
	}
}

func TestAMoveOverHTTPSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--config", write(t, "c.yaml", operatedEntities))
	a := &asks{T: t, g: g, policy: config.DevPolicy, key: config.DevKey}
	g.command(t, "", "send", "orders", "one", "two", "three")
	for _, c := range []struct {
		from, body string
		status     int
		want       string
	}{
		{"orders", `{"numbers":[1,9],"to":"parts"}`, 200, `{"moved":1,"absent":[9]}`},
		{"orders", `{"numbers":[2]}`, 200, `{"moved":1}`},
		{"orders", `{"numbers":[2]}`, 200, `{"moved":0,"absent":[2]}`},
		{"orders", `{"numbers":[]}`, 400, "1 to 1000"},
		{"orders", `{"number":1}`, 400, `{\"numbers\": [7]`},
		{"orders", `{"numbers":[1],"to":"orders"}`, 400, "choose another target"},
		{"orders", `{"numbers":[1],"to":"none"}`, 404, "could not be found"},
		{"orders", `{"numbers":[1],"to":"$management"}`, 404, "is not a queue"},
		{"none", `{"numbers":[1]}`, 404, "could not be found"},
		{"events", `{"numbers":[1]}`, 400, "is a topic"},
		{"replies", `{"numbers":[1]}`, 200, `{"moved":0,"absent":[1]}`},
		{"orders", `{"numbers":[3],"deadLetter":{"reason":"Wrong"}}`, 200, `{"moved":1}`},
		{"orders", `{"numbers":[3],"deadLetter":{"reason":"Wrong"},"to":"parts"}`, 400, "'deadLetter' cannot be combined with 'to'"},
		{"orders", `{"numbers":[3],"deadLetter":{"reason":"Wrong"},"newMessageIds":true}`, 400, "'deadLetter' cannot be combined with 'to'"},
		{"orders", `{"numbers":[3],"deadLetter":{}}`, 400, "requires a 'reason'"},
		{"orders/$DeadLetterQueue", `{"numbers":[1],"deadLetter":{"reason":"Wrong"}}`, 400, "cannot be dead-lettered"},
		{"orders", `{"numbers":[1],"to":"once"}`, 400, "detects duplicates"},
	} {
		if status, text := a.do("POST", "/$crosstown/messages/"+c.from, c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: got %d %s, want %d %s", c.from, c.body, status, text, c.status, c.want)
		}
	}
	for body, want := range map[string]string{"{": "is not a message", `{"body":"b","state":"active"}`: `"subscription":"all"`} {
		if _, text := a.do("POST", "/$crosstown/rules/events", body); !strings.Contains(text, want) {
			t.Errorf("rules: got %s, want %s", text, want)
		}
	}
}
