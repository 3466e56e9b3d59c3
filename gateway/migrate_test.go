package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
	"github.com/crosstown-mq/crosstown/internal/eventually"
	"github.com/crosstown-mq/crosstown/internal/variants"
)

const movedEntities = `
queues:
  - {name: orders, lock-duration: 5s}
  - {name: orders/parts, enable-partitioning: true}
  - {name: parcels}
  - {name: replies, requires-session: true}
  - {name: passing, forward-to: orders}
topics:
  - name: events
    subscriptions:
      - {name: all}
      - {name: none, rules: []}
      - {name: grouped, requires-session: true}
`

func TestMessagesAreMovedAsTheyAre(t *testing.T) {
	t.Parallel()
	stores := map[string]string{"memory": "memory", "file": "file", "redis": ""}
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if store == "" {
				store = redistest.Start(t, redistest.Options{}).URL()
			}
			file := write(t, "c.yaml", movedEntities)
			old := startFrozen(t, "--config", file)
			g := startGateway(t, "--store="+store, "--config", file)
			moveEverything(t, old, g)
		})
	}
}

// startFrozen runs a gateway whose clock stands still until a test moves it: however busy the machine is, no
// lock ends before.
func startFrozen(t *testing.T, args ...string) *gateway {
	t.Helper()
	g := startGateway(t, append([]string{"--store=memory", "--virtual-time"}, args...)...)
	g.command(t, "", "clock", "freeze")
	return g
}

func moveEverything(t *testing.T, old, g *gateway) {
	t.Helper()
	for _, queue := range []string{"orders", "replies", "events"} {
		s, err := old.sdk(t).NewSender(queue, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range awkward() {
			if err := s.SendAMQPAnnotatedMessage(t.Context(), m, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	old.sendPrimitives(t, "parcels") // which the SDK cannot read
	lines := func(of string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%s %03d\n", of, i)
		}
		return b.String()
	}
	for _, session := range []string{"a", "b", "c"} {
		old.command(t, lines(session, 100), "send", "replies", "--session", session)
	}
	old.command(t, lines("part", 30), "send", "orders/parts")
	for _, from := range []string{"orders", "events/Subscriptions/all"} {
		old.command(t, "", "receive", from, "--dead-letter", "--reason", "ugly", "--description", "very")
	}
	old.command(t, "", "send", "orders", "later", "--schedule", "5h", "--property", "a=b")
	before := map[string][]*core.Message{}
	places := []string{"orders", "replies", "orders/parts", "orders/$DeadLetterQueue", "events/Subscriptions/all", "events/Subscriptions/all/$DeadLetterQueue", "events/Subscriptions/grouped"}
	for _, from := range places {
		before[from] = old.browse(t, from)
		if len(before[from]) == 0 {
			t.Fatalf("%s is empty", from)
		}
	}
	primitives := old.encodedProperties(t, "parcels")
	code, out, stderr := g.try(t, g.connection, "", "migrate", "--from", old.connection)
	if code != exitOK {
		t.Fatalf("got %d\n%s%s", code, out, stderr)
	}
	for _, want := range []string{
		"orders: moved 7 messages, 1 dead letter, 1 scheduled\n", "replies: moved 308 messages\n", "parcels: moved 1 message\n", "orders/parts: moved 30 messages\n", "passing: moved 0 messages\n",
		"events/Subscriptions/all: moved 7 messages, 1 dead letter\n", "events/Subscriptions/none: moved 0 messages\n", "events/Subscriptions/grouped: moved 8 messages\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s%s", want, out, stderr)
		}
	}
	for _, from := range places {
		after := g.browse(t, from)
		if len(after) != len(before[from]) {
			t.Errorf("%s: got %d messages, want %d", from, len(after), len(before[from]))
			continue
		}
		for i := range after {
			if got, want := lineOf(t, after[i]), lineOf(t, before[from][i]); got != want {
				t.Errorf("%s: message %d\ngot  %s\nwant %s", from, i, got, want)
				break
			}
		}
		if left := old.browse(t, from); len(left) != 0 {
			t.Errorf("%s: %d are left at the source", from, len(left))
		}
	}
	if got := g.encodedProperties(t, "parcels"); !slices.Equal(got, primitives) {
		t.Errorf("properties: got\n%v\nwant\n%v", got, primitives)
	}
	if got := g.command(t, "", "receive", "events/Subscriptions/all", "--dlq"); !strings.Contains(got, "dead-letter reason: ugly") || !strings.Contains(got, "very") {
		t.Errorf("a dead letter: got\n%s", got)
	}
	if code, out, _ := g.try(t, g.connection, "", "migrate", "--from", old.connection); code != exitOK || strings.Contains(out, "moved 1 ") {
		t.Errorf("a second run: got %d\n%s", code, out)
	}
}

// lineOf is a message as a backup has it, with its types.
func lineOf(t *testing.T, m *core.Message) string {
	t.Helper()
	line := record.Of(&core.Stored{Kind: core.StoredMessage, Delivery: core.Delivery{Message: m}}, "")
	text, err := json.Marshal(&line)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// browse are all messages of an entity, without what is new at the target: those of each session in
// their order, those of a partitioned queue by their bodies.
func (g *gateway) browse(t *testing.T, entity string) (all []*core.Message) {
	t.Helper()
	c, err := remote.Connect(t.Context(), remote.Options{
		Name: "test", Host: "localhost", Policy: config.DevPolicy, Key: config.DevKey,
		Dial: func(context.Context) (net.Conn, error) { return net.Dial("tcp", g.address) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for from := int64(0); ; {
		page, err := c.Peek(t.Context(), entity, nil, from, 250)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, a := range page {
			from = a.SequenceNumber + 1
			m := a.Message
			m.CreationTime, m.AbsoluteExpiryTime, m.Transit = time.Time{}, time.Time{}, nil
			m.TimeToLive = m.TimeToLive.Round(time.Hour) // a part of it has passed
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b *core.Message) int {
		if entity == "orders/parts" {
			return strings.Compare(string(a.Body.Bytes), string(b.Body.Bytes))
		}
		return strings.Compare(a.SessionID, b.SessionID)
	})
	return all
}

func TestAMigrationThatWasKilledGoesOnAndDoublesNothing(t *testing.T) {
	t.Parallel()
	const n = 3000
	file := write(t, "c.yaml", movedEntities)
	old := startGateway(t, "--store=memory", "--config", file)
	g := startGateway(t, "--store=file", "--config", file)
	var bodies strings.Builder
	for i := range n {
		fmt.Fprintf(&bodies, "message %04d\n", i)
	}
	old.command(t, bodies.String(), "send", "orders")
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for killed := 0; killed < 3; {
		c := exec.CommandContext(t.Context(), executable, "migrate", "--from", old.connection, "--to", g.connection, "--data", t.TempDir())
		c.Env = append(os.Environ(), asProgram+"=1")
		had := len(g.browse(t, "orders"))
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "the migration moves messages", func() bool { return g.active(t, "orders") >= had+50*(killed+1) })
		_ = c.Process.Kill()
		_ = c.Wait()
		killed++
	}
	if had := g.active(t, "orders"); had == 0 || had == n {
		t.Logf("the kills came too late: %d are moved", had) // the check below holds all the same
	}
	if code, out, stderr := g.try(t, g.connection, "", "migrate", "--from", old.connection); code != exitOK {
		t.Fatalf("got %d\n%s%s", code, out, stderr)
	}
	var got []string
	for _, m := range g.browse(t, "orders") {
		got = append(got, string(m.Body.Bytes))
	}
	slices.Sort(got)
	if distinct := slices.Compact(slices.Clone(got)); len(got) != n || len(distinct) != n {
		t.Errorf("got %d messages, %d different, want %d", len(got), len(distinct), n)
	}
	if left := old.browse(t, "orders"); len(left) != 0 {
		t.Errorf("%d are left at the source", len(left))
	}
}

// active is the number of messages a queue has.
func (g *gateway) active(t *testing.T, queue string) int {
	t.Helper()
	return len(g.browse(t, queue))
}

func TestAMigrationSaysWhatItCannotMove(t *testing.T) {
	t.Parallel()
	old := startGateway(t, "--store=memory", "--config", write(t, "c.yaml", movedEntities))
	g := startGateway(t, "--store=memory", "--config", write(t, "c.yaml", "queues: [{name: orders, max-message-size-in-kilobytes: 256}, {name: dead}, {name: other}]"))
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, []byte(strings.Repeat("x", 200_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	old.command(t, "", "send", "replies", "a", "--session", "s")
	if code, _, stderr := g.try(t, g.connection, "", "migrate", "--from", old.connection, "replies"); code != exitFailure || !strings.Contains(stderr, "crosstown import --from") {
		t.Errorf("a missing entity: got %d\n%s", code, stderr)
	}
	if code, _, stderr := g.try(t, g.connection, "", "migrate", "--from", g.connection); code != exitUsage || !strings.Contains(stderr, "the same namespace") {
		t.Errorf("one namespace: got %d\n%s", code, stderr)
	}
	if code, out, stderr := g.try(t, g.connection, "", "migrate", "--from", old.connection, "replies", "--into", "replies=other"); code != exitOK || !strings.Contains(out, "moved 1 message") {
		t.Errorf("--into: got %d\n%s%s", code, out, stderr)
	}
	old.command(t, "", "send", "orders", "d")
	old.command(t, "", "receive", "orders", "--dead-letter")
	if code, out, stderr := g.try(t, g.connection, "", "migrate", "--from", old.connection, "orders", "--dead-letters-into", "dead"); code != exitOK || !strings.Contains(out, "1 dead letter") || g.active(t, "dead") != 1 {
		t.Errorf("--dead-letters-into: got %d\n%s%s", code, out, stderr)
	}
	for _, args := range [][]string{{"--into", "a"}, {"--patience", "soon"}} {
		if code, _, stderr := g.try(t, g.connection, "", append([]string{"migrate", "--from", old.connection}, args...)...); code != exitUsage || !strings.Contains(stderr, args[0]) {
			t.Errorf("%v: got %d\n%s", args, code, stderr)
		}
	}
}

// notOurs is the connection string of a namespace that speaks AMQP as the gateway does, and has no
// administration API: as Azure has none.
func (g *gateway) notOurs(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go g.pass(c)
		}
	}()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	_, rest, _ := strings.Cut(g.connection, ";")
	return "Endpoint=sb://localhost:" + port + ";" + rest
}

// pass answers an HTTP request with 404, and passes any other connection on.
func (g *gateway) pass(c net.Conn) {
	defer func() { _ = c.Close() }()
	first := make([]byte, 4)
	if _, err := io.ReadFull(c, first); err != nil {
		return
	}
	if string(first) != "AMQP" {
		_, _ = io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		return
	}
	there, err := net.Dial("tcp", g.address)
	if err != nil {
		return
	}
	defer func() { _ = there.Close() }()
	go func() { _, _ = io.Copy(c, there) }()
	_, _ = there.Write(first)
	_, _ = io.Copy(there, c)
}

func TestMessagesAreMovedOutAsAnyClientSendsThem(t *testing.T) {
	t.Parallel()
	file := write(t, "c.yaml", movedEntities)
	old, azure := startGateway(t, "--store=memory", "--config", file), startGateway(t, "--store=memory", "--config", file)
	old.command(t, "a\nb\nc\n", "send", "orders", "--property", "n=1")
	old.command(t, "", "send", "orders", "later", "--schedule", "5h")
	old.command(t, "", "receive", "orders", "--dead-letter")
	old.command(t, "", "send", "events", "e")
	away := azure.notOurs(t)
	code, _, stderr := old.try(t, away, "", "migrate", "--from", old.connection, "orders")
	if code != exitFailure || !strings.Contains(stderr, "clients cannot send to orders/$DeadLetterQueue. Only a gateway") {
		t.Errorf("dead letters: got %d\n%s", code, stderr)
	}
	code, out, stderr := old.try(t, away, "", "migrate", "--from", old.connection, "orders", "events/Subscriptions/all", "--dead-letters-into", "parcels", "--into", "events/Subscriptions/all=orders/parts")
	if code != exitOK || !strings.Contains(out, "1 dead letter") || !strings.Contains(out, "events/Subscriptions/all: moved 1 message") {
		t.Errorf("got %d\n%s%s", code, out, stderr)
	}
	for entity, want := range map[string]string{"orders": "b c later", "parcels": "a", "orders/parts": "e"} {
		var got []string
		for _, m := range azure.browse(t, entity) {
			got = append(got, string(m.Body.Bytes))
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", entity, got, want)
		}
	}
}

func TestADepositSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--config", write(t, "c.yaml", movedEntities))
	a := &asks{T: t, g: g, policy: config.DevPolicy, key: config.DevKey}
	const good = `{"body":"b","state":"active","transit":{"Key":"k"}}` + "\n"
	for _, c := range []struct {
		to, body string
		status   int
		want     string
	}{
		{"orders", good, 200, `{"messages":[{}]}`},
		{"orders", good + good, 200, `{"messages":[{"known":true},{"known":true}]}`},
		{"orders/$DeadLetterQueue", strings.Replace(good, `"k"`, `"l"`, 1), 200, `{"messages":[{}]}`},
		{"events", good, 200, `{"messages":[{}]}`},
		{"events/Subscriptions/none", good, 200, `{"messages":[{}]}`},
		{"events/Subscriptions/grouped", good, 200, `"permanent":true`},
		{"replies", good, 200, `"permanent":true`},
		{"events/$DeadLetterQueue", "", 400, "does not accept messages"},
		{"passing/$Transfer", "", 400, "does not accept messages"},
		{"none", "", 404, "could not be found"},
		{"$management", "", 404, "is not a queue"},
		{"orders", "{", 400, "Line 1 is not a message"},
		{"orders", good + `{"backup":{}}`, 400, "Line 2 is not a message"},
	} {
		if status, text := a.do("POST", "/$crosstown/deposit/"+c.to, c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: got %d %s, want %d %s", c.to, status, text, c.status, c.want)
		}
	}
	if n := len(g.browse(t, "events/Subscriptions/none")); n != 1 {
		t.Errorf("a subscription without rules has %d messages, want the one that was deposited", n)
	}
}

func TestAMigrationKeepsMessagesThatShareAnID(t *testing.T) {
	t.Parallel()
	old := startGateway(t, "--store=memory", "--config", write(t, "c.yaml", "queues: [{name: orders}]\ntopics: [{name: events}]"))
	variants.Each(t, func(t *testing.T, store string) {
		g := startGateway(t, "--store="+storeOf(t, store), "--config", write(t, "c.yaml", "queues: [{name: orders, requires-duplicate-detection: true}]\ntopics: [{name: events, requires-duplicate-detection: true, subscriptions: [{name: all}]}]"))
		for _, target := range []string{"orders", "events"} {
			old.command(t, "", "send", "orders", "yesterday's", "--message-id", "7") // the window of its duplicates has passed since
			old.command(t, "", "send", "orders", "today's", "--message-id", "7")
			old.command(t, "", "send", "orders", "tomorrow's", "--message-id", "7", "--schedule", "5h")
			if code, out, stderr := g.try(t, g.connection, "", "migrate", "--from", old.connection, "orders", "--into", "orders="+target); code != exitOK || !strings.Contains(out, "moved 2 messages, 1 scheduled") {
				t.Errorf("%s: got %d\n%s%s", store, code, out, stderr)
			}
		}
		for entity, want := range map[string]int{"orders": 3, "events/Subscriptions/all": 2} {
			if n := g.active(t, entity); n != want {
				t.Errorf("%.6s: %s: got %d messages, want %d", store, entity, n, want)
			}
		}
	}, "memory", "file", "redis")
}

// refusing starts a source with messages too large for the target.
func refusing(t *testing.T, sessions ...string) (old, target *gateway) {
	t.Helper()
	requires := fmt.Sprintf("queues: [{name: orders, requires-session: %v, max-message-size-in-kilobytes: ", sessions[0] != "")
	old = startFrozen(t, "--allow-faults", "--config", write(t, "c.yaml", requires+"4096}]"))
	target = startGateway(t, "--store=memory", "--config", write(t, "c.yaml", requires+"1024}]"))
	for _, session := range sessions {
		old.command(t, strings.Repeat("x", 2<<20), "send", "orders", "--session", session)
		old.command(t, "", "send", "orders", "small", "--session", session)
	}
	return old, target
}

// wantRefused checks that a migration moved a small message of n sessions, and told once of each large one.
func wantRefused(t *testing.T, n, code int, stdout, stderr string) {
	t.Helper()
	if code != exitFailure || !strings.Contains(stdout, "orders: moved "+command.Messages(n)+"\n") ||
		!strings.Contains(stderr, "the target refused "+command.Messages(n)+": refused messages stay at the source") {
		t.Errorf("got %d\n%s%s", code, stdout, stderr)
	}
	if got := strings.Count(stderr, "stays: "); got != n {
		t.Errorf("got %d notes, want %d:\n%s", got, n, stderr)
	}
}

func TestARefusedMessageIsCountedOnceAndKeepsNoOtherBack(t *testing.T) {
	t.Parallel()
	old, g := refusing(t, "")
	other, err := old.sdk(t).NewReceiverForQueue("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	var locked []*azservicebus.ReceivedMessage
	for range 2 {
		one, err := other.ReceiveMessages(t.Context(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		locked = append(locked, one...)
	}
	if err := other.AbandonMessage(t.Context(), locked[0], nil); err != nil {
		t.Fatal(err)
	}
	out, errs, end := g.begin(t.Context(), t, "migrate", "--from", old.connection, "--patience", "1h")
	waitFor(t, errs, "waiting for messages that other receivers have locked") // the large one was refused, the other receiver has the small one
	old.command(t, "", "clock", "advance", "5m")
	wantRefused(t, 1, end(), out.String(), errs.String())
}

func TestRefusedMessagesOfSessionsAreCountedOnceAndKeepNoOthersBack(t *testing.T) {
	t.Parallel()
	old, g := refusing(t, "a", "b")
	code, out, stderr := g.try(t, g.connection, "", "migrate", "--from", old.connection)
	wantRefused(t, 2, code, out, stderr)
}

// On a slow line messages may come with pauses in which a link counts as empty.
func TestMessagesThatComeLateAreMoved(t *testing.T) {
	t.Parallel()
	for name, sessions := range map[string][]string{"without sessions": {""}, "with sessions": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, g := refusing(t, sessions...)
			old.command(t, "", "fault", "add", "--operation", "deliver", "--effect", "reorder", "--delay", "3s", "--skip", "1", "--times", "1")
			out, errs, end := g.begin(t.Context(), t, "migrate", "--from", old.connection, "--patience", "1h")
			wantRefused(t, len(sessions), end(), out.String(), errs.String())
		})
	}
}

// On a slow line a lock may end before its message is moved.
func TestAMigrationGoesOnWhenALockIsLost(t *testing.T) {
	t.Parallel()
	for name, sessions := range map[string][]string{"of a message": {""}, "of a session": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entities := write(t, "c.yaml", fmt.Sprintf("queues: [{name: orders, requires-session: %v}]", sessions[0] != ""))
			old := startFrozen(t, "--allow-faults", "--config", entities)
			g := startGateway(t, "--store=memory", "--config", entities)
			want := 0
			for _, session := range sessions {
				for i := range 3 {
					old.command(t, "", "send", "orders", fmt.Sprint(i), "--session", session)
					want++
				}
			}
			old.command(t, "", "fault", "add", "--operation", "deliver", "--effect", "lose-lock", "--skip", "1")
			code, out, stderr := g.try(t, g.connection, "", "migrate", "--from", old.connection)
			if code != exitOK || !strings.Contains(out, fmt.Sprintf("orders: moved %d messages\n", want)) {
				t.Errorf("got %d\n%s%s", code, out, stderr)
			}
			if n := g.active(t, "orders"); n != want {
				t.Errorf("the target has %d messages, want %d", n, want)
			}
			if n := old.active(t, "orders"); n != 0 {
				t.Errorf("the source has %d messages, want none", n)
			}
		})
	}
}

func TestAMigrationKnowsItsOwnNamespaceByAnyPolicyAndHost(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--policy", "other=a-key-of-the-other-policy:Manage", "--config", write(t, "c.yaml", "queues: [{name: orders}]"))
	g.command(t, "", "send", "orders", "m")
	other := strings.Replace(strings.Replace(g.connection, config.DevPolicy, "other", 1), config.DevKey, "a-key-of-the-other-policy", 1)
	for _, from := range []string{other, strings.Replace(g.connection, "localhost", "127.0.0.1", 1)} {
		if code, out, stderr := g.try(t, g.connection, "", "migrate", "--from", from, "--patience", "1s"); code != exitUsage || !strings.Contains(stderr, "the same namespace") {
			t.Errorf("from %s: got %d\n%s%s", from, code, out, stderr)
		}
	}
	g.command(t, "", "namespace", "create", "tests")
}

// A namespace of several may not take the memory of the others with bodies of the administration API.
func TestBodiesOfTheAdministrationAPICountInTheMemoryOfMessages(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--message-memory", "64MiB", "--config", write(t, "c.yaml", "queues: [{name: orders}]\ntopics: [{name: events}]\npolicies: [{name: sender, key: key-of-the-sender, rights: Send}]"))
	a := &asks{T: t, g: g, policy: config.DevPolicy, key: config.DevKey}
	line := `{"body":"` + strings.Repeat("x", 200_000) + `","state":"active"}` + "\n"
	if status, text := a.do("POST", "/$crosstown/deposit/orders", strings.Repeat(line, 10)); status != 200 {
		t.Errorf("a body of 2 MB: got %d %.200s", status, text)
	}
	if status, text := a.do("POST", "/$crosstown/deposit/orders", strings.Repeat(line, 250)); status < 400 || !strings.Contains(text, "message-memory") {
		t.Errorf("a body of 50 MB: got %d %.200s", status, text)
	}
	if status, _ := (&asks{T: t, g: g, policy: "sender", key: "key-of-the-sender"}).do("POST", "/$crosstown/rules/events", strings.Repeat(line, 10)); status != 401 {
		t.Errorf("a client without Manage: got %d", status)
	}
}
