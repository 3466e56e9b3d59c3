package amqp

import (
	"bytes"
	"errors"
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
	b := wire.AppendHeader(nil, &wire.Header{Durable: value.Some(true), Priority: value.Some(uint8(7)), TTL: value.Some(uint32(60_000)), FirstAcquirer: value.Some(false), DeliveryCount: 9})
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
		"none":           nil,
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
		}}, form{})
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
		if want := (wire.Header{Durable: value.Some(true), Priority: value.Some(uint8(7)), TTL: value.Some(uint32(60_000)), FirstAcquirer: value.Some(false), DeliveryCount: 2}); err != nil || h != want {
			t.Errorf("%s: header: got %+v, %v, want %+v", name, h, err, want)
		}
		p, err := wire.DecodeProperties(s.Properties)
		want, _ := wire.DecodeProperties(in.Properties)
		want.AbsoluteExpiryTime = value.Some(value.Timestamp(61_000))
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

// Clients tell a text that was set to the empty string from one that was not set.
func TestEmptyTextsAreNotAbsentOnes(t *testing.T) {
	t.Parallel()
	const all = core.FieldTo | core.FieldSubject | core.FieldReplyTo | core.FieldCorrelationID | core.FieldContentType |
		core.FieldContentEncoding | core.FieldSessionID | core.FieldReplyToSessionID
	for _, empty := range []core.TextFields{
		0, all, core.FieldTo, core.FieldSubject, core.FieldReplyTo, core.FieldCorrelationID, core.FieldContentType,
		core.FieldContentEncoding, core.FieldSessionID, core.FieldReplyToSessionID,
	} {
		sent := wire.MessageProperties{Empty: uint16(empty &^ core.FieldCorrelationID)}
		if empty&core.FieldCorrelationID != 0 {
			sent.CorrelationID.Kind = value.KindString
		}
		m, err := decodeMessage(wire.AppendProperties(nil, &sent))
		if err != nil || m.EmptyText != empty || m.HasSession() != (empty&core.FieldSessionID != 0) {
			t.Fatalf("%b: read as %b, in a session %v, %v", empty, m.EmptyText, m.HasSession(), err)
		}
		for name, encoded := range map[string][]byte{"delivered": appendDelivery(nil, &core.Delivery{Message: m}, form{}), "relayed": AppendMessage(nil, m)} {
			s, err := wire.SplitMessage(encoded, value.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if p, err := wire.DecodeProperties(s.Properties); err != nil || !equalProperties(p, sent) {
				t.Errorf("%b, %s: got %+v, %v, want %+v", empty, name, p, err, sent)
			}
		}
	}
}

// The Python SDK's live tests send the empty partition key, and want delivery annotations with what was received and deleted.
func TestAnEmptyPartitionKeyIsNotAnAbsentOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sent any
		want string
	}{"empty": {"", "x-opt-partition-key"}, "null": {nil, ""}} {
		annotations := wire.AppendSection(nil, wire.DescMessageAnnotations, encode(t, value.Map{{Key: value.Symbol("x-opt-partition-key"), Value: c.sent}}))
		m, err := decodeMessage(wire.AppendDataSection(annotations, nil))
		if err != nil {
			t.Fatal(err)
		}
		for form, encoded := range map[string][]byte{"delivered": appendDelivery(nil, &core.Delivery{Message: m}, form{}), "relayed": AppendMessage(nil, m)} {
			s, err := wire.SplitMessage(encoded, value.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for k := range value.MapEntries(s.MessageAnnotations) {
				if string(k) == "x-opt-partition-key" {
					got = string(k)
				}
			}
			if got != c.want {
				t.Errorf("%s, %s: got the annotation %q, want %q", name, form, got, c.want)
			}
			if form == "delivered" && s.DeliveryAnnotations == nil {
				t.Errorf("%s: no section of delivery annotations", name)
			}
		}
	}
}

// The Python SDK encodes the annotations of a received message again when it sends the message on: texts as binary.
func TestAnnotationsWithTextTakeBinary(t *testing.T) {
	t.Parallel()
	read := func(v any) (*core.Message, error) {
		return decodeMessage(wire.AppendSection(nil, wire.DescMessageAnnotations, encode(t, value.Map{
			{Key: value.Symbol("x-opt-partition-key"), Value: v}, {Key: value.Symbol("x-opt-via-partition-key"), Value: v},
		})))
	}
	for _, v := range []any{"kéy", value.Symbol("kéy"), []byte("kéy")} {
		if m, err := read(v); err != nil || m.PartitionKey != "kéy" || m.ViaPartitionKey != "kéy" {
			t.Errorf("%T: got %+v, %v", v, m, err)
		}
	}
	for _, v := range []any{int32(7), []byte{0xff}, true} {
		if m, err := read(v); !errors.Is(err, core.InvalidArgument) {
			t.Errorf("%v: got %+v, %v, want a refusal", v, m, err)
		}
	}
}

// The Java SDK sends its footer with strings for keys, and reads symbols alone.
func TestFooterKeysBecomeSymbols(t *testing.T) {
	t.Parallel()
	data := wire.AppendDataSection(nil, nil)
	for _, c := range []struct {
		name       string
		sent, want value.Map
	}{
		{"strings", value.Map{{Key: "a", Value: "x"}, {Key: "b", Value: int32(1)}}, value.Map{{Key: value.Symbol("a"), Value: "x"}, {Key: value.Symbol("b"), Value: int32(1)}}},
		{"symbols", value.Map{{Key: value.Symbol("a"), Value: "x"}}, value.Map{{Key: value.Symbol("a"), Value: "x"}}},
		{"nothing", value.Map{}, value.Map{}},
	} {
		m, err := decodeMessage(wire.AppendSection(bytes.Clone(data), wire.DescFooter, encode(t, c.sent)))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got, _, err := value.Decode(m.Footer, value.Limits{})
		if err != nil || !value.Equal(got, c.want) {
			t.Errorf("%s: got %v, %v, want %v", c.name, got, err, c.want)
		}
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

// Clients take the time to live from the difference of two instants.
func TestTheLifeOfAMessageIsItsExpiryLessItsCreation(t *testing.T) {
	t.Parallel()
	created, enqueued, expiry := time.UnixMilli(1_000_001), time.UnixMilli(1_000_777), time.UnixMilli(9_000_000)
	const days = 24 * time.Hour
	for _, c := range []struct {
		name                     string
		m                        core.Message
		wantCreated, wantExpires time.Time
	}{
		{"the sender's time to live", core.Message{CreationTime: created, AbsoluteExpiryTime: expiry, TimeToLive: 50 * time.Second}, created, created.Add(50 * time.Second)},
		{"the queue's", core.Message{TimeToLive: 100 * days}, enqueued, enqueued.Add(100 * days)},
		{"the queue's, of a message with a creation time", core.Message{CreationTime: created, TimeToLive: 100 * days}, created, created.Add(100 * days)},
		{"none", core.Message{AbsoluteExpiryTime: expiry}, time.Time{}, expiry},
		{"none, all as sent", core.Message{CreationTime: created, AbsoluteExpiryTime: expiry}, created, expiry},
		{"for ever", core.Message{CreationTime: created, AbsoluteExpiryTime: expiry, TimeToLive: core.Forever}, created, expiry},
	} {
		d := &core.Delivery{Message: &c.m, BrokerProperties: core.BrokerProperties{EnqueuedTime: enqueued, ExpiresAt: enqueued.Add(time.Second)}}
		s, err := wire.SplitMessage(appendDelivery(nil, d, form{}), value.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := wire.DecodeProperties(s.Properties)
		stamp := func(t time.Time) value.Opt[value.Timestamp] {
			if t.IsZero() {
				return value.Opt[value.Timestamp]{}
			}
			return value.Some(value.TimestampOf(t))
		}
		if err != nil || p.CreationTime != stamp(c.wantCreated) || p.AbsoluteExpiryTime != stamp(c.wantExpires) {
			t.Errorf("%s: got %v to %v, %v, want %v to %v", c.name, p.CreationTime, p.AbsoluteExpiryTime, err, stamp(c.wantCreated), stamp(c.wantExpires))
		}
		// Another gateway reads the same life.
		if c.m.TimeToLive == 0 || c.m.TimeToLive == core.Forever {
			continue
		}
		if m, err := decodeMessage(AppendMessage(nil, &c.m)); err != nil || m.TimeToLive != c.m.TimeToLive {
			t.Errorf("%s, relayed: got %v, %v, want %v", c.name, m.TimeToLive, err, c.m.TimeToLive)
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
		{"rejected with other types", wire.Rejected{Error: &wire.Error{Condition: wire.CondDeadLetter, Info: value.Map{
			{Key: value.Symbol("DeadLetterReason"), Value: value.Timestamp(5)}, {Key: value.Symbol("DeadLetterErrorDescription"), Value: int64(7)},
		}}}, core.DeadLetterOutcome, map[string]any{"DeadLetterReason": value.Timestamp(5), "DeadLetterErrorDescription": int64(7)}, wire.Rejected{}},
		{"rejected with a symbol", wire.Rejected{Error: &wire.Error{Condition: wire.CondDeadLetter, Info: value.Map{
			{Key: value.Symbol("DeadLetterReason"), Value: value.Symbol("why")},
		}}}, core.DeadLetterOutcome, map[string]any{"DeadLetterReason": "why"}, wire.Rejected{}},
		{
			"rejected by somebody else",
			wire.Rejected{Error: &wire.Error{Condition: "my:error", Description: "d"}},
			core.DeadLetterOutcome,
			map[string]any{"DeadLetterReason": "my:error", "DeadLetterErrorDescription": "d"},
			wire.Rejected{},
		},
	} {
		s := core.Settlement{}
		item := settleItem{state: c.state}
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
	if err := outcome(wire.TransactionalState{TxnID: []byte{1}}, &core.Settlement{}, &settleItem{}); core.CodeOf(err) != core.InvalidArgument {
		t.Errorf("transactional: got %v, want %v", err, core.InvalidArgument)
	}
}

func TestTheLifeOfAScheduledMessageBeginsWithItsEnqueuing(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		now := time.Now()
		snd, err := s.OpenSender(t.Context(), rootIdentity, core.At("plain"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer snd.Close()
		snd.Send(t.Context(), [][]*core.Message{{{CreationTime: now, AbsoluteExpiryTime: now.Add(time.Minute), TimeToLive: time.Minute, ScheduledEnqueueTime: now.Add(time.Hour)}}})
		want := func(when string, m wire.Sections, from time.Time) {
			t.Helper()
			p, err := wire.DecodeProperties(m.Properties)
			if err != nil || p.CreationTime != value.Some(value.TimestampOf(from)) || p.AbsoluteExpiryTime != value.Some(value.TimestampOf(from.Add(time.Minute))) {
				t.Errorf("%s: got %v to %v (%v), want a minute from %v on", when, p.CreationTime, p.AbsoluteExpiryTime, err, from)
			}
		}
		p, _ := s.connect(t)
		ds, err := s.Peek(t.Context(), rootIdentity, core.At("plain"), nil, 0, 1)
		if err != nil || len(ds) != 1 {
			t.Fatalf("peek: got %v, %v", ds, err)
		}
		want("while it waits", p.sections(appendDelivery(nil, &ds[0], form{peeked: true})), now.Add(time.Hour))
		time.Sleep(3 * time.Minute) // the client says something now and then
		for range 19 {
			p.send(0, &wire.Flow{IncomingWindow: 1000, OutgoingWindow: 100, NextIncomingID: value.Some(uint32(0))})
			time.Sleep(3 * time.Minute)
		}
		p.attach(0, wire.RoleReceiver, "plain")
		p.flowTo(0, 0, 0, 1, false)
		tr, payload := p.receiveTransfer()
		if tr == nil {
			t.Fatal("no message")
		}
		want("once it is enqueued", p.sections(payload), now.Add(time.Hour))
	})
}
