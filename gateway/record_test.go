package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// awkward are messages with what JSON has no form for, as the SDK sends them.
func awkward() []*azservicebus.AMQPAnnotatedMessage {
	all := map[string]any{
		"null": nil, "true": true, "ubyte": uint8(255), "ushort": uint16(65535), "uint": uint32(1 << 31), "ulong": uint64(1<<64 - 1),
		"byte": int8(-128), "short": int16(-5), "int": int32(-70000), "int0": int32(0), "long": int64(-1 << 62), "float": float32(0.1), "double": 3.0,
		"text": "gr\u00fc\u00dfe\u2028<&>\x00", "empty": "", "binary": []byte{0, 255}, "nothing": []byte{}, "uuid": goamqp.UUID{1, 15: 16},
		"timestamp": time.UnixMilli(784111777123), "before": time.UnixMilli(-62135596800000), "$int": int32(5),
	}
	bodies := []azservicebus.AMQPAnnotatedMessageBody{
		{Data: [][]byte{[]byte("text \u2028 <&> \x00")}},
		{Data: [][]byte{{0xff, 0, 0xfe}}},
		{Data: [][]byte{{}}},
		{Data: [][]byte{[]byte("two"), []byte("sections")}},
		{Value: map[string]any{"list": []any{int8(1), "x", nil, goamqp.Symbol("s")}}},
		{Value: uint64(7)},
		{Value: "a value, not data"},
		{Sequence: [][]any{{int32(1), "two"}, {nil}}},
	}
	ids := []any{"id", uint64(1 << 63), goamqp.UUID{9}, []byte{0, 255}, "id-5", "id-6", "id-7", "id-8"}
	var ms []*azservicebus.AMQPAnnotatedMessage
	for i, body := range bodies {
		ms = append(ms, &azservicebus.AMQPAnnotatedMessage{
			ApplicationProperties: all, Body: body, DeliveryAnnotations: map[any]any{"next": true}, Footer: map[any]any{goamqp.Symbol("sum"): uint32(5)},
			MessageAnnotations: map[any]any{"x-own": int16(3), "x-opt-partition-key": "s"},
			Header:             &azservicebus.AMQPAnnotatedMessageHeader{Durable: true, Priority: 9, TTL: time.Duration(i) * time.Hour},
			Properties: &azservicebus.AMQPAnnotatedMessageProperties{
				MessageID: ids[i], CorrelationID: ids[len(ids)-1-i], UserID: []byte{255, 0}, ContentEncoding: new("gzip"), ContentType: new(""),
				GroupID: new("s"), GroupSequence: new(uint32(4)), ReplyTo: new("back"), ReplyToGroupID: new(""), Subject: new("\u00fc"), To: new("to"),
			},
		})
	}
	return ms
}

func (g *gateway) sdk(t *testing.T) *azservicebus.Client {
	t.Helper()
	c, err := azservicebus.NewClientFromConnectionString(g.connection, &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// sendPrimitives sends a message with properties of all types that the SDK does not know.
func (g *gateway) sendPrimitives(t *testing.T, queue string) {
	t.Helper()
	properties, mark := value.OpenMap(nil)
	n := 0
	for key, v := range map[string]any{
		"decimal32": value.Decimal32{1}, "decimal64": value.Decimal64{2}, "decimal128": value.Decimal128{3}, "char": value.Char('\U0001f600'), "symbol": value.Symbol("s"),
		"span": value.Described{Descriptor: value.Symbol("com.microsoft:timespan"), Value: int64(100)},
	} {
		var err error
		if properties, err = value.Append(value.AppendString(properties, key), v); err != nil {
			t.Fatal(err)
		}
		n++
	}
	// go-amqp cannot encode them, but carries an encoded message inside a batch.
	inner := append(value.AppendDescriptor(nil, 0x74), value.CloseMap(properties, mark, n)...)
	inner = value.AppendBinary(value.AppendDescriptor(inner, 0x75), []byte("primitives"))
	c, err := goamqp.Dial(t.Context(), "amqp://"+g.address, &goamqp.ConnOptions{SASLType: goamqp.SASLTypePlain(config.DevPolicy, config.DevKey)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	session, err := c.NewSession(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.NewSender(t.Context(), queue, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), &goamqp.Message{Format: 0x80013700, Data: [][]byte{inner}}, nil); err != nil {
		t.Fatal(err)
	}
}

// encodedProperties are the properties of a queue's messages in AMQP's encoding.
func (g *gateway) encodedProperties(t *testing.T, queue string) (all []string) {
	t.Helper()
	c, err := remote.Connect(t.Context(), remote.Options{
		Name: "test", Host: "localhost", Policy: config.DevPolicy, Key: config.DevKey,
		Dial: func(context.Context) (net.Conn, error) { return net.Dial("tcp", g.address) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ms, err := c.Peek(t.Context(), queue, nil, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ms {
		all = append(all, fmt.Sprintf("%x", m.Properties.Encoded()))
	}
	return all
}

// peeked are a queue's messages as the SDK shows them, without what the broker sets.
func (g *gateway) peeked(t *testing.T, queue string) (all []*azservicebus.AMQPAnnotatedMessage) {
	t.Helper()
	r, err := g.sdk(t).NewReceiverForQueue(queue, nil)
	if err != nil {
		t.Fatal(err)
	}
	ms, err := r.PeekMessages(t.Context(), 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ms {
		raw := m.RawAMQPMessage
		for _, key := range []string{"x-opt-sequence-number", "x-opt-enqueued-time"} {
			if raw.MessageAnnotations[key] == nil {
				t.Errorf("%s: message %v lacks %s", queue, raw.Properties.MessageID, key)
			}
			delete(raw.MessageAnnotations, key)
		}
		if p := raw.Properties; p.CreationTime != nil {
			if life := p.AbsoluteExpiryTime.Sub(*p.CreationTime); life != raw.Header.TTL {
				t.Errorf("%s: message %v lives for %v, want %v", queue, p.MessageID, life, raw.Header.TTL)
			}
			p.CreationTime, p.AbsoluteExpiryTime = nil, nil // of when it was sent
		}
		all = append(all, raw)
	}
	return all
}

// contents are messages without what the SDK hides in them.
func contents(m *azservicebus.AMQPAnnotatedMessage) string {
	return fmt.Sprintf("%#v %#v %#v %#v %#v %#v %s", m.ApplicationProperties, m.Body, m.DeliveryAnnotations, m.Footer, m.Header, m.MessageAnnotations, fields(m.Properties))
}

// fields are properties with what their pointers point to.
func fields(p *azservicebus.AMQPAnnotatedMessageProperties) string {
	text, err := json.Marshal(p)
	return fmt.Sprintf("%s %T %T %v", text, p.MessageID, p.CorrelationID, err)
}

func TestARecordingIsReplayedAsItWas(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	g.command(t, "", "queue", "create", "from")
	s, err := g.sdk(t).NewSender("from", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range awkward() {
		if err := s.SendAMQPAnnotatedMessage(t.Context(), m, nil); err != nil {
			t.Fatal(err)
		}
	}
	want := g.peeked(t, "from")
	if len(want) != len(awkward()) {
		t.Fatalf("got %d messages, want %d", len(want), len(awkward()))
	}
	file := filepath.Join(t.TempDir(), "from.jsonl")
	if err := os.WriteFile(file, []byte(g.command(t, "", "record", "from", "--once")), 0o600); err != nil {
		t.Fatal(err)
	}
	for queue, send := range map[string][]string{
		"replayed": {"replay", file, "--to", "replayed", "--speed", "max"},
		"paced":    {"replay", file, "--to", "from=paced", "--speed=1000"},
		"sent":     {"send", "sent", "--records", "--file", file},
	} {
		g.command(t, "", "queue", "create", queue)
		if out := g.command(t, "", send...); !strings.Contains(out, fmt.Sprintf("%d messages", len(want))) {
			t.Errorf("%s: %s", queue, out)
		}
		got := g.peeked(t, queue)
		if len(got) != len(want) {
			t.Fatalf("%s: got %d messages, want %d", queue, len(got), len(want))
		}
		for i := range want {
			if contents(got[i]) != contents(want[i]) || !reflect.DeepEqual(got[i].ApplicationProperties, want[i].ApplicationProperties) {
				t.Errorf("%s: message %d: got  %s\nwant %s", queue, i, contents(got[i]), contents(want[i]))
			}
		}
	}
	g.command(t, "", "queue", "create", "primitives")
	g.command(t, "", "queue", "create", "again")
	g.sendPrimitives(t, "primitives")
	g.command(t, g.command(t, "", "record", "primitives", "--once"), "replay", "--to=again")
	if got, want := g.encodedProperties(t, "again"), g.encodedProperties(t, "primitives"); len(want) != 1 || !reflect.DeepEqual(got, want) {
		t.Errorf("got properties %s, want %s", got, want)
	}
}

// A recording goes through all partitions, in pages, and has a scheduled message once: when it is active.
func TestARecordingHasWhatAllPartitionsHold(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	g.command(t, "", "queue", "create", "from", "--enable-partitioning", "--max-message-size-in-kilobytes=20480")
	g.command(t, "", "queue", "create", "to", "--max-message-size-in-kilobytes=20480")
	large := writeFile(t, "large", strings.Repeat("large\xff", 1<<19)) // 3.1 MB
	g.command(t, "", "send", "from", "small", "--count=300")
	for key := range 20 { // in most partitions
		g.command(t, "", "send", "from", "spread", "--partition-key", strconv.Itoa(key))
	}
	g.command(t, "", "send", "from", "--file", large)
	g.command(t, "", "send", "from", "soon", "--schedule=1s")
	g.command(t, "", "send", "from", "later", "--schedule=1h")
	lines := g.command(t, "", "record", "from", "--count=322")
	if again := g.command(t, "", "record", "from", "--once"); again != lines {
		t.Errorf("recorded again: got %d bytes, want the %d of before", len(again), len(lines))
	}
	g.command(t, lines, "replay", "--to", "to", "--speed=max")
	bodies := map[string]int{}
	for line := range strings.Lines(g.command(t, "", "receive", "to", "--count=322", "--json")) {
		var m struct{ Body string }
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		bodies[fmt.Sprintf("%.5s %d", m.Body, len(m.Body))]++
	}
	if want := map[string]int{"small 5": 300, "sprea 6": 20, "soon 4": 1, "bGFyZ 4194304": 1}; !reflect.DeepEqual(bodies, want) {
		t.Errorf("got %v, want %v", bodies, want)
	}
	if got := g.command(t, "", "queue", "show", "from", "--json"); !strings.Contains(got, `"active":322,"scheduled":1`) {
		t.Errorf("what was recorded is there still: got %s", got)
	}
}

func TestARecordingFollowsWhatArrives(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	g.command(t, "", "queue", "create", "plain")
	g.command(t, "", "queue", "create", "spread", "--enable-partitioning")
	g.command(t, "", "queue", "create", "calls", "--session-aware")
	g.command(t, "", "topic", "create", "news")
	g.command(t, "", "subscription", "create", "news", "eu")
	g.command(t, "", "send", "plain", "old", "older")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, problems, exit := newOutput(), newOutput(), make(chan int, 1)
	go func() {
		exit <- run(ctx, strings.Fields("record plain spread calls news/Subscriptions/eu plain/$DeadLetterQueue --new"), strings.NewReader(""), out, problems,
			[]string{"CROSSTOWN_CONNECTION_STRING=" + g.connection})
	}()
	until := func(o *output, holds func(string) bool) {
		t.Helper()
		for !holds(o.String()) {
			select {
			case <-o.written:
			case <-ctx.Done():
				t.Fatalf("it did not come:\n%s%s", out, problems)
			}
		}
	}
	until(problems, func(s string) bool { return strings.Contains(s, "recording the messages that arrive") })
	g.command(t, "", "send", "plain", "new", "later", "--property", "n=1")
	g.command(t, "", "send", "spread", "x", "--count=20")
	g.command(t, "", "send", "calls", "a", "--session=a")
	g.command(t, "", "send", "calls", "b", "--session=")
	g.command(t, "", "send", "news", "n")
	g.command(t, "", "send", "plain", "scheduled", "--schedule=100ms")
	g.command(t, "", "send", "plain", "hidden", "--schedule=1h")
	g.command(t, "", "receive", "plain", "--dead-letter", "--reason=why")
	until(out, func(s string) bool { return strings.Count(s, "\n") >= 27 })
	cancel()
	if code := <-exit; code != exitOK || !strings.Contains(problems.String(), "recorded 27 messages\n") {
		t.Errorf("got exit code %d, %s", code, problems)
	}
	bodies := map[string]int{}
	for line := range strings.Lines(out.String()) {
		var m struct {
			Entity, Body string
			EnqueuedTime time.Time
			SessionID    *string
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.EnqueuedTime.IsZero() {
			t.Fatalf("%s: %v", line, err)
		}
		bodies[m.Entity+" "+m.Body]++
	}
	want := map[string]int{
		"plain new": 1, "plain later": 1, "plain scheduled": 1, "plain/$DeadLetterQueue old": 1, "spread x": 20, "calls a": 1, "calls b": 1, "news/Subscriptions/eu n": 1,
	}
	if !reflect.DeepEqual(bodies, want) {
		t.Errorf("got %v, want %v", bodies, want)
	}
	if got := strings.Count(g.command(t, "", "receive", "spread", "--count=0", "--wait=5s", "--json"), "\n"); got != 20 {
		t.Errorf("%d messages are left, want 20", got)
	}
}

func TestARecordingNeedsListenAndAReplaySend(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--policy=root=r:Manage", "--policy=listener=l:Listen", "--policy=sender=s:Send")
	connect := func(policy, key string) string { // over TLS
		_, port, _ := net.SplitHostPort(g.address)
		return "Endpoint=sb://localhost:" + port + ";SharedAccessKeyName=" + policy + ";SharedAccessKey=" + key
	}
	do := func(connection, stdin string, args ...string) string {
		t.Helper()
		code, stdout, stderr := g.try(t, connection, stdin, args...)
		if code != exitOK {
			t.Fatalf("crosstown %v: exit code %d\n%s", args, code, stderr)
		}
		return stdout
	}
	do(connect("root", "r"), "", "queue", "create", "q")
	do(connect("root", "r"), "", "send", "q", "x")
	lines := do(connect("listener", "l"), "", "record", "q", "--once")
	if out := do(connect("sender", "s"), lines, "replay"); out != "replayed 1 message of standard input\n" {
		t.Errorf("replay: %s", out)
	}
	for args, connection := range map[string]string{"record q --once": connect("sender", "s"), "replay": connect("listener", "l")} {
		code, _, stderr := g.try(t, connection, lines, strings.Fields(args)...)
		if code != exitFailure || !strings.Contains(stderr, "claim is missing") && !strings.Contains(stderr, "nauthorized") {
			t.Errorf("crosstown %s without the right: got %d %s", args, code, stderr)
		}
	}
}

func TestRecordAndReplaySayWhatIsWrong(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	g.command(t, "", "queue", "create", "q")
	g.command(t, "", "queue", "create", "calls", "--session-aware")
	g.command(t, "", "topic", "create", "news")
	wrong := strings.Replace(g.connection, "SAS_KEY_VALUE", "wrong", 1)
	line := `{"state":"active","entity":"q","body":"x"}` + "\n"
	for _, c := range []struct {
		connection, args, stdin string
		code                    int
		want                    string
	}{
		{g.connection, "record", "", exitUsage, "no entity is specified"},
		{g.connection, "record nope", "", exitFailure, "The messaging entity 'sb://localhost/nope' could not be found"},
		{g.connection, "record nope", "", exitFailure, "crosstown queue list"},
		{g.connection, "record news", "", exitUsage, "news is a topic, whose messages are in its subscriptions: record news/Subscriptions/NAME"},
		{wrong, "record q", "", exitFailure, "crosstown: InvalidSignature: The token has an invalid signature: check the policy"},
		{g.connection, "record q --count=-1", "", exitUsage, "--count is -1"},
		{g.connection, "record q --for=soon", "", exitUsage, `--for is "soon": write a duration`},
		{g.connection, "record q --once --new", "", exitUsage, "--new, --once cannot be combined"},
		{g.connection, "replay a b", "", exitUsage, "the command line has 2 arguments"},
		{g.connection, "replay none.jsonl", "", exitFailure, "none.jsonl: no such file"},
		{g.connection, "replay --speed=fast", "", exitUsage, `--speed is "fast": write a factor such as 10x, or max`},
		{g.connection, "replay --to=a --to=b", "", exitUsage, `--to is "b": write ENTITY once`},
		{g.connection, "replay --to==b", "", exitUsage, `--to is "=b"`},
		{g.connection, "replay", "hello\n", exitFailure, "standard input: line 1: the line is not in the format of crosstown record"},
		{g.connection, "replay --to=nope", line, exitFailure, "standard input: line 1 was not sent: The messaging entity"},
		{g.connection, "replay --to=calls", line, exitFailure, "line 1 was not sent: "},
		{wrong, "replay", line, exitFailure, "InvalidSignature: The token has an invalid signature: check the policy"},
	} {
		code, _, stderr := g.try(t, c.connection, c.stdin, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("crosstown %s: got %d %s, want %d %q", c.args, code, stderr, c.code, c.want)
		}
	}
	if code, out, _ := g.try(t, g.connection, line+"{}\n"+line, "replay"); code != exitFailure || !strings.Contains(out, "replayed 1 message of standard input") {
		t.Errorf("a replay that ends early: got %d %s", code, out)
	}
	if out := g.command(t, "", "record", "q", "--count=1"); strings.Count(out, "\n") != 1 {
		t.Errorf("--count: got %s", out)
	}
	if out := g.command(t, "", "record", "q", "--for=5s"); strings.Count(out, "\n") != 1 {
		t.Errorf("--for: got %s", out)
	}
}
