package rightstest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/gateway/internal/wsstream"
)

type socket struct {
	conn *websocket.Conn
	last int
}

type reply struct {
	Op              string  `json:"op"`
	ID              int     `json:"id"`
	Code            string  `json:"code"`
	Text            string  `json:"text"`
	Operator        bool    `json:"operator"`
	SequenceNumbers []int64 `json:"sequenceNumbers"`
	Messages        []struct {
		Broker struct {
			MessageID      string `json:"MessageId"`
			SequenceNumber int64  `json:"SequenceNumber"`
		} `json:"broker"`
	} `json:"messages"`
	Entities []struct {
		Name string `json:"name"`
	} `json:"entities"`
	Results []*reply `json:"results"`
}

func dial(t *testing.T, g *Gateway, host, path, protocol string) (*websocket.Conn, error) {
	t.Helper()
	_, port, _ := net.SplitHostPort(g.address)
	d := websocket.Dialer{Subprotocols: []string{protocol}, HandshakeTimeout: patience}
	conn, answer, err := d.DialContext(t.Context(), "ws://"+g.address+path, http.Header{"Host": {net.JoinHostPort(host, port)}})
	if answer != nil {
		_ = answer.Body.Close()
	}
	return conn, err
}

func dialNative(t *testing.T, g *Gateway, host string) (*socket, error) {
	t.Helper()
	conn, err := dial(t, g, host, "/$crosstown/ws", "crosstown.v1.json")
	return &socket{conn: conn}, err
}

func (s *socket) ask(request map[string]any) (*reply, error) {
	s.last++
	request["id"] = s.last
	if err := s.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if err := s.conn.WriteJSON(request); err != nil {
		return nil, err
	}
	for {
		var r reply
		_, frame, err := s.conn.ReadMessage()
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(frame, &r); err != nil || r.ID == s.last {
			return &r, err
		}
	}
}

// A socketOperation is a request, with the requests that follow it (then).
type socketOperation struct {
	needs   string
	request string // JSON
	then    []string
	lock    string // entity in which the owner locks a message, whose token replaces {token}
	by      string // topic to which that message is sent
	planned string // entity in which the owner schedules a message, whose number replaces {number}
	before  string
	creates string
}

var socketOperations = []socketOperation{
	{needs: "Send orders", request: `{"op":"send","entity":"orders","messages":[{"text":"m"}]}`},
	{needs: "Send orders/express", request: `{"op":"send","entity":"orders/express","messages":[{"broker":{"MessageId":"{cell}"},"text":"m"}]}`},
	{needs: "Send orders2", request: `{"op":"send","entity":"orders2","messages":[{"text":"m"},{"text":"n"}]}`},
	{needs: "Send news", request: `{"op":"send","entity":"news","messages":[{"text":"m"}]}`},
	{needs: "Send orders", request: `{"op":"send","entity":"orders","messages":[{"broker":{"ScheduledEnqueueTimeUtc":"2100-01-01T00:00:00.000Z"},"text":"m"}]}`},
	{needs: "Send orders", request: `{"op":"cancel","entity":"orders","sequenceNumbers":[{number}]}`, planned: "orders"},
	{needs: "Listen orders", request: `{"op":"feed","feed":1,"entity":"orders"}`},
	{needs: "Listen orders/$deadletterqueue", request: `{"op":"feed","feed":1,"entity":"orders/$DeadLetterQueue","mode":"receiveAndDelete","credit":1}`},
	{needs: "Listen orders/express", request: `{"op":"feed","feed":1,"entity":"orders/express"}`},
	{needs: "Listen news/subscriptions/s", request: `{"op":"feed","feed":1,"entity":"news/Subscriptions/s"}`},
	{needs: "Listen news/subscriptions/s/$deadletterqueue", request: `{"op":"feed","feed":1,"entity":"news/Subscriptions/s/$DeadLetterQueue"}`},
	{needs: "Listen orders", request: `{"op":"settle","entity":"orders","settlements":[{"lockToken":"{token}","outcome":"abandon"}]}`, lock: "orders"},
	{needs: "Listen orders", request: `{"op":"settle","entity":"orders","settlements":[{"lockToken":"{token}","outcome":"deadLetter"}]}`, lock: "orders"},
	{needs: "Listen news/subscriptions/s", request: `{"op":"settle","entity":"news/Subscriptions/s","settlements":[{"lockToken":"{token}","outcome":"complete"}]}`, lock: "news/subscriptions/s", by: "news"},
	{needs: "Listen orders", request: `{"op":"renew","entity":"orders","lockTokens":["{token}"]}`, lock: "orders"},
	{needs: "Listen orders", request: `{"op":"peek","entity":"orders","max":1}`},
	{needs: "Listen orders/express", request: `{"op":"peek","entity":"orders/express","max":1}`},
	{needs: "Listen orders/$deadletterqueue", request: `{"op":"peek","entity":"orders/$deadletterqueue","max":1}`},
	{needs: "Listen orders", request: `{"op":"receiveDeferred","entity":"orders","sequenceNumbers":[281474976710000]}`},
	{needs: "Listen orders", request: `{"op":"purge","entity":"orders","before":"2000-01-01T00:00:00.000Z"}`},
	{needs: "Listen sessions", request: `{"op":"feed","feed":1,"entity":"sessions","session":"w{n}"}`, then: []string{
		`{"op":"setState","feed":1,"state":"x"}`, `{"op":"state","feed":1}`, `{"op":"renewSession","feed":1}`,
	}},
	{needs: "Listen sessions", request: `{"op":"sessions","entity":"sessions","top":1}`},
	{needs: "Manage", request: `{"op":"entities","kind":"queue","top":1}`},
	{needs: "Manage", request: `{"op":"entities","kind":"topic","top":1}`},
	{needs: "Manage news", request: `{"op":"entities","kind":"subscription","topic":"news","top":1}`},
	{needs: "Manage orders", request: `{"op":"entity","entity":"orders"}`},
	{needs: "Manage orders/express", request: `{"op":"entity","entity":"orders/express"}`},
	{needs: "Manage news/subscriptions/s", request: `{"op":"entity","entity":"news/Subscriptions/s"}`},
	{needs: "Manage new-{n}", request: `{"op":"create","kind":"queue","entity":"new-{n}"}`, creates: "new-{n}"},
	{needs: "Manage orders/new-{n}, Send orders/express", request: `{"op":"create","kind":"queue","entity":"orders/new-{n}","settings":{"ForwardTo":"orders/express"}}`, creates: "orders/new-{n}"},
	{needs: "Manage news/subscriptions/w{n}", request: `{"op":"create","kind":"subscription","entity":"news/Subscriptions/w{n}"}`},
	{needs: "Manage orders/plain", request: `{"op":"update","entity":"orders/plain","settings":{"UserMetadata":"{n}"}}`},
	{needs: "Manage orders/gone-{n}", request: `{"op":"delete","entity":"orders/gone-{n}"}`, before: `{"op":"create","kind":"queue","entity":"orders/gone-{n}"}`},
	{needs: "Manage news/subscriptions/s", request: `{"op":"rules","entity":"news/Subscriptions/s"}`},
	{needs: "Manage news/subscriptions/s", request: `{"op":"createRule","entity":"news/Subscriptions/s","rule":{"name":"w{n}","filter":{"kind":"false"}}}`},
	{needs: "Manage news/subscriptions/s", request: `{"op":"updateRule","entity":"news/Subscriptions/s","rule":{"name":"$Default","filter":{"kind":"true"}}}`},
	{needs: "Manage news/subscriptions/s", request: `{"op":"deleteRule","entity":"news/Subscriptions/s","name":"v{n}"}`, before: `{"op":"createRule","entity":"news/Subscriptions/s","rule":{"name":"v{n}","filter":{"kind":"false"}}}`},
	{needs: "Manage news", request: `{"op":"testRules","entity":"news/Subscriptions/s","message":{"text":"m"}}`},
	{needs: "Manage", request: `{"op":"connections"}`},
}

func overWebSocket(t *testing.T, g *Gateway, c *credential, p pool) {
	var chosen []*socketOperation
	for i := range socketOperations {
		if p.chosen("WebSocket", c.name, socketOperations[i].request) {
			chosen = append(chosen, &socketOperations[i])
		}
	}
	if c.rights != "" {
		p.run(func() { c.trySocket(t, g, chosen) })
		return
	}
	for i := range chosen { // the gateway closes a connection without a valid sign-in
		p.run(func() { c.trySocket(t, g, chosen[i:i+1]) })
	}
}

func (c *credential) trySocket(t *testing.T, g *Gateway, all []*socketOperation) {
	t.Helper()
	s := c.signIn(t, g)
	if s == nil {
		return
	}
	defer func() { _ = s.conn.Close() }()
	for _, o := range all {
		o.try(t, g.try(c, "WebSocket", o.request), s)
	}
}

func (c *credential) signIn(t *testing.T, g *Gateway) *socket {
	t.Helper()
	s, err := dialNative(t, g, c.host)
	if err != nil {
		t.Errorf("WebSocket, %s: %v", c.name, err)
		return nil
	}
	r, err := s.ask(map[string]any{"op": "auth", "token": c.token})
	if err != nil || (r.Op == "ok") != (c.rights != "") || r.Op != "ok" && r.Code != "unauthorized" && r.Code != "invalid_argument" {
		t.Errorf("WebSocket, %s: sign in: got %+v (error: %v), want accepted %v", c.name, r, err, c.rights != "")
	} else if r.Operator != c.manages(home) {
		t.Errorf("WebSocket, %s: sign in: got operator %v, want %v", c.name, r.Operator, c.manages(home))
	}
	return s
}

func (o *socketOperation) try(t *testing.T, y *try, s *socket) {
	t.Helper()
	need := y.fill(o.needs)
	y.may = y.c.may(need, "")
	y.expect(strings.TrimPrefix(need, "Send "), o.creates)
	text := y.fill(o.request)
	if o.lock != "" {
		into := o.lock
		if o.by != "" {
			into = o.by
		}
		_, token, _ := strings.Cut(y.owner().lock(t, y.may, into, o.lock), "/")
		text = strings.Replace(text, "{token}", token, 1)
	}
	if o.planned != "" {
		text = strings.Replace(text, "{number}", strconv.FormatInt(y.owner().schedule(t, y.may, o.planned), 10), 1)
	}
	if o.before != "" {
		text = y.owner().prepare(y.may, o.before, func() string {
			y.owner().must(t, decode(t, y.fill(o.before)))
			return text
		})
	}
	a, err := answerTo(s, decode(t, text))
	if err != nil {
		t.Errorf("WebSocket, %s, %s: %v", y.c.name, text, err)
		return
	}
	for _, next := range o.then {
		if b, err := answerTo(s, decode(t, y.fill(next))); a.allowed && (err != nil || !b.allowed) {
			t.Errorf("WebSocket, %s, %s: got %+v, %v, want allowed, because the first step was allowed", y.c.name, next, b, err)
		} else if !a.allowed && b.allowed {
			t.Errorf("WebSocket, %s, %s: allowed, although the first step was refused", y.c.name, next)
		}
	}
	y.check(t, a)
	if text := decode(t, text); text["op"] == "feed" && a.allowed {
		if b, err := answerTo(s, map[string]any{"op": "end", "feed": 1}); err != nil || !b.allowed {
			t.Errorf("WebSocket, %s: end: got %+v, %v, want allowed", y.c.name, b, err)
		}
	}
}

const notSignedIn = 4401

func answerTo(s *socket, request map[string]any) (answer, error) {
	r, err := s.ask(request)
	if websocket.IsCloseError(err, notSignedIn) || errors.Is(err, net.ErrClosed) || errors.Is(err, websocket.ErrCloseSent) {
		return answer{refused: true}, nil
	}
	if err != nil {
		return answer{}, err
	}
	for _, item := range append([]*reply{r}, r.Results...) {
		switch {
		case item == nil || item.Code == "":
		case item.Code == "unauthorized":
			return answer{refused: true, text: item.Text}, nil
		case item.Code == "message_not_found":
		default:
			return answer{text: item.Code + ": " + item.Text}, nil
		}
	}
	return answer{allowed: true}, nil
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Errorf("%s: %v", text, err)
	}
	return m
}

func dialTunnel(t *testing.T, g *Gateway, host string) (net.Conn, error) {
	t.Helper()
	conn, err := dial(t, g, host, "/$servicebus/websocket", "amqp")
	if err != nil {
		return nil, err
	}
	return wsstream.New(conn), nil
}

func dialPlain(t *testing.T, g *Gateway, _ string) (net.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return (&net.Dialer{}).DialContext(ctx, "tcp", g.address)
}
