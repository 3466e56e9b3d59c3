package rightstest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
)

type peer struct {
	ctx     context.Context
	session *amqp.Session
	nodes   map[string]*node
}

type node struct {
	requests *amqp.Sender
	replies  *amqp.Receiver
	err      error
}

const unauthorized amqp.ErrCond = "amqp:unauthorized-access"

func classify(err error) answer {
	if err == nil {
		return answer{allowed: true}
	}
	if told, ok := errors.AsType[*amqp.Error](err); ok && told.Condition == unauthorized {
		return answer{refused: true, text: told.Description}
	}
	if link, ok := errors.AsType[*amqp.LinkError](err); ok && link.RemoteErr != nil && link.RemoteErr.Condition == unauthorized {
		return answer{refused: true, text: link.RemoteErr.Description}
	}
	return answer{text: err.Error()}
}

func (p *peer) node(address string) *node {
	if n := p.nodes[address]; n != nil {
		return n
	}
	n := &node{}
	p.nodes[address] = n
	n.replies, n.err = p.session.NewReceiver(p.ctx, address, &amqp.ReceiverOptions{TargetAddress: "replies"})
	var err error
	if n.requests, err = p.session.NewSender(p.ctx, address, nil); n.err == nil {
		n.err = err
	}
	return n
}

func (p *peer) request(address string, headers map[string]any, body any) (*amqp.Message, error) {
	n := p.node(address)
	if n.err != nil {
		return nil, n.err
	}
	err := n.requests.Send(p.ctx, &amqp.Message{
		Properties: &amqp.MessageProperties{MessageID: uint64(1), ReplyTo: new("replies")}, ApplicationProperties: headers, Value: body,
	}, nil)
	if err != nil {
		return nil, err
	}
	return n.replies.Receive(p.ctx, nil)
}

func (p *peer) put(token string) (bool, error) {
	kind := "servicebus.windows.net:sastoken"
	if after, ok := strings.CutPrefix(token, "Bearer "); ok {
		kind, token = "jwt", after
	}
	m, err := p.request("$cbs", map[string]any{"operation": "put-token", "type": kind, "name": ""}, token)
	if err != nil {
		return false, err
	}
	switch status := m.ApplicationProperties["status-code"]; status {
	case int32(202):
		return true, nil
	case int32(401):
		return false, nil
	default:
		return false, fmt.Errorf("put-token: %v", m.ApplicationProperties)
	}
}

func (p *peer) ask(entity, operation string, body map[string]any) answer {
	m, err := p.request(entity+"/$management", map[string]any{"operation": "com.microsoft:" + operation}, body)
	if err != nil {
		return classify(err)
	}
	status, _ := m.ApplicationProperties["statusCode"].(int32)
	text := fmt.Sprint(m.ApplicationProperties)
	return answer{refused: status == 401, allowed: status >= 200 && status < 300 || strings.Contains(text, "message-not-found"), text: text}
}

type amqpOperation struct {
	needs string
	name  string
	do    func(t *testing.T, y *try, p *peer) answer
}

func sends(entity string) amqpOperation {
	return amqpOperation{"Send " + entity, "send to " + entity, func(_ *testing.T, y *try, p *peer) answer {
		s, err := p.session.NewSender(p.ctx, entity, nil)
		if err != nil {
			return classify(err)
		}
		err = s.Send(p.ctx, &amqp.Message{Properties: &amqp.MessageProperties{MessageID: y.id}, Data: [][]byte{[]byte("m")}}, nil)
		return classify(errors.Join(err, s.Close(p.ctx)))
	}}
}

func sendsVia(entity, through string) amqpOperation {
	return amqpOperation{"Send " + entity + ", Send " + through, "send to " + entity + " through " + through, func(_ *testing.T, _ *try, p *peer) answer {
		s, err := p.session.NewSender(p.ctx, through, &amqp.SenderOptions{Properties: map[string]any{"com.microsoft:transfer-destination-address": entity}})
		if err != nil {
			return classify(err)
		}
		return classify(s.Close(p.ctx))
	}}
}

func receives(entity string, deletes bool) amqpOperation {
	return amqpOperation{"Listen " + entity, fmt.Sprintf("receive from %s, deleting %v", entity, deletes), func(_ *testing.T, _ *try, p *peer) answer {
		o := &amqp.ReceiverOptions{Credit: -1}
		if deletes {
			o.RequestedSenderSettleMode = amqp.SenderSettleModeSettled.Ptr()
		}
		r, err := p.session.NewReceiver(p.ctx, entity, o)
		if err != nil {
			return classify(err)
		}
		return classify(r.Close(p.ctx))
	}}
}

func requests(needs, entity, operation string, body func(t *testing.T, y *try) map[string]any) amqpOperation {
	return amqpOperation{needs + " " + entity, operation + " at " + entity, func(t *testing.T, y *try, p *peer) answer {
		return p.ask(entity, operation, body(t, y))
	}}
}

func given(body map[string]any) func(*testing.T, *try) map[string]any {
	return func(*testing.T, *try) map[string]any { return body }
}

func withLock(into, from string, body map[string]any) func(*testing.T, *try) map[string]any {
	return func(t *testing.T, y *try) map[string]any {
		_, token, _ := strings.Cut(y.owner().lock(t, y.may, into, from), "/")
		var u amqp.UUID
		if _, err := hex.Decode(u[:], []byte(strings.ReplaceAll(token, "-", ""))); err != nil {
			t.Error(err)
		}
		all := map[string]any{"lock-tokens": []amqp.UUID{u}}
		maps.Copy(all, body)
		return all
	}
}

func withRule(prefix string) func(*testing.T, *try) map[string]any {
	return func(_ *testing.T, y *try) map[string]any {
		return map[string]any{"rule-name": prefix + y.id, "rule-description": map[string]any{"sql-filter": map[string]any{"expression": "1=0"}}}
	}
}

func acceptsSession(_ *testing.T, y *try, p *peer) answer {
	id := "a" + y.id
	r, err := p.session.NewReceiver(p.ctx, "sessions", &amqp.ReceiverOptions{
		Credit: -1, Filters: []amqp.LinkFilter{amqp.NewLinkFilter("com.microsoft:session-filter", 0x00000137000000C, id)},
	})
	a := classify(err)
	for operation, body := range map[string]map[string]any{
		"set-session-state": {"session-id": id, "session-state": []byte("x")}, "get-session-state": {"session-id": id}, "renew-session-lock": {"session-id": id},
	} {
		if got := p.ask("sessions", operation, body); got.allowed != a.allowed {
			return answer{text: operation + " after " + a.text + ": " + got.text}
		}
	}
	if err == nil {
		a = classify(r.Close(p.ctx))
	}
	return a
}

var amqpOperations = []amqpOperation{
	sends("orders"), sends("orders/express"), sends("orders2"), sends("news"), sendsVia("orders/express", "orders"), sendsVia("orders2", "orders"),
	receives("orders", false), receives("orders", true), receives("orders/$deadletterqueue", false), receives("orders/express", false), receives("orders2", true),
	receives("news/subscriptions/s", false), receives("news/subscriptions/s", true), receives("news/subscriptions/s/$deadletterqueue", false),
	{"Listen sessions", "accept a session", acceptsSession},
	requests("Listen", "orders", "renew-lock", withLock("orders", "orders", nil)),
	requests("Listen", "orders", "update-disposition", withLock("orders", "orders", map[string]any{"disposition-status": "abandoned"})),
	requests("Listen", "news/subscriptions/s", "update-disposition", withLock("news", "news/subscriptions/s", map[string]any{"disposition-status": "completed"})),
	requests("Listen", "orders", "peek-message", given(map[string]any{"from-sequence-number": int64(1), "message-count": int32(1)})),
	requests("Listen", "orders/express", "peek-message", given(map[string]any{"from-sequence-number": int64(1), "message-count": int32(1)})),
	requests("Listen", "orders/$deadletterqueue", "peek-message", given(map[string]any{"from-sequence-number": int64(1), "message-count": int32(1)})),
	requests("Listen", "orders", "receive-by-sequence-number", given(map[string]any{"sequence-numbers": []int64{281474976710000}, "receiver-settle-mode": uint32(1)})),
	requests("Listen", "orders", "batch-delete-messages", given(map[string]any{"message-count": int32(1), "enqueued-time-utc": time.Unix(1, 0)})),
	requests("Listen", "sessions", "get-message-sessions", given(map[string]any{"last-updated-time": time.Unix(1, 0), "skip": int32(0), "top": int32(1)})),
	requests("Send", "orders", "schedule-message", func(t *testing.T, y *try) map[string]any {
		message, err := (&amqp.Message{
			Properties: &amqp.MessageProperties{MessageID: y.id}, Annotations: amqp.Annotations{"x-opt-scheduled-enqueue-time": time.Now().Add(time.Hour)}, Data: [][]byte{[]byte("m")},
		}).MarshalBinary()
		if err != nil {
			t.Error(err)
		}
		return map[string]any{"messages": []any{map[string]any{"message-id": y.id, "message": message}}}
	}),
	requests("Send", "orders", "cancel-scheduled-message", func(t *testing.T, y *try) map[string]any {
		return map[string]any{"sequence-numbers": []int64{y.owner().schedule(t, y.may, "orders")}}
	}),
	requests("Manage", "news/subscriptions/s", "enumerate-rules", given(map[string]any{"skip": int32(0), "top": int32(1)})),
	requests("Manage", "news/subscriptions/s", "add-rule", withRule("a")),
	requests("Manage", "news/subscriptions/s", "remove-rule", func(t *testing.T, y *try) map[string]any {
		return map[string]any{"rule-name": y.owner().prepare(y.may, "rule", func() string {
			y.owner().must(t, map[string]any{"op": "createRule", "entity": "news/subscriptions/s", "rule": map[string]any{"name": "d" + y.id, "filter": map[string]any{"kind": "false"}}})
			return "d" + y.id
		})}
	}),
}

func (o *amqpOperation) try(t *testing.T, y *try, p *peer) {
	t.Helper()
	c := *y.c
	c.resource = strings.TrimSuffix(c.resource, "/$management") // over AMQP a token for an entity's node is one for the entity
	y.may = c.may(o.needs, "")
	if o.name == "send to "+kept {
		y.expect(kept, "")
	}
	y.check(t, o.do(t, y, p))
}

func overAMQP(t *testing.T, g *Gateway, c *credential, p pool) {
	p.run(func() { c.tryAMQP(t, g, "AMQP", p, dialPlain, amqp.SASLTypeAnonymous()) })
}

func overTunnel(t *testing.T, g *Gateway, c *credential, p pool) {
	p.run(func() { c.tryAMQP(t, g, "AMQP over WebSocket", p, dialTunnel, amqp.SASLTypeAnonymous()) })
}

// overPlain tries a policy's name and key, which are valid for the whole namespace or not at all.
func overPlain(t *testing.T, g *Gateway, c *credential, p pool) {
	if c.policy != "" {
		p.run(func() { c.tryAMQP(t, g, "AMQP with SASL PLAIN", p, dialPlain, amqp.SASLTypePlain(c.policy, c.key)) })
	}
}

func (c *credential) tryAMQP(t *testing.T, g *Gateway, transport string, p pool, dial func(*testing.T, *Gateway, string) (net.Conn, error), by amqp.SASLType) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	nc, err := dial(t, g, c.host)
	if err != nil {
		t.Errorf("%s, %s: %v", transport, c.name, err)
		return
	}
	defer func() { _ = nc.Close() }()
	shown := strings.HasSuffix(transport, "PLAIN")
	conn, err := amqp.NewConn(ctx, nc, &amqp.ConnOptions{HostName: c.host, SASLType: by})
	if shown && c.rights == "" {
		g.try(c, transport, "connect").check(t, answer{refused: err != nil})
		return
	}
	if err != nil {
		t.Errorf("%s, %s: %v", transport, c.name, err)
		return
	}
	defer func() { _ = conn.Close() }()
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		t.Errorf("%s, %s: %v", transport, c.name, err)
		return
	}
	client := &peer{ctx: ctx, session: session, nodes: map[string]*node{}}
	if !shown {
		if accepted, err := client.put(c.token); err != nil || accepted != (c.rights != "") {
			t.Errorf("%s, %s: put-token: got accepted %v (error: %v), want accepted %v", transport, c.name, accepted, err, c.rights != "")
		}
	}
	for i := range amqpOperations {
		if o := &amqpOperations[i]; p.chosen(transport, c.name, o.name) {
			o.try(t, g.try(c, transport, o.name), client)
		}
	}
}
