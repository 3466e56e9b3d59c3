package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/value"
)

// exchange sends a message and receives it, both with go-amqp.
func exchange(e *env, queue string, m *amqp.Message) *amqp.Message {
	e.Helper()
	session := e.amqp()
	defer func() { _ = session.Close(e.ctx()) }() // its credit must not take a later message
	s, err := session.NewSender(e.ctx(), queue, nil)
	if err != nil {
		e.Fatal(err)
	}
	if err := s.Send(e.ctx(), m, nil); err != nil {
		e.Fatal(err)
	}
	r, err := session.NewReceiver(e.ctx(), queue, nil)
	if err != nil {
		e.Fatal(err)
	}
	got, err := r.Receive(e.ctx(), nil)
	if err != nil {
		e.Fatal(err)
	}
	if err := r.AcceptMessage(e.ctx(), got); err != nil {
		e.Fatal(err)
	}
	return got
}

func TestPropertiesKeepTheirAMQPTypes(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		want := map[string]any{
			"null": nil, "true": true, "false": false,
			"ubyte": uint8(255), "ushort": uint16(65535), "uint": uint32(1 << 31), "uint0": uint32(0), "ulong": uint64(1 << 63), "ulong5": uint64(5),
			"byte": int8(-128), "short": int16(-5), "int": int32(-70000), "long": int64(-1 << 62), "long5": int64(5),
			"float": float32(1.25), "double": 2.5, "string": "grüße", "empty": "",
			"binary": []byte{0, 255}, "uuid": amqp.UUID{1, 2, 3, 15: 16}, "timestamp": time.UnixMilli(784111777123), // go-amqp decodes local times
		}
		m := amqp.NewMessage([]byte("x"))
		m.ApplicationProperties = want
		got := exchange(e, queue, m).ApplicationProperties
		if len(got) != len(want) {
			e.Errorf("got %d properties, want %d", len(got), len(want))
		}
		for k, w := range want {
			if !reflect.DeepEqual(got[k], w) {
				e.Errorf("%s: got %#v, want %#v", k, got[k], w)
			}
		}
	})
}

// rawProperties are encoded properties of every AMQP primitive type, the ones
// included that go-amqp does not know.
func rawProperties(e *env) []byte {
	e.Helper()
	b, mark := value.OpenMap(nil)
	n := 0
	for _, p := range []struct {
		key     string
		encoded []byte // AMQP 1.0 §1.6
	}{
		{"null", []byte{0x40}},
		{"true", []byte{0x41}},
		{"true-long", []byte{0x56, 1}},
		{"false", []byte{0x42}},
		{"ubyte", []byte{0x50, 9}},
		{"ushort", []byte{0x60, 1, 2}},
		{"uint", []byte{0x70, 1, 2, 3, 4}},
		{"smalluint", []byte{0x52, 7}},
		{"uint0", []byte{0x43}},
		{"ulong", []byte{0x80, 1, 2, 3, 4, 5, 6, 7, 8}},
		{"smallulong", []byte{0x53, 7}},
		{"ulong0", []byte{0x44}},
		{"byte", []byte{0x51, 0xfe}},
		{"short", []byte{0x61, 0xff, 1}},
		{"int", []byte{0x71, 0xff, 2, 3, 4}},
		{"smallint", []byte{0x54, 0xf0}},
		{"long", []byte{0x81, 0xff, 2, 3, 4, 5, 6, 7, 8}},
		{"smalllong", []byte{0x55, 0xf0}},
		{"float", []byte{0x72, 0x3f, 0xa0, 0, 0}},
		{"double", []byte{0x82, 0x40, 4, 0, 0, 0, 0, 0, 0}},
		{"decimal32", []byte{0x74, 0x22, 0x50, 0, 1}},
		{"decimal64", []byte{0x84, 0x22, 0x34, 0, 0, 0, 0, 0, 1}},
		{"decimal128", append([]byte{0x94, 0x22, 0x08}, make([]byte, 14)...)},
		{"char", []byte{0x73, 0, 1, 0xf6, 0}},
		{"timestamp", []byte{0x83, 0, 0, 0, 0xb6, 0x90, 0x11, 0x22, 0x33}},
		{"uuid", append([]byte{0x98}, []byte("0123456789abcdef")...)},
		{"vbin8", []byte{0xa0, 2, 0, 255}},
		{"str8", []byte{0xa1, 2, 'h', 'i'}},
		{"sym8", []byte{0xa3, 2, 'h', 'i'}},
		{"str32", []byte{0xb1, 0, 0, 0, 1, 'x'}},
		{"timespan", append([]byte{0x00, 0xa3, 22}, append([]byte("com.microsoft:timespan"), 0x55, 100)...)},
	} {
		b = append(value.AppendString(b, p.key), p.encoded...)
		n++
	}
	return value.CloseMap(b, mark, n)
}

func TestEveryPrimitiveTypeIsKeptByteForByte(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		properties := rawProperties(e)
		// go-amqp cannot encode all types, but carries an encoded message inside a batch.
		inner := append(value.AppendDescriptor(nil, 0x74), properties...)
		inner = value.AppendBinary(value.AppendDescriptor(inner, 0x75), []byte("body"))
		s, err := e.amqp().NewSender(e.ctx(), queue, nil)
		if err != nil {
			e.Fatal(err)
		}
		const batchFormat = 0x80013700
		if err := s.Send(e.ctx(), &amqp.Message{Format: batchFormat, Data: [][]byte{inner}}, nil); err != nil {
			e.Fatal(err)
		}
		// Nor can it decode all, but peek-message answers with encoded messages.
		reply := e.manage(queue, "com.microsoft:peek-message", map[string]any{"from-sequence-number": int64(0), "message-count": int32(1)})
		messages, _ := reply["messages"].([]any)
		if len(messages) != 1 {
			e.Fatalf("got %#v, want one message", reply)
		}
		entry, _ := messages[0].(map[string]any)
		encoded, _ := entry["message"].([]byte)
		if !bytes.Contains(encoded, properties) {
			e.Errorf("got message %x,\nwant the properties %x in it", encoded, properties)
		}
		// HTTP has fewer types, but each property has a header.
		a := e.wantHTTP(e.http(http.MethodDelete, queue+"/messages/head?timeout=10", "", nil), http.StatusOK)
		for k, want := range map[string]string{
			"true": "true", "true-long": "true", "false": "false", "ubyte": "9", "ushort": "258", "smalluint": "7", "byte": "-2", "smallint": "-16",
			"smalllong": "-16", "float": "1.25", "double": "2.5", "str8": `"hi"`, "sym8": `"hi"`, "uint0": "0", "ulong": "72623859790382856",
			"uuid": `"30313233-3435-3637-3839-616263646566"`,
		} {
			if got := a.header.Get(k); got != want {
				e.Errorf("%s: got %s, want %s", k, got, want)
			}
		}
	})
}

func TestBodiesAreHandedBackVerbatim(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		for name, m := range map[string]*amqp.Message{
			"one data":      {Data: [][]byte{[]byte("x")}},
			"empty data":    {Data: [][]byte{{}}},
			"several data":  {Data: [][]byte{[]byte("a"), {}, []byte("c")}},
			"string value":  {Value: "text"},
			"map value":     {Value: map[string]any{"a": int32(1), "b": []any{"x", uint8(2), nil}}},
			"list value":    {Value: []any{int64(1), "two", true, 4.5}},
			"binary value":  {Value: []byte{1, 2}},
			"one sequence":  {Sequence: [][]any{{int32(1), "two"}}},
			"two sequences": {Sequence: [][]any{{int32(1)}, {"two", amqp.Symbol("three")}}},
		} {
			got := exchange(e, queue, m)
			if fmt.Sprintf("%#v%#v%#v", got.Data, got.Value, got.Sequence) != fmt.Sprintf("%#v%#v%#v", m.Data, m.Value, m.Sequence) {
				e.Errorf("%s: got %#v %#v %#v, want %#v %#v %#v", name, got.Data, got.Value, got.Sequence, m.Data, m.Value, m.Sequence)
			}
		}
	})
}

func TestValueBodiesAreRenderedForHTTP(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		s, err := e.amqp().NewSender(e.ctx(), queue, nil)
		if err != nil {
			e.Fatal(err)
		}
		for _, tt := range []struct {
			m    *amqp.Message
			want string
		}{
			{&amqp.Message{Value: "text"}, "text"},
			{&amqp.Message{Value: []byte("bytes")}, "bytes"},
			{&amqp.Message{Value: []any{int32(1), "two", true}}, `[1,"two",true]`},
			{&amqp.Message{Value: map[string]any{"k": int32(1)}}, `{"k":1}`},
			{&amqp.Message{Sequence: [][]any{{int32(1), "two"}}}, `[1,"two"]`},
			{&amqp.Message{Data: [][]byte{[]byte("a"), []byte("b")}}, "ab"},
		} {
			if err := s.Send(e.ctx(), tt.m, nil); err != nil {
				e.Fatal(err)
			}
			a := e.wantHTTP(e.http(http.MethodDelete, queue+"/messages/head?timeout=10", "", nil), http.StatusOK)
			if a.body != tt.want {
				e.Errorf("got %s, want %s", a.body, tt.want)
			}
		}
	})
}

func TestEveryStandardPropertyIsKept(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		created := time.UnixMilli(1_700_000_000_123)
		m := &amqp.Message{
			Header: &amqp.MessageHeader{Durable: true, Priority: 7, TTL: time.Hour, DeliveryCount: 9},
			Annotations: amqp.Annotations{
				"x-mine": "kept", "x-opt-sequence-number": int64(77), "x-opt-partition-key": "s",
			},
			Properties: &amqp.MessageProperties{
				MessageID: uint64(12), UserID: []byte("me"), To: new("to"), Subject: new("subject"), ReplyTo: new("reply"),
				CorrelationID: amqp.UUID{9}, ContentType: new("a/b"), ContentEncoding: new("gzip"), CreationTime: &created,
				GroupID: new("s"), GroupSequence: new(uint32(3)), ReplyToGroupID: new("rs"),
			},
			Data:   [][]byte{[]byte("x")},
			Footer: amqp.Annotations{"checksum": int64(5)},
		}
		got := exchange(e, queue, m)
		want := *m.Properties
		want.AbsoluteExpiryTime = got.Properties.AbsoluteExpiryTime
		if !reflect.DeepEqual(*got.Properties, want) {
			e.Errorf("properties: got %+v, want %+v", *got.Properties, want)
		}
		if got.Properties.AbsoluteExpiryTime == nil {
			e.Error("there is no absolute expiry time")
		}
		if got.Header.TTL != time.Hour || got.Header.Priority != 7 || got.Header.DeliveryCount != 0 {
			e.Errorf("header: got %+v, want ttl 1h, priority 7 and no earlier delivery", got.Header)
		}
		if got.Annotations["x-mine"] != "kept" || got.Annotations["x-opt-sequence-number"] != int64(1) || got.Annotations["x-opt-partition-key"] != "s" {
			e.Errorf("annotations: got %v; want the sender's own kept, the broker's replaced", got.Annotations)
		}
		if !reflect.DeepEqual(got.Footer, m.Footer) {
			e.Errorf("footer: got %v, want %v", got.Footer, m.Footer)
		}
	})
}
