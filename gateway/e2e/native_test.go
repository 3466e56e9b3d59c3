package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/core/auth"
)

// native is a client of the gateway's own WebSocket protocol, in JSON. It
// serves one goroutine.
type native struct {
	*env
	conn  *websocket.Conn
	last  int
	inbox []json.RawMessage // delivered, and not asked for yet
}

// nativeReply is what the gateway answers, or says by itself.
type nativeReply struct {
	Op              string            `json:"op"`
	ID              int               `json:"id"`
	Code            string            `json:"code"`
	Text            string            `json:"text"`
	Tracking        string            `json:"tracking"`
	SequenceNumbers []int64           `json:"sequenceNumbers"`
	Messages        []json.RawMessage `json:"messages"`
	Results         []*nativeReply    `json:"results"`
	Judgements      []struct {
		Subscription, Rule string
		Matched            bool
		Why                []string
		Error              string
		Message            struct{ Broker struct{ Label string } }
	} `json:"judgements"`
}

// native connects and signs in with the development policy.
func (e *env) native() *native {
	e.Helper()
	d := websocket.Dialer{Subprotocols: []string{"crosstown.v1.json"}, TLSClientConfig: e.tls(), HandshakeTimeout: patience}
	scheme := "ws://"
	if !e.plain {
		scheme = "wss://"
	}
	conn, answer, err := d.DialContext(e.ctx(), scheme+e.gw.host+"/$crosstown/ws", nil)
	if answer != nil {
		_ = answer.Body.Close() // it is empty, or says what err does
	}
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { _ = conn.Close() })
	n := &native{env: e, conn: conn}
	n.must(map[string]any{"op": "auth", "token": auth.SignSAS("http://"+e.gw.host+"/", devPolicy, devKey, time.Now().Add(time.Hour))})
	return n
}

// ask sends a request and waits for its answer. What is delivered meanwhile is kept.
func (n *native) ask(request map[string]any) *nativeReply {
	n.Helper()
	n.last++
	request["id"] = n.last
	frame, err := json.Marshal(request)
	if err != nil {
		n.Fatal(err)
	}
	return n.exchange(frame)
}

// askAs is ask with the members of the request as they are written.
func (n *native) askAs(members string) *nativeReply {
	n.Helper()
	n.last++
	return n.exchange(fmt.Appendf(nil, `{"id":%d,%s}`, n.last, members))
}

func (n *native) exchange(frame []byte) *nativeReply {
	n.Helper()
	if err := n.conn.WriteMessage(websocket.TextMessage, frame); err != nil {
		n.Fatal(err)
	}
	for {
		if r := n.read(); r.ID == n.last {
			return r
		}
	}
}

// must is ask for what must succeed, with all its items.
func (n *native) must(request map[string]any) *nativeReply {
	n.Helper()
	r := n.ask(request)
	if r.Op != "ok" {
		n.Fatalf("%v: got %s: %s", request, r.Code, r.Text)
	}
	for _, item := range r.Results {
		if item != nil && item.Code != "" {
			n.Fatalf("%v: got %s: %s", request, item.Code, item.Text)
		}
	}
	return r
}

func (n *native) read() *nativeReply {
	n.Helper()
	if err := n.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		n.Fatal(err)
	}
	kind, frame, err := n.conn.ReadMessage()
	if err != nil || kind != websocket.TextMessage {
		n.Fatalf("got a message of kind %d, %v", kind, err)
	}
	var r nativeReply
	if err := json.Unmarshal(frame, &r); err != nil {
		n.Fatalf("%s: %v", frame, err)
	}
	if r.Op == "deliver" {
		n.inbox = append(n.inbox, r.Messages...)
	}
	return &r
}

// next is the next message that is delivered.
func (n *native) next() json.RawMessage {
	n.Helper()
	for len(n.inbox) == 0 {
		n.read()
	}
	m := n.inbox[0]
	n.inbox = n.inbox[1:]
	return m
}

// members are those of a JSON object, each as it is written but for its space.
func members(e *env, object json.RawMessage) map[string]string {
	e.Helper()
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(object, &raw); err != nil {
		e.Fatalf("%s: %v", object, err)
	}
	all := make(map[string]string, len(raw))
	for name, v := range raw {
		var b bytes.Buffer
		if err := json.Compact(&b, v); err != nil {
			e.Fatalf("%s: %v", v, err)
		}
		all[name] = b.String()
	}
	return all
}

// quoted is a text in JSON.
func quoted(s string) string { return fmt.Sprintf("%q", s) }
