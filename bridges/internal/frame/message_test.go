package frame

import (
	"bytes"
	"encoding/base64"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

func mustProperties(t *testing.T, pairs ...core.Property) core.Properties {
	t.Helper()
	p, err := core.NewProperties(pairs...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func encoded(t *testing.T, descriptor uint64, v any) []byte {
	t.Helper()
	b, err := value.Append(value.AppendDescriptor(nil, descriptor), v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func TestMessagesAreReadAsTheyWereMeant(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		json string
		want core.Message
	}{
		{`{}`, core.Message{Body: core.Body{Kind: core.BodyNone}}},
		{`{"binary": ""}`, core.Message{Body: core.Body{Bytes: []byte{}}}},
		{
			`{"broker": {"MessageId": "", "CorrelationId": "", "SessionId": "", "ReplyToSessionId": "", "Subject": "", "To": "", "ReplyTo": "", "ContentType": "",
			  "PartitionKey": ""}, "text": "t"}`,
			core.Message{Body: core.Body{Bytes: []byte("t")}, EmptyText: core.FieldCorrelationID | core.FieldSessionID | core.FieldReplyToSessionID |
				core.FieldSubject | core.FieldTo | core.FieldReplyTo | core.FieldContentType},
		},
		{
			`{"broker": {"MessageId": "m", "CorrelationId": {"$uuid": "00112233-4455-6677-8899-aabbccddeeff"}, "SessionId": "s", "ReplyToSessionId": "rs",
			  "Label": "l", "To": "t", "ReplyTo": "r", "ContentType": "c", "PartitionKey": "s", "ViaPartitionKey": "v", "TimeToLive": 1.5,
			  "ScheduledEnqueueTimeUtc": "2026-01-31T13:00:00+01:00", "SequenceNumber": 7, "LockToken": null}, "properties": {"b": 1, "a": {"$int": 2}}}`,
			core.Message{
				MessageID: core.StringID("m"), CorrelationID: core.UUIDID(someUUID), SessionID: "s", ReplyToSessionID: "rs", Subject: "l", To: "t",
				ReplyTo: "r", ContentType: "c", PartitionKey: "s", ViaPartitionKey: "v", TimeToLive: 1500 * time.Millisecond, ScheduledEnqueueTime: noon,
				Properties: mustProperties(t, core.Property{Key: "b", Value: int64(1)}, core.Property{Key: "a", Value: int32(2)}),
				Body:       core.Body{Kind: core.BodyNone},
			},
		},
		{`{"broker": {"Subject": "l", "MessageId": {"$ulong": 7}, "CorrelationId": {"$binary": "AP8="}}}`, core.Message{
			Subject: "l", MessageID: core.ULongID(7), CorrelationID: core.BinaryID([]byte{0, 255}), Body: core.Body{Kind: core.BodyNone},
		}},
		{`{"text": "ü"}`, core.Message{ContentType: typeText, Body: core.Body{Bytes: []byte("ü")}}},
		{`{"text": "", "broker": {"ContentType": "text/html"}}`, core.Message{ContentType: "text/html", Body: core.Body{Bytes: []byte{}}}},
		{`{"json": { "a" : 1e999 , "b":"\u00fc"} }`, core.Message{ContentType: typeJSON, Body: core.Body{Bytes: []byte(`{ "a" : 1e999 , "b":"\u00fc"}`)}}},
		{`{"json": null}`, core.Message{ContentType: typeJSON, Body: core.Body{Bytes: []byte(`null`)}}},
		{`{"binary": "AP8="}`, core.Message{Body: core.Body{Bytes: []byte{0, 255}}}},
		{`{"value": {"k": [1]}}`, core.Message{Body: core.Body{Kind: core.BodyValue, Bytes: encoded(t, valueSection, value.Map{{Key: "k", Value: value.List{int64(1)}}})}}},
		{`{"sequence": [[1], []]}`, core.Message{Body: core.Body{Kind: core.BodySequence, Bytes: append(encoded(t, sequenceSection, value.List{int64(1)}), encoded(t, sequenceSection, value.List{})...)}}},
	} {
		got, err := ReadMessage(open(t, codec.JSON, []byte(c.json)))
		if err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", c.json, got, err, c.want)
		}
	}
}

func TestInvalidMessageIsRefusedByName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ json, path string }{
		{`7`, ""},
		{`{"body": 1}`, "body"},
		{`{"text": 1}`, "text"},
		{`{"text": "a", "json": 1}`, "json"},
		{`{"text": "a", "text": "b"}`, "text"},
		{`{"broker": 1}`, "broker"},
		{`{"broker": {}, "broker": {}}`, "broker"},
		{`{"broker": {"Lable": "x"}}`, "broker.Lable"},
		{`{"broker": {"Label": 1}}`, "broker.Label"},
		{`{"broker": {"Label": "x", "Subject": "x"}}`, "broker.Label"},
		{`{"broker": {"MessageId": 5}}`, "broker.MessageId"},
		{`{"broker": {"TimeToLive": 0}}`, "broker.TimeToLive"},
		{`{"broker": {"TimeToLive": "PT1M"}}`, "broker.TimeToLive"},
		{`{"broker": {"TimeToLive": -1}}`, "broker.TimeToLive"},
		{`{"broker": {"ScheduledEnqueueTimeUtc": "now"}}`, "broker.ScheduledEnqueueTimeUtc"},
		{`{"broker": {"ScheduledEnqueueTimeUtc": 253402300800000}}`, "broker.ScheduledEnqueueTimeUtc"},
		{`{"properties": []}`, "properties"},
		{`{"properties": {"a": {"$int": "x"}}}`, "properties.a.$int"},
		{`{"properties": {"a": 1, "a": 2}}`, "properties"},
		{`{"binary": "#"}`, "binary"},
		{`{"sequence": []}`, "sequence"},
		{`{"sequence": [1]}`, "sequence[0]"},
		{`{"sequence": [[], [{"$x": 1}]]}`, "sequence[1][0]"},
	} {
		_, err := ReadMessage(open(t, codec.JSON, []byte(c.json)))
		if e, ok := errors.AsType[*Error](err); !ok || e.Path != c.path {
			t.Errorf("%s: got %#v, want an error at %q", c.json, err, c.path)
		}
	}
	w := codec.NewWriter(codec.MessagePack, nil)
	w.OpenMap()
	w.Key("json")
	w.Text("{")
	w.CloseMap()
	if _, err := ReadMessage(open(t, codec.MessagePack, w.Bytes())); err == nil || !strings.Contains(err.Error(), "json is not valid JSON") {
		t.Errorf("JSON that is none, in codec.MessagePack: got %v", err)
	}
}

func TestDeliveriesShowWhatTheyAre(t *testing.T) {
	t.Parallel()
	token := core.NewLockToken(1, 2, 3)
	dataSections := append(encoded(t, 0x75, []byte(`{"a":`)), encoded(t, 0x75, []byte(`1}`))...)
	binary := func(w codec.Writer, d core.Delivery, _ bool) { WriteDelivery(w, d, true) }
	for _, c := range []struct {
		name string
		d    core.Delivery
		show func(codec.Writer, core.Delivery, bool)
		want string
	}{
		{"everything", core.Delivery{
			Message: &core.Message{
				MessageID: core.StringID("m"), CorrelationID: core.ULongID(5), SessionID: "s", ReplyToSessionID: "rs", Subject: "l", To: "t", ReplyTo: "r",
				ContentType: "x", PartitionKey: "p", ViaPartitionKey: "v", TimeToLive: 90 * time.Second, ScheduledEnqueueTime: noon,
				Properties: mustProperties(t, core.Property{Key: "k\"", Value: int32(1)}),
			},
			BrokerProperties: core.BrokerProperties{
				SequenceNumber: 1<<48 | 2, EnqueuedSequenceNumber: 3, EnqueuedTime: noon, ExpiresAt: noon.Add(90 * time.Second), DeliveryCount: 2,
				LockToken: token, LockedUntil: noon.Add(time.Minute), State: core.Deferred, DeadLetterSource: "q",
			},
		}, WriteDelivery, `{"broker":{"MessageId":"m","CorrelationId":{"$ulong":5},"SessionId":"s","ReplyToSessionId":"rs","Label":"l","To":"t","ReplyTo":"r",` +
			`"ContentType":"x","PartitionKey":"p","ViaPartitionKey":"v","TimeToLive":90,"ScheduledEnqueueTimeUtc":"2026-01-31T12:00:00.000Z",` +
			`"SequenceNumber":281474976710658,"EnqueuedSequenceNumber":3,"EnqueuedTimeUtc":"2026-01-31T12:00:00.000Z","ExpiresAtUtc":"2026-01-31T12:01:30.000Z",` +
			`"DeliveryCount":3,"LockToken":"` + token.String() + `","LockedUntilUtc":"2026-01-31T12:01:00.000Z","State":"Deferred","DeadLetterSource":"q"},` +
			`"properties":{"k\"":{"$int":1}},"binary":""}`},
		{"peeked", shown(core.Message{TimeToLive: 1500 * time.Millisecond}), WritePeeked, brokerOf(`"TimeToLive":1.5,`, 0) + `"binary":""}`},
		{"no body", shown(core.Message{Body: core.Body{Kind: core.BodyNone}}), WriteDelivery, strings.TrimSuffix(brokerOf(``, 1), ",") + `}`},
		{
			"empty texts", shown(core.Message{EmptyText: core.FieldTo | core.FieldCorrelationID | core.FieldSessionID | core.FieldContentEncoding}), WriteDelivery,
			brokerOf(`"CorrelationId":"","SessionId":"","To":"",`, 1) + `"binary":""}`,
		},
		{"JSON", shown(core.Message{ContentType: "Application/JSON; charset=utf-8", Body: core.Body{Bytes: []byte("{ \"a\":1.10 }\n")}}), WriteDelivery, brokerOf(`"ContentType":"Application/JSON; charset=utf-8",`, 1) + `"json":{ "a":1.10 }` + "\n}"},
		{"JSON in sections", shown(core.Message{ContentType: "a/b+json", Body: core.Body{Kind: core.BodyDataSections, Bytes: dataSections}}), WriteDelivery, brokerOf(`"ContentType":"a/b+json",`, 1) + `"json":{"a":1}}`},
		{"JSON that is none", shown(core.Message{ContentType: "application/json", Body: core.Body{Bytes: []byte("{")}}), WriteDelivery, brokerOf(`"ContentType":"application/json",`, 1) + `"binary":"ew=="}`},
		{"JSON asked for as binary", shown(core.Message{ContentType: "application/json", Body: core.Body{Bytes: []byte("{}")}}), binary, brokerOf(`"ContentType":"application/json",`, 1) + `"binary":"e30="}`},
		{"text", shown(core.Message{ContentType: "text/plain", Body: core.Body{Bytes: []byte("ü\x00")}}), WriteDelivery, brokerOf(`"ContentType":"text/plain",`, 1) + `"text":"ü\u0000"}`},
		{"XML", shown(core.Message{ContentType: "application/xml", Body: core.Body{Bytes: []byte("<a/>")}}), WriteDelivery, brokerOf(`"ContentType":"application/xml",`, 1) + `"text":"<a/>"}`},
		{"a form", shown(core.Message{ContentType: "application/x-www-form-urlencoded", Body: core.Body{Bytes: []byte("hello")}}), WriteDelivery, brokerOf(`"ContentType":"application/x-www-form-urlencoded",`, 1) + `"text":"hello"}`},
		{"text that is none", shown(core.Message{ContentType: "text/plain", Body: core.Body{Bytes: []byte("\xff")}}), WriteDelivery, brokerOf(`"ContentType":"text/plain",`, 1) + `"binary":"/w=="}`},
		{"value", shown(core.Message{Body: core.Body{Kind: core.BodyValue, Bytes: encoded(t, valueSection, "x")}}), binary, brokerOf(``, 1) + `"value":"x"}`},
		{"sequences", shown(core.Message{Body: core.Body{Kind: core.BodySequence, Bytes: append(encoded(t, sequenceSection, value.List{int64(1)}), encoded(t, sequenceSection, value.List{})...)}}), WriteDelivery, brokerOf(``, 1) + `"sequence":[[1],[]]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := codec.NewWriter(codec.JSON, nil)
			c.show(w, c.d, false)
			if string(w.Bytes()) != c.want {
				t.Errorf("\n got %s\nwant %s", w.Bytes(), c.want)
			}
			again := codec.NewWriter(codec.MessagePack, nil)
			c.show(again, c.d, false)
			fromJSON, err := ReadMessage(open(t, codec.JSON, w.Bytes()))
			if err != nil {
				t.Fatalf("sent on as it is: %v", err)
			}
			fromPack, err := ReadMessage(open(t, codec.MessagePack, again.Bytes()))
			if err != nil || !reflect.DeepEqual(fromJSON, fromPack) && string(fromPack.Body.Bytes) != string(fromJSON.Body.Bytes)+"\n" {
				t.Errorf("\nJSON %+v\nMessagePack %+v, %v", fromJSON, fromPack, err)
			}
		})
	}
}

func shown(m core.Message) core.Delivery {
	return core.Delivery{Message: &m, BrokerProperties: core.BrokerProperties{SequenceNumber: 1, EnqueuedSequenceNumber: 1, EnqueuedTime: noon}}
}

func brokerOf(sent string, deliveries int) string {
	return `{"broker":{` + sent + `"SequenceNumber":1,"EnqueuedSequenceNumber":1,"EnqueuedTimeUtc":"2026-01-31T12:00:00.000Z","DeliveryCount":` + string(rune('0'+deliveries)) + `,"State":"Active"},`
}

// A large body is written in no more than 4/3 of its bytes, whatever it holds: what gives deliveries
// memory relies on it. It is written as text, JSON or a value where that is possible.
func TestLargeBodiesTakeNoMoreThanTheirBase64(t *testing.T) {
	t.Parallel()
	const size = 3 * Large
	data := func(part string) []byte { return encoded(t, 0x75, []byte(part)) }
	many := bytes.Repeat(data("abcd"), size/8)
	for name, c := range map[string]struct {
		contentType string
		body        core.Body
		json, pack  string // the member; the bytes of binary are compared
		bytes       []byte
	}{
		"text":            {"text/plain", core.Body{Bytes: bytes.Repeat([]byte("a"), size)}, "text", "text", nil},
		"escapes":         {"text/plain", core.Body{Bytes: bytes.Repeat([]byte{1}, size)}, "binary", "text", bytes.Repeat([]byte{1}, size)},
		"quotes":          {"text/plain", core.Body{Bytes: bytes.Repeat([]byte(`"`), size)}, "binary", "text", bytes.Repeat([]byte(`"`), size)},
		"JSON":            {"application/json", core.Body{Bytes: []byte(`"` + strings.Repeat(`\u0001`, size/6) + `"`)}, "json", "json", nil},
		"sections":        {"text/plain", core.Body{Kind: core.BodyDataSections, Bytes: many}, "binary", "binary", bytes.Repeat([]byte("abcd"), size/8)},
		"value: text":     {"", core.Body{Kind: core.BodyValue, Bytes: encoded(t, 0x77, strings.Repeat("a", size))}, "value", "value", nil},
		"value: escapes":  {"", core.Body{Kind: core.BodyValue, Bytes: encoded(t, 0x77, strings.Repeat("\x01", size))}, "binary", "value", nil},
		"value: binary":   {"", core.Body{Kind: core.BodyValue, Bytes: encoded(t, 0x77, make([]byte, size))}, "value", "value", nil},
		"value: list":     {"", core.Body{Kind: core.BodyValue, Bytes: encoded(t, 0x77, value.List{strings.Repeat("\x01", size)})}, "binary", "binary", nil},
		"sequence":        {"", core.Body{Kind: core.BodySequence, Bytes: bytes.Repeat(encoded(t, 0x76, value.List{nil, nil}), size/7)}, "binary", "binary", nil},
		"of another kind": {"", core.Body{Kind: core.BodyDataSections, Bytes: encoded(t, 0x75, strings.Repeat("x", size))}, "binary", "binary", nil},
	} {
		for encoding, member := range map[codec.Encoding]string{codec.JSON: c.json, codec.MessagePack: c.pack} {
			w := codec.NewWriter(encoding, nil)
			m := &core.Message{ContentType: c.contentType, Body: c.body}
			WriteMessage(w, m)
			most := len(c.body.Bytes)*4/3 + 100
			if len(w.Bytes()) > most {
				t.Errorf("%s: %d bytes are written of a body of %d", name, len(w.Bytes()), len(c.body.Bytes))
			}
			members, err := Split(NewReader(encoding), w.Bytes(), nil)
			if err != nil || len(members) != 2 || members[1].Key != member {
				t.Errorf("%s: %v, %d members, want %s", name, err, len(members), member)
				continue
			}
			if c.bytes != nil && member == "binary" && !bytes.Equal(readBinary(encoding, members[1].Value), c.bytes) {
				t.Errorf("%s: other bytes are read than were written", name)
			}
		}
	}
}

func readBinary(e codec.Encoding, encoded []byte) []byte {
	r := NewReader(e)
	if r.Reset(encoded, true); r.Kind() == codec.Binary {
		return r.Binary()
	}
	data, _ := base64.StdEncoding.AppendDecode(nil, r.Text())
	return data
}

// Parts of any size make the base64 of the whole.
func TestPartsOfABinary(t *testing.T) {
	t.Parallel()
	for _, lengths := range [][]int{{}, {0}, {1}, {1, 1}, {1, 1, 1}, {2, 2}, {4, 0, 2, 1}, {3, 3}, {5, 7, 1}} {
		var parts [][]byte
		var whole []byte
		for _, n := range lengths {
			parts = append(parts, bytes.Repeat([]byte{byte(0xf0 + len(parts))}, n))
			whole = append(whole, parts[len(parts)-1]...)
		}
		for _, e := range []codec.Encoding{codec.JSON, codec.MessagePack} {
			got, want := codec.NewWriter(e, nil), codec.NewWriter(e, nil)
			got.BinaryParts(len(whole), slices.Values(parts))
			want.Binary(whole)
			if !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("%v: got %q, want %q", lengths, got.Bytes(), want.Bytes())
			}
		}
	}
}
