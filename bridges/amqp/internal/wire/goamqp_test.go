package wire

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/value"
)

// messages are what the client library encodes and decodes.
func messages() []*amqp.Message {
	created := time.UnixMilli(1_700_000_000_123).UTC()
	return []*amqp.Message{
		amqp.NewMessage([]byte("hi")),
		{
			Header:              &amqp.MessageHeader{Durable: true, Priority: 7, TTL: 90 * time.Second, FirstAcquirer: true, DeliveryCount: 3},
			DeliveryAnnotations: amqp.Annotations{"x-opt-lock-token": amqp.UUID{1, 2, 3}},
			Annotations:         amqp.Annotations{"x-opt-sequence-number": int64(77), "x-opt-enqueued-time": created},
			Properties: &amqp.MessageProperties{
				MessageID: "m", UserID: []byte("u"), To: new("to"), Subject: new("s"), ReplyTo: new("r"), CorrelationID: amqp.UUID{9},
				ContentType: new("text/plain"), ContentEncoding: new("utf-8"), AbsoluteExpiryTime: &created, CreationTime: &created,
				GroupID: new("g"), GroupSequence: new(uint32(5)), ReplyToGroupID: new("rg"),
			},
			ApplicationProperties: map[string]any{
				"bool": true, "ubyte": uint8(1), "ushort": uint16(2), "uint": uint32(3), "ulong": uint64(4), "byte": int8(-1), "short": int16(-2),
				"int": int32(-3), "long": int64(-4), "float": float32(1.5), "double": 2.5, "time": created, "uuid": amqp.UUID{7},
				"binary": []byte{1}, "string": "text", "null": nil,
			},
			Data:   [][]byte{bytes.Repeat([]byte("x"), 1000)},
			Footer: amqp.Annotations{"f": "v"},
		},
		{Properties: &amqp.MessageProperties{MessageID: uint64(12), CorrelationID: uint64(1 << 40)}, Data: [][]byte{{1}, {2}, {}}},
		{Properties: &amqp.MessageProperties{MessageID: []byte{1, 2}}, Value: "text"},
		{Value: map[string]any{"a": int32(1)}},
		{Value: []amqp.UUID{{1}, {2}}},
		{Sequence: [][]any{{int32(1), "two"}, {true}}},
	}
}

func TestMessagesOfTheClientLibraryAreRead(t *testing.T) {
	t.Parallel()
	for i, m := range messages() {
		b, err := m.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		s, err := SplitMessage(b, value.Limits{})
		if err != nil {
			t.Errorf("message %d: %v", i, err)
			continue
		}
		// Rebuilt from what was read, by our own encoders, it is the same message to the client library.
		var got, want amqp.Message
		if err := got.UnmarshalBinary(rebuild(t, s)); err != nil {
			t.Errorf("message %d: the client library refuses ours: %v", i, err)
			continue
		}
		if err := want.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("message %d: got\n%+v, want\n%+v", i, got, want)
		}
	}
}

// rebuild decodes every section of s and encodes it again.
func rebuild(t *testing.T, s Sections) []byte {
	t.Helper()
	var b []byte
	if s.Header != nil {
		h, err := DecodeHeader(s.Header)
		if err != nil {
			t.Fatal(err)
		}
		b = AppendHeader(b, &h)
	}
	again := func(d Descriptor, raw []byte) {
		if raw == nil {
			return
		}
		v, rest, err := value.Decode(raw, value.Limits{})
		if err != nil || len(rest) != 0 {
			t.Fatalf("%s: %v", d, err)
		}
		b = AppendSection(b, d, encoded(v))
	}
	again(DescDeliveryAnnotations, s.DeliveryAnnotations)
	again(DescMessageAnnotations, s.MessageAnnotations)
	if s.Properties != nil {
		p, err := DecodeProperties(s.Properties)
		if err != nil {
			t.Fatal(err)
		}
		b = AppendProperties(b, &p)
	}
	again(DescApplicationProperties, s.ApplicationProperties)
	if s.BodyKind == BodyData {
		b = AppendDataSection(b, s.Body)
	} else {
		b = append(b, s.Body...)
	}
	again(DescFooter, s.Footer)
	return b
}

func TestPropertiesOfTheClientLibraryAreRead(t *testing.T) {
	t.Parallel()
	b, err := messages()[1].MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	s, err := SplitMessage(b, value.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := DecodeProperties(s.Properties)
	if err != nil {
		t.Fatal(err)
	}
	created := value.Some[value.Timestamp](1_700_000_000_123)
	want := MessageProperties{
		MessageID: ID{value.KindString, "m"}, UserID: []byte("u"), To: "to", Subject: "s", ReplyTo: "r",
		CorrelationID: ID{value.KindUUID, "\x09" + string(make([]byte, 15))}, ContentType: "text/plain", ContentEncoding: "utf-8",
		AbsoluteExpiryTime: created, CreationTime: created, GroupID: "g", GroupSequence: value.Some[uint32](5), ReplyToGroupID: "rg",
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v, want %+v", p, want)
	}
	h, err := DecodeHeader(s.Header)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Header{value.Some(true), value.Some[uint8](7), value.Some[uint32](90000), value.Some(true), 3}); h != want {
		t.Errorf("got %+v, want %+v", h, want)
	}
	v, _, err := value.Decode(s.ApplicationProperties, value.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := v.(value.Map).Get("uuid"); got != (value.UUID{7}) {
		t.Errorf("got uuid %v", got)
	}
	if got := len(v.(value.Map)); got != 16 {
		t.Errorf("got %d application properties, want 16", got)
	}
}
