package amqp

import (
	"bytes"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := value.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// everything is a message with all sections and the most awkward types.
func everything(t *testing.T, body []byte) []byte {
	t.Helper()
	b := wire.AppendHeader(nil, &wire.Header{Durable: true, Priority: value.Some(uint8(7)), TTL: value.Some(uint32(60_000)), DeliveryCount: 9})
	b = wire.AppendSection(b, wire.DescDeliveryAnnotations, encode(t, value.Map{{Key: value.Symbol("next-hop"), Value: true}}))
	b = wire.AppendSection(b, wire.DescMessageAnnotations, encode(t, value.Map{
		{Key: value.Symbol("x-opt-sequence-number"), Value: int64(99)},
		{Key: value.Symbol("x-opt-lock-token"), Value: value.UUID{1}},
		{Key: value.Symbol("x-opt-partition-id"), Value: int16(1)},
		{Key: value.Symbol("x-opt-message-state"), Value: int32(1)},
		{Key: value.Symbol("x-opt-partition-key"), Value: "key"},
		{Key: value.Symbol("x-opt-via-partition-key"), Value: nil},
		{Key: value.Symbol("own"), Value: value.List{int32(1), nil}},
	}))
	b = wire.AppendProperties(b, &wire.MessageProperties{
		MessageID: wire.ID{Kind: value.KindUUID, Raw: "0123456789abcdef"}, UserID: []byte("user"), To: "to", Subject: "subject",
		ReplyTo: "reply", CorrelationID: wire.ID{Kind: value.KindUint64, Raw: "\x00\x00\x00\x00\x00\x00\x00\x2a"},
		ContentType: "text/plain", ContentEncoding: "gzip", CreationTime: value.Some(value.Timestamp(1000)),
		GroupID: "session", GroupSequence: value.Some(uint32(0)), ReplyToGroupID: "reply-session",
	})
	b = wire.AppendSection(b, wire.DescApplicationProperties, awkward(t))
	b = append(b, body...)
	return wire.AppendSection(b, wire.DescFooter, encode(t, value.Map{{Key: value.Symbol("crc"), Value: uint32(1)}}))
}

// awkward are application properties of types that other protocols do not have.
func awkward(t *testing.T) []byte {
	return encode(t, value.Map{
		{Key: "span", Value: value.Described{Descriptor: value.Symbol("com.microsoft:timespan"), Value: int64(36_000_000_000)}},
		{Key: "decimal", Value: value.Decimal128{15: 1}},
		{Key: "char", Value: value.Char('ß')},
		{Key: "null", Value: nil},
		{Key: "float", Value: float32(1.5)},
		{Key: "when", Value: value.Timestamp(7)},
	})
}

// What the broker does not own leaves as it came, byte for byte.
func TestMessageKeepsEverySection(t *testing.T) {
	t.Parallel()
	data := wire.AppendDataSection(nil, []byte("payload"))
	for name, body := range map[string][]byte{
		"data":           data,
		"data twice":     append(append([]byte{}, data...), data...),
		"value":          wire.AppendSection(nil, wire.DescValue, encode(t, value.Map{{Key: "a", Value: value.Char('x')}})),
		"null":           wire.AppendSection(nil, wire.DescValue, encode(t, nil)),
		"sequence":       wire.AppendSection(nil, wire.DescSequence, encode(t, value.List{int8(1)})),
		"sequence twice": bytes.Repeat(wire.AppendSection(nil, wire.DescSequence, encode(t, value.List{int8(1)})), 2),
	} {
		m, err := decodeMessage(everything(t, body))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		enqueued := time.UnixMilli(5000)
		token := core.NewLockToken(3, 4, 5)
		out := appendDelivery(nil, &core.Delivery{Message: m, BrokerProperties: core.BrokerProperties{
			SequenceNumber: core.SequenceNumber(3, 4), EnqueuedSequenceNumber: 4, EnqueuedTime: enqueued, ExpiresAt: enqueued.Add(time.Minute),
			DeliveryCount: 2, LockToken: token, LockedUntil: enqueued.Add(time.Second), Partitioned: true, DeadLetterSource: "source",
		}}, delivered)
		s, err := wire.SplitMessage(out, value.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		in, _ := wire.SplitMessage(everything(t, body), value.Limits{})
		if s.BodyKind != in.BodyKind || !bytes.Equal(s.Body, in.Body) {
			t.Errorf("%s: body: got %d %x, want %d %x", name, s.BodyKind, s.Body, in.BodyKind, in.Body)
		}
		if !bytes.Equal(s.ApplicationProperties, in.ApplicationProperties) || !bytes.Equal(s.Footer, in.Footer) {
			t.Errorf("%s: properties or footer: got %x, %x", name, s.ApplicationProperties, s.Footer)
		}
		h, err := wire.DecodeHeader(s.Header)
		if want := (wire.Header{Durable: true, Priority: value.Some(uint8(7)), TTL: value.Some(uint32(60_000)), DeliveryCount: 2}); err != nil || h != want {
			t.Errorf("%s: header: got %+v, %v, want %+v", name, h, err, want)
		}
		p, err := wire.DecodeProperties(s.Properties)
		want, _ := wire.DecodeProperties(in.Properties)
		want.AbsoluteExpiryTime = value.Some(value.Timestamp(65_000))
		if err != nil || !equalProperties(p, want) {
			t.Errorf("%s: properties: got %+v, %v, want %+v", name, p, err, want)
		}
		compareAnnotations(t, s.DeliveryAnnotations, value.Map{{Key: value.Symbol("next-hop"), Value: true}, {Key: value.Symbol(annLockToken), Value: value.UUID(token)}})
		compareAnnotations(t, s.MessageAnnotations, value.Map{
			{Key: value.Symbol("own"), Value: value.List{int32(1), nil}},
			{Key: value.Symbol("x-opt-partition-key"), Value: "key"},
			{Key: value.Symbol("x-opt-enqueued-time"), Value: value.Timestamp(5000)},
			{Key: value.Symbol("x-opt-sequence-number"), Value: core.SequenceNumber(3, 4)},
			{Key: value.Symbol("x-opt-enqueue-sequence-number"), Value: int64(4)},
			{Key: value.Symbol("x-opt-locked-until"), Value: value.Timestamp(6000)},
			{Key: value.Symbol("x-opt-partition-id"), Value: int16(3)},
			{Key: value.Symbol("x-opt-deadletter-source"), Value: "source"},
		})
	}
}

func equalProperties(a, b wire.MessageProperties) bool {
	same := bytes.Equal(a.UserID, b.UserID)
	a.UserID, b.UserID = nil, nil
	return same && bytes.Equal(wire.AppendProperties(nil, &a), wire.AppendProperties(nil, &b))
}

func compareAnnotations(t *testing.T, encoded []byte, want value.Map) {
	t.Helper()
	got, _, err := value.Decode(encoded, value.Limits{})
	if err != nil || !value.Equal(got, want) {
		t.Errorf("annotations: got %v, %v\nwant %v", got, err, want)
	}
}

func TestTimeToLive(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		ttl            value.Opt[uint32]
		created, until value.Opt[value.Timestamp]
		want           time.Duration
	}{
		{name: "none"},
		{"a minute", value.Some(uint32(60_000)), value.Opt[value.Timestamp]{}, value.Some(value.Timestamp(9)), time.Minute},
		{"the header's word counts", value.Some(uint32(60_000)), value.Some(value.Timestamp(0)), value.Some(value.Timestamp(9)), time.Minute},
		{"the most that a header can say", value.Some(uint32(math.MaxUint32)), value.Opt[value.Timestamp]{}, value.Opt[value.Timestamp]{}, math.MaxUint32 * time.Millisecond},
		{"more than a header can say", value.Some(uint32(math.MaxUint32)), value.Some(value.Timestamp(0)), value.Some(value.Timestamp(1 << 33)), (1 << 33) * time.Millisecond},
		{"for ever", value.Some(uint32(math.MaxUint32)), value.Some(value.Timestamp(0)), value.Some(value.Timestamp(math.MaxInt64)), core.Forever},
		{"instants that contradict", value.Some(uint32(math.MaxUint32)), value.Some(value.Timestamp(math.MaxInt64)), value.Some(value.Timestamp(math.MinInt64)), math.MaxUint32 * time.Millisecond},
	} {
		got := timeToLive(&wire.Header{TTL: c.ttl}, &wire.MessageProperties{CreationTime: c.created, AbsoluteExpiryTime: c.until})
		if got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// The delivery-tag of token 00112233-4455-6677-8899-aabbccddeeff is that of .NET.
func TestDeliveryTag(t *testing.T) {
	t.Parallel()
	token, err := core.ParseLockToken("00112233-4455-6677-8899-aabbccddeeff")
	if err != nil {
		t.Fatal(err)
	}
	tag := tagOf(&core.Delivery{BrokerProperties: core.BrokerProperties{LockToken: token}})
	if want := [16]byte{0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}; tag != want {
		t.Errorf("got %x, want %x", tag, want)
	}
	if got := swapToken(core.LockToken(tag)); got != token {
		t.Errorf("back: got %v, want %v", got, token)
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	raw := encode(t, value.Map{{Key: value.Symbol("k"), Value: int64(1)}})
	for _, c := range []struct {
		name   string
		state  wire.DeliveryState
		want   core.Outcome
		props  map[string]any
		answer wire.DeliveryState
	}{
		{"accepted", wire.Accepted{}, core.Complete, nil, wire.Accepted{}},
		{"released", wire.Released{}, core.Release, nil, wire.Released{}},
		{"nothing", nil, core.Release, nil, wire.Released{}},
		{"modified", wire.Modified{DeliveryFailed: value.Some(true), MessageAnnotations: raw}, core.Abandon, map[string]any{"k": int64(1)}, wire.Modified{}},
		{"modified, undeliverable", wire.Modified{UndeliverableHere: value.Some(true)}, core.Defer, nil, wire.Modified{}},
		{"rejected", wire.Rejected{}, core.DeadLetterOutcome, nil, wire.Rejected{}},
		{"rejected with info", wire.Rejected{Error: &wire.Error{Condition: wire.CondDeadLetter, Description: "d", Info: value.Map{
			{Key: value.Symbol("DeadLetterReason"), Value: "why"}, {Key: value.Symbol("k"), Value: int64(1)}, {Key: value.Symbol("DeadLetterErrorDescription"), Value: nil},
		}}}, core.DeadLetterOutcome, map[string]any{"DeadLetterReason": "why", "DeadLetterErrorDescription": "d", "k": int64(1)}, wire.Rejected{}},
		{
			"rejected by somebody else",
			wire.Rejected{Error: &wire.Error{Condition: "my:error", Description: "d"}},
			core.DeadLetterOutcome,
			map[string]any{"DeadLetterReason": "my:error", "DeadLetterErrorDescription": "d"},
			wire.Rejected{},
		},
	} {
		s := core.Settlement{}
		item := pileItem{state: c.state}
		if err := outcome(c.state, &s, &item); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := maps.Collect(s.Properties.All())
		same := len(got) == len(c.props)
		for k, v := range c.props {
			same = same && got[k] == v
		}
		answer, _ := wire.AppendFrame(nil, 0, &wire.Disposition{State: item.state}, nil)
		want, _ := wire.AppendFrame(nil, 0, &wire.Disposition{State: c.answer}, nil)
		if s.Outcome != c.want || !same || !bytes.Equal(answer, want) {
			t.Errorf("%s: got %v, %v, answer %T; want %v, %v, %T", c.name, s.Outcome, got, item.state, c.want, c.props, c.answer)
		}
	}
	if err := outcome(wire.TransactionalState{TxnID: []byte{1}}, &core.Settlement{}, &pileItem{}); core.CodeOf(err) != core.InvalidArgument {
		t.Errorf("transactional: got %v, want %v", err, core.InvalidArgument)
	}
}
