package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/crosstown-mq/crosstown/core/value"
)

// The descriptors of body sections (AMQP 1.0 §3.2.6 to §3.2.8).
const (
	dataSection     = 0x75
	sequenceSection = 0x76
	valueSection    = 0x77
)

// section encodes a section of a message.
func section(e *env, descriptor uint64, v any) []byte {
	e.Helper()
	b, err := value.Append(nil, value.Described{Descriptor: descriptor, Value: v})
	if err != nil {
		e.Fatal(err)
	}
	return b
}

// A body arrives over AMQP as it was encoded, whoever sent it, and over the
// other protocols in the form they have for it.
func TestBodiesOfEveryKindArriveOverEveryProtocol(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue, n := e.queue(nil), e.native()
		const odd = "{ \"b\" : 9007199254740993.10,\t\"a\" : null }"
		for _, c := range []struct {
			name     string
			kind     string // the content type
			encoded  []byte
			member   string // in the WebSocket protocol
			body     string // over HTTPS
			bodyKind string
			senders  string // A, W, H
		}{
			{"text", "text/plain", section(e, dataSection, []byte("grüße")), `"text":"grüße"`, "grüße", "text/plain", "AWH"},
			{"JSON", "application/json", section(e, dataSection, []byte(odd)), `"json":` + odd, odd, "application/json", "AWH"},
			{"JSON of a kind", "application/cloudevents+json", section(e, dataSection, []byte(`[]`)), `"json":[]`, "[]", "application/cloudevents+json", "AWH"},
			{"JSON that is none", "application/json", section(e, dataSection, []byte("{")), `"binary":"ew=="`, "{", "application/json", "AWH"},
			{"bytes", "", section(e, dataSection, []byte{0, 255}), `"binary":"AP8="`, "\x00\xff", "application/octet-stream", "AW"},
			{"nothing", "image/png", section(e, dataSection, []byte{}), `"binary":""`, "", "image/png", "AWH"},
			{"several data", "", append(section(e, dataSection, []byte("a")), section(e, dataSection, []byte("b"))...), `"binary":"YWI="`, "ab", "application/octet-stream", "A"},
			{"a text value", "", section(e, valueSection, "text"), `"value":"text"`, "text", "text/plain; charset=utf-8", "AW"},
			{"null", "", section(e, valueSection, nil), `"value":null`, "null", "application/json", "AW"},
			{
				"a map", "", section(e, valueSection, value.Map{{Key: "k", Value: value.List{int32(1), "two", nil}}, {Key: "l", Value: value.ArrayOf([]uint8{1, 2})}}),
				`"value":{"k":[{"$int":1},"two",null],"l":{"$array":["ubyte",[1,2]]}}`, `{"k":[1,"two",null],"l":[1,2]}`, "application/json", "AW",
			},
			{
				"sequences", "", append(section(e, sequenceSection, value.List{int32(1)}), section(e, sequenceSection, value.List{"two", true})...),
				`"sequence":[[{"$int":1}],["two",true]]`, `[[1],["two",true]]`, "application/json", "AW",
			},
		} {
			for _, sender := range c.senders {
				switch sender {
				case 'A':
					w := e.wire(queue, false)
					kind := value.List{nil, nil, nil, nil, nil, nil, value.Symbol(c.kind)}
					if c.kind == "" {
						kind = value.List{}
					}
					w.send(append(section(e, 0x73, kind), c.encoded...))
					w.close()
				case 'W':
					r := n.askAs(fmt.Sprintf(`"op":"send","entity":%q,"messages":[{"broker":{"ContentType":%q},%s}]`, queue, c.kind, c.member))
					if r.Op != "ok" {
						e.Fatalf("%s: got %s: %s", c.name, r.Code, r.Text)
					}
				case 'H':
					e.wantHTTP(e.http(http.MethodPost, queue+"/messages", c.body, http.Header{"Content-Type": {c.kind}}), http.StatusCreated)
				}
				peeked := n.must(map[string]any{"op": "peek", "entity": queue}).Messages
				if len(peeked) != 1 || !bytes.HasSuffix(peeked[0], []byte(c.member+"}")) {
					e.Errorf("%s of %c over WebSocket: got %s, want %s", c.name, sender, peeked, c.member)
				}
				reply := e.manage(queue, "com.microsoft:peek-message", map[string]any{"from-sequence-number": int64(0), "message-count": int32(1)})
				messages, _ := reply["messages"].([]any)
				entry, _ := messages[0].(map[string]any)
				if encoded, _ := entry["message"].([]byte); !bytes.HasSuffix(encoded, c.encoded) {
					e.Errorf("%s of %c over AMQP: got %x, want %x at its end", c.name, sender, encoded, c.encoded)
				}
				a := e.wantHTTP(e.http(http.MethodDelete, queue+"/messages/head?timeout=10", "", nil), http.StatusOK)
				if got := a.header.Get("Content-Type"); a.body != c.body || got != c.bodyKind {
					e.Errorf("%s of %c over HTTPS: got %q of type %s, want %q of type %s", c.name, sender, a.body, got, c.body, c.bodyKind)
				}
			}
		}
	})
}
