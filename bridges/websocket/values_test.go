package websocket

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

var someUUID = value.UUID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}

// everyType has a user property of each AMQP type that may be one.
var everyType = []struct {
	name string
	json string
	want any
}{
	{"null", `null`, nil},
	{"boolean", `true`, true},
	{"string", `"ü\u0000😀"`, "ü\x00\U0001F600"},
	{"long", `-7`, int64(-7)},
	{"long beyond 2^53", `{"$long":"9007199254740993"}`, int64(9007199254740993)},
	{"largest long", `{"$long":"9223372036854775807"}`, int64(math.MaxInt64)},
	{"double", `0.1`, 0.1},
	{"whole double", `{"$double":3}`, 3.0},
	{"infinity", `{"$double":"Infinity"}`, math.Inf(1)},
	{"int", `{"$int":-2147483648}`, int32(math.MinInt32)},
	{"short", `{"$short":-1}`, int16(-1)},
	{"byte", `{"$byte":-1}`, int8(-1)},
	{"uint", `{"$uint":4294967295}`, uint32(math.MaxUint32)},
	{"ushort", `{"$ushort":1}`, uint16(1)},
	{"ubyte", `{"$ubyte":255}`, uint8(255)},
	{"ulong", `{"$ulong":"18446744073709551615"}`, uint64(math.MaxUint64)},
	{"float", `{"$float":1.5}`, float32(1.5)},
	{"decimal32", `{"$decimal32":"00112233"}`, value.Decimal32{0, 0x11, 0x22, 0x33}},
	{"decimal64", `{"$decimal64":"0011223344556677"}`, value.Decimal64{0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77}},
	{"decimal128", `{"$decimal128":"00112233445566778899aabbccddeeff"}`, value.Decimal128(someUUID)},
	{"timestamp", `{"$timestamp":"2026-01-31T12:00:00.123Z"}`, value.Timestamp(1769860800123)},
	{"uuid", `{"$uuid":"00112233-4455-6677-8899-aabbccddeeff"}`, someUUID},
	{"binary", `{"$binary":"AP8="}`, []byte{0, 0xff}},
	{"symbol", `{"$symbol":"s"}`, value.Symbol("s")},
	{"char", `{"$char":"€"}`, value.Char('€')},
	{"time span", `{"$described":[{"$symbol":"com.microsoft:timespan"},600000000]}`, value.Described{Descriptor: value.Symbol("com.microsoft:timespan"), Value: int64(600000000)}},
}

func TestTypesOfPropertiesSurvive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		p := h.connect()
		var members []string
		for _, c := range everyType {
			members = append(members, fmt.Sprintf("%q:%s", c.name, c.json))
		}
		properties := "{" + strings.Join(members, ",") + "}"
		p.ok("send", object{"entity": "q", "messages": []object{{"properties": json.RawMessage(properties)}}})
		stored, err := h.broker.Peek(context.Background(), root, core.At("q"), nil, 1, 1)
		if err != nil || len(stored) != 1 {
			t.Fatalf("got %v, %v", stored, err)
		}
		for _, c := range everyType {
			if got, ok := stored[0].Properties.Get(c.name); !ok || !value.Equal(got, c.want) {
				t.Errorf("%s: stored as %#v, want %#v", c.name, got, c.want)
			}
		}
		p.send("peek", object{"entity": "q"})
		if frame := string(p.next().data); !strings.Contains(frame, `"properties":`+properties) {
			t.Errorf("JSON:\n got %s\nwant %s", frame, properties)
		}
		pack := h.dial(protocolPack)
		pack.ok("auth", object{"token": rootToken})
		pack.ok("feed", object{"feed": 1, "entity": "q", "credit": 1})
		// What a client of the other encoding receives it can send as it is.
		var f struct {
			Messages []msgpack.RawMessage `msgpack:"messages"`
		}
		if err := msgpack.Unmarshal(pack.next().data, &f); err != nil || len(f.Messages) != 1 {
			t.Fatalf("got %v, %v", f, err)
		}
		again, err := msgpack.Marshal(map[string]any{"op": "send", "id": 99, "entity": "q", "messages": f.Messages})
		if err != nil {
			t.Fatal(err)
		}
		if err := pack.ws.WriteMessage(2, again); err != nil {
			t.Fatal(err)
		}
		if got := pack.answer(99); got["op"] != "ok" {
			t.Fatalf("sent on: got %v", got)
		}
		twice, err := h.broker.Peek(context.Background(), root, core.At("q"), nil, 2, 1)
		if err != nil || len(twice) != 1 || string(twice[0].Properties.Encoded()) != string(stored[0].Properties.Encoded()) || twice[0].MessageID != stored[0].MessageID {
			t.Errorf("sent on, properties became %v, %v", twice, err)
		}
	})
}

func TestBodiesAndBrokerPropertiesSurviveInBothEncodings(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, protocol := range []string{protocolJSON, protocolPack} {
			h := openHouse(t, Options{}, "q")
			p := h.dial(protocol)
			p.ok("auth", object{"token": rootToken})
			at := time.Now().Add(time.Second).UTC().Format("2006-01-02T15:04:05.000Z")
			broker := object{
				"MessageId": "m", "CorrelationId": "c", "SessionId": "s", "ReplyToSessionId": "rs", "Label": "l", "To": "t", "ReplyTo": "r", "ContentType": "x/y",
				"PartitionKey": "s", "ViaPartitionKey": "v", "TimeToLive": 90.5, "ScheduledEnqueueTimeUtc": at,
			}
			p.ok("send", object{"entity": "q", "messages": []object{{"broker": broker}, {"text": "ü"}, {"json": object{"a": []int{1, 2}}}, {"value": "v"}, {"sequence": [][]int{{1}, {2}}}}})
			time.Sleep(2 * time.Second)
			p.ok("feed", object{"feed": 1, "entity": "q", "credit": 5})
			var got []string
			for _, m := range p.deliveries(1, 5) {
				if b := broke(m); b["MessageId"] == "m" {
					for name, want := range broker {
						if b[name] != want {
							t.Errorf("%s: %s: got %v, want %v", protocol, name, b[name], want)
						}
					}
					if b["ExpiresAtUtc"] == nil || b["EnqueuedTimeUtc"] == nil {
						t.Errorf("%s: got %v", protocol, b)
					}
					continue
				}
				for _, member := range []any{m["text"], m["json"], m["value"], m["sequence"], broke(m)["ContentType"]} {
					if member != nil {
						got = append(got, fmt.Sprint(member))
					}
				}
			}
			want := "ü|text/plain; charset=utf-8|map[a:[1 2]]|application/json|v|[[1] [2]]"
			if protocol == protocolPack { // where a JSON body is a text
				want = strings.Replace(want, "map[a:[1 2]]", `{"a":[1,2]}`, 1)
			}
			if got := strings.Join(got, "|"); got != want {
				t.Errorf("%s:\n got %s\nwant %s", protocol, got, want)
			}
		}
	})
}

func TestAJSONBodyIsPassedOnAsItIs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		p := h.connect()
		const body = `{ "b" : 12345678901234567890.10 , "a":[ ]}`
		p.write(`{"op":"send","id":50,"entity":"q","messages":[{"json":` + body + `}]}`)
		p.asked[50] = "send"
		p.answer(50)
		stored, err := h.broker.Peek(context.Background(), root, core.At("q"), nil, 1, 1)
		if err != nil || len(stored) != 1 || string(stored[0].Body.Bytes) != body || stored[0].ContentType != "application/json" || stored[0].Body.Kind != core.BodyData {
			t.Fatalf("got %+v, %v", stored, err)
		}
		p.send("peek", object{"entity": "q"})
		if frame := string(p.next().data); !strings.Contains(frame, `"json":`+body+`}`) {
			t.Errorf("got %s", frame)
		}
	})
}
