package amqp

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// node is a pair of links to a request node, on channel 0.
type node struct {
	p       *peer
	request uint32 // handle
	replyTo string // in requests
	id      wire.ID
	next    uint32
	settled bool
	state   wire.DeliveryState // of requests; nil: none
}

// node attaches to a node with two handles from handle on.
func (p *peer) node(address string, handle uint32) *node {
	p.tb.Helper()
	p.attach(handle, wire.RoleSender, address)
	p.attach(handle+1, wire.RoleReceiver, address)
	p.send(0, &wire.Flow{
		NextIncomingID: value.Some(uint32(0)), IncomingWindow: 1 << 30, OutgoingWindow: 100,
		Handle: value.Some(handle + 1), DeliveryCount: value.Some(uint32(0)), LinkCredit: value.Some(uint32(1000)),
	})
	return &node{p: p, request: handle, id: wire.ID{Kind: value.KindString, Raw: "request"}}
}

// answered is a decoded response.
type answered struct {
	id      wire.ID
	headers value.Map
	body    value.Map
	raw     wire.Sections
}

func (a *answered) get(key string) any {
	v, _ := a.headers.Get(key)
	return v
}

// call sends a request and returns the response. The disposition must come before it, and tell the same refusal if it is
// a rejection.
func (n *node) call(headers value.Map, body any) answered {
	n.p.tb.Helper()
	n.send(headers, body)
	var refused any
	if !n.settled {
		perf, _ := n.p.receive()
		for {
			if _, ok := perf.(*wire.Flow); !ok {
				break
			}
			perf, _ = n.p.receive()
		}
		d, ok := perf.(*wire.Disposition)
		want := wire.DeliveryState(wire.Accepted{})
		if txn, enlisted := n.state.(wire.TransactionalState); enlisted {
			want = wire.TransactionalState{TxnID: txn.TxnID, Outcome: wire.Accepted{}}
		}
		if ok {
			if r, is := d.State.(wire.Rejected); is {
				refused, want = r.Error.Description, r
			}
		}
		if !ok || !d.Settled || !reflect.DeepEqual(d.State, want) {
			n.p.tb.Fatalf("before the response: got %T, want a disposition", perf)
		}
	}
	a := n.answer()
	if text := cmp.Or(a.get("statusDescription"), a.get("status-description")); refused != nil && refused != text {
		n.p.tb.Errorf("rejection: got %v, want %v", refused, text)
	}
	return a
}

func (n *node) send(headers value.Map, body any) {
	n.p.tb.Helper()
	n.sendWith(headers, body)
}

// sendWith sends a request, and frames with it that follow.
func (n *node) sendWith(headers value.Map, body any, following ...wire.Performative) {
	n.p.tb.Helper()
	b := wire.AppendProperties(nil, &wire.MessageProperties{MessageID: n.id, ReplyTo: n.replyTo})
	for _, part := range []struct {
		d wire.Descriptor
		v any
	}{{wire.DescApplicationProperties, headers}, {wire.DescValue, body}} {
		raw, err := value.Append(nil, part.v)
		if err != nil {
			n.p.tb.Fatal(err)
		}
		b = wire.AppendSection(b, part.d, raw)
	}
	all, err := wire.AppendFrame(nil, 0, &wire.Transfer{Handle: n.request, DeliveryID: value.Some(n.next), DeliveryTag: []byte{}, Settled: value.Some(n.settled), State: n.state}, b)
	for _, f := range following {
		if err == nil {
			all, err = wire.AppendFrame(all, 0, f, nil)
		}
	}
	if err != nil {
		n.p.tb.Fatal(err)
	}
	n.p.write(all)
	n.next++
}

func (n *node) answer() answered {
	n.p.tb.Helper()
	for {
		perf, payload := n.p.receive()
		tr, ok := perf.(*wire.Transfer)
		if perf == nil {
			n.p.tb.Fatal("no response")
		}
		if !ok {
			continue
		}
		if !tr.Settled.V {
			n.p.tb.Error("the response is not settled")
		}
		s, err := wire.SplitMessage(bytes.Clone(payload), value.Limits{})
		if err != nil {
			n.p.tb.Fatal(err)
		}
		p, err := wire.DecodeProperties(s.Properties)
		if err != nil || s.Properties == nil {
			n.p.tb.Fatalf("properties of the response: %v, %v", s.Properties, err)
		}
		a := answered{id: p.CorrelationID, raw: s}
		headers, _, err := value.Decode(s.ApplicationProperties, value.Limits{})
		if err != nil {
			n.p.tb.Fatal(err)
		}
		a.headers = headers.(value.Map)
		raw, _ := s.Value()
		body, _, err := value.Decode(raw, value.Limits{})
		if err != nil {
			n.p.tb.Fatal(err)
		}
		a.body, _ = body.(value.Map)
		return a
	}
}

// put puts a token, which must be taken.
func (n *node) put(t *testing.T, token, name string) {
	t.Helper()
	if a := n.call(putToken(name), token); a.get("status-code") != int32(202) {
		t.Fatalf("put-token: got %v", a.headers)
	}
}

func putToken(name string) value.Map {
	return value.Map{{Key: "operation", Value: "put-token"}, {Key: "type", Value: "servicebus.windows.net:sastoken"}, {Key: "name", Value: name}}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	addr := serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{})
	for _, c := range []struct {
		name    string
		headers value.Map
		body    any
		status  int32
		text    string
	}{
		{"queue", putToken("sb://ns.example/Q1"), "token", 202, ""},
		{"management node", putToken("amqps://ns.example:5671/q1/$management"), "token", 202, ""},
		{"dead letters", putToken("amqps://ns.example:5671/q1/$DeadLetterQueue"), "token", 202, ""},
		{"namespace", putToken("sb://ns.example/"), "token", 202, ""},
		{"missing queue", putToken("sb://ns.example/nowhere"), "token", 404, "The messaging entity 'sb://ns.example/nowhere' could not be found."},
		{"forged", putToken("sb://ns.example/nowhere"), "forged", 401, "InvalidSignature: "},
		{"no audience", value.Map{{Key: "operation", Value: "put-token"}, {Key: "type", Value: "servicebus.windows.net:sastoken"}}, "token", 400, "name"},
		{"no text", putToken("sb://ns.example/q1"), int32(1), 400, "body"},
		{"jwt", value.Map{{Key: "operation", Value: "put-token"}, {Key: "type", Value: "jwt"}, {Key: "name", Value: "sb://ns.example/q1"}}, "token", 202, ""},
		{"unknown type", value.Map{{Key: "operation", Value: "put-token"}, {Key: "type", Value: "magic"}, {Key: "name", Value: "x"}}, "token", 400, "magic"},
		{"unknown operation", value.Map{{Key: "operation", Value: "delete-token"}}, nil, 501, "delete-token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := dialPeer(t, addr)
			p.header(wire.ProtocolAMQP)
			p.send(0, &wire.Open{ContainerID: "peer", Hostname: "ns.example"}, &wire.Begin{IncomingWindow: 100, OutgoingWindow: 100})
			n := p.node("$cbs", 0)
			n.id = wire.ID{Kind: value.KindUint64, Raw: "\x00\x00\x00\x00\x00\x00\x00\x07"}
			a := n.call(c.headers, c.body)
			if got := a.get("status-code"); got != c.status {
				t.Errorf("status-code: got %v (%T), want %d", got, got, c.status)
			}
			if text, _ := a.get("status-description").(string); !strings.Contains(text, c.text) {
				t.Errorf("status-description: got %q, want %q in it", text, c.text)
			}
			if a.id != n.id {
				t.Errorf("correlation-id: got %v, want %v", a.id, n.id)
			}
		})
	}
}

func TestSecondTokenLinkIsRefused(t *testing.T) {
	t.Parallel()
	p := dialPeer(t, serve(t, newFakeBroker(), &fakeAuthority{}, Options{}))
	p.open()
	p.node("$cbs", 0)
	p.attach(2, wire.RoleSender, "$cbs")
	if got := p.fault(); got == nil || got.Condition != wire.CondNotAllowed {
		t.Errorf("second link: got %v, want %s", got, wire.CondNotAllowed)
	}
	p.send(0, &wire.Detach{Handle: 0, Closed: true}, &wire.Detach{Handle: 2, Closed: true})
	if a := p.attach(3, wire.RoleSender, "$cbs"); a.Target == nil {
		t.Error("after the first was detached: refused")
	}
}

// Responses find their link by its target address, by its name, or because there is only one; never on another session
// while there is one on this.
func TestResponsesFindTheirLink(t *testing.T) {
	t.Parallel()
	addr := serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{})
	attach := func(p *peer, channel uint16, handle uint32, name, target string) {
		a := &wire.Attach{Name: name, Handle: handle, Role: wire.RoleReceiver, Source: &wire.Source{Address: value.Some("q1/$management")}}
		if target != "" {
			a.Target = &wire.Target{Address: value.Some(target)}
		}
		p.send(channel, a, &wire.Flow{
			NextIncomingID: value.Some(uint32(0)), IncomingWindow: 100, OutgoingWindow: 100,
			Handle: value.Some(handle), DeliveryCount: value.Some(uint32(0)), LinkCredit: value.Some(uint32(1)),
		})
		await[*wire.Attach](p)
	}
	for _, c := range []struct {
		name    string
		links   [][3]any // channel, name, target; handles count from 1
		replyTo string
		want    uint32 // handle
	}{
		{"by target", [][3]any{{0, "a", "x"}, {0, "b", "y"}}, "y", 2},
		{"by name", [][3]any{{0, "a", ""}, {0, "b", ""}}, "b", 2},
		{"the only one", [][3]any{{0, "a", "x"}}, "", 1},
		{"the only one here", [][3]any{{1, "a", "x"}, {0, "b", "y"}}, "nobody", 2},
		{"on another session", [][3]any{{1, "a", "x"}, {1, "b", "y"}}, "y", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := dialPeer(t, addr)
			p.open()
			p.send(1, &wire.Begin{IncomingWindow: 100, OutgoingWindow: 100})
			await[*wire.Begin](p)
			p.attach(0, wire.RoleSender, "q1/$management")
			for i, l := range c.links {
				attach(p, uint16(l[0].(int)), uint32(i+1), l[1].(string), l[2].(string))
			}
			n := &node{p: p, replyTo: c.replyTo}
			n.send(value.Map{{Key: "operation", Value: "x"}}, nil)
			if got := await[*wire.Transfer](p).Handle; got != c.want {
				t.Errorf("response on handle %d, want %d", got, c.want)
			}
		})
	}
}

// Some clients give credit request by request, after it.
func TestResponsesWaitForCredit(t *testing.T) {
	t.Parallel()
	p := dialPeer(t, serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{}))
	p.open()
	p.attach(0, wire.RoleSender, "q1/$management")
	p.attach(1, wire.RoleReceiver, "q1/$management")
	n := &node{p: p, settled: true}
	for i := range 3 {
		n.id = wire.ID{Kind: value.KindString, Raw: fmt.Sprint(i)}
		n.send(value.Map{{Key: "operation", Value: "x"}}, nil)
	}
	got := map[string]bool{}
	for i := range uint32(3) {
		p.send(0, &wire.Flow{
			NextIncomingID: value.Some(i), IncomingWindow: 100, NextOutgoingID: 3, OutgoingWindow: 100,
			Handle: value.Some(uint32(1)), DeliveryCount: value.Some(i), LinkCredit: value.Some(uint32(1)),
		})
		got[n.answer().id.Raw] = true
	}
	if len(got) != 3 {
		t.Errorf("responses: got %v, want 3 different ones", got)
	}
}

// A client that never takes its responses loses the link before they are too much.
func TestResponsesWithoutCreditAreBounded(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	p := dialPeer(t, serve(t, b, &fakeAuthority{}, Options{}))
	p.open()
	m, err := decodeMessage(plainMessage(maxPeekBytes))
	if err != nil {
		t.Fatal(err)
	}
	(&fakeSender{q: b.queues["q1"]}).Send(t.Context(), [][]*core.Message{{m}})
	p.attach(0, wire.RoleSender, "q1/$management")
	p.attach(1, wire.RoleReceiver, "q1/$management")
	n := &node{p: p, settled: true}
	for range maxReplyBytes/maxPeekBytes + 1 {
		n.send(value.Map{{Key: "operation", Value: "com.microsoft:peek-message"}},
			value.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(1)}})
	}
	if d := await[*wire.Detach](p); d == nil || d.Handle != 1 || d.Error == nil || d.Error.Condition != wire.CondResourceLimitExceeded {
		t.Errorf("detach: got %+v, want %s", d, wire.CondResourceLimitExceeded)
	}
}

// Anybody may send to $cbs, but nothing large.
func TestTokenRequestsAreSmall(t *testing.T) {
	t.Parallel()
	p := dialPeer(t, serve(t, newFakeBroker(), &fakeAuthority{}, Options{}))
	p.open()
	if a := p.attach(0, wire.RoleSender, "$cbs"); a.MaxMessageSize != value.Some(uint64(maxTokenSize)) {
		t.Errorf("max-message-size: got %v, want %d", a.MaxMessageSize, maxTokenSize)
	}
	for range 3 {
		p.transfer(&wire.Transfer{DeliveryID: value.Some(uint32(0)), DeliveryTag: []byte{1}, More: true}, make([]byte, 60<<10))
	}
	p.transfer(&wire.Transfer{DeliveryID: value.Some(uint32(0))}, nil)
	d := await[*wire.Disposition](p)
	if r, ok := d.State.(wire.Rejected); !ok || r.Error.Condition != wire.CondMessageSizeExceeded {
		t.Errorf("got %+v, want rejected with %s", d.State, wire.CondMessageSizeExceeded)
	}
}

// Most clients wait for the response to a request, and do not look for the outcome of its delivery.
func TestRefusedRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	addr := serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{})
	// request is a request that has n bytes in its body.
	request := func(operation string, body []byte) []byte {
		dst := wire.AppendHeader(nil, &wire.Header{})
		dst = wire.AppendProperties(dst, &wire.MessageProperties{MessageID: wire.ID{Kind: value.KindUint64, Raw: "\x00\x00\x00\x00\x00\x00\x00\x07"}, ReplyTo: "me"})
		dst = value.AppendDescriptor(dst, uint64(wire.DescApplicationProperties))
		dst, err := value.Append(dst, value.Map{{Key: "operation", Value: operation}, {Key: trackingID, Value: "a trace"}})
		if err != nil {
			t.Fatal(err)
		}
		return append(dst, body...)
	}
	large := func(n int) []byte { return wire.AppendDataSection(nil, make([]byte, n)) }
	for name, c := range map[string]struct {
		node, status string
		body         []byte
		settled      bool
		want         int32
		condition    value.Symbol
		detached     bool
	}{
		"a token":                     {"$cbs", "status-code", large(100 << 10), false, 403, wire.CondMessageSizeExceeded, false},
		"a settled token":             {"$cbs", "status-code", large(100 << 10), true, 403, wire.CondMessageSizeExceeded, false},
		"a token far too large":       {"$cbs", "status-code", large(3 << 20), false, 403, wire.CondMessageSizeExceeded, true},
		"a request":                   {"q1/$management", "statusCode", large(2 << 20), false, 403, wire.CondMessageSizeExceeded, false},
		"a settled request":           {"q1/$management", "statusCode", large(2 << 20), true, 403, wire.CondMessageSizeExceeded, false},
		"a request far too large":     {"q1/$management", "statusCode", large(6 << 20), false, 403, wire.CondMessageSizeExceeded, true},
		"a request that is malformed": {"q1/$management", "statusCode", []byte{0, 0x53, 0x77, 0x01}, false, 400, wire.CondDecodeError, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := dialPeer(t, addr)
			p.open()
			n := p.node(c.node, 0)
			payload := request("put-token", c.body)
			tr := &wire.Transfer{DeliveryID: value.Some(uint32(0)), DeliveryTag: []byte{1}, Settled: value.Some(c.settled)}
			go func() {
				for part := range slices.Chunk(payload, 60_000) {
					tr.More = len(payload) > len(part)
					payload = payload[len(part):]
					if b, err := wire.AppendFrame(nil, 0, tr, part); err == nil {
						_, _ = p.nc.Write(b)
					}
				}
			}()
			a := n.answer()
			if got := a.get(c.status); got != c.want {
				t.Errorf("status: got %v (%T), want %d: %v", got, got, c.want, a.headers)
			}
			if got := cmp.Or(a.get("errorCondition"), a.get("error-condition")); got != c.condition {
				t.Errorf("condition: got %v, want %s", got, c.condition)
			}
			if a.id.Kind != value.KindUint64 || a.get(trackingID) != "a trace" {
				t.Errorf("correlation-id: got %v, headers %v", a.id, a.headers)
			}
			if c.detached {
				if d := await[*wire.Detach](p); d == nil || d.Error == nil || d.Error.Condition != c.condition {
					t.Errorf("got %+v, want a detach with %s", d, c.condition)
				}
			}
		})
	}
}

func TestTrackingIDIsEchoed(t *testing.T) {
	t.Parallel()
	p := dialPeer(t, serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{}))
	p.open()
	n := p.node("q1/$management", 0)
	a := n.call(value.Map{{Key: "operation", Value: "com.microsoft:peek-message"}, {Key: trackingID, Value: "a trace"}}, value.Map{})
	if got := a.get(trackingID); got != "a trace" {
		t.Errorf("got %v, want the client's", got)
	}
}

func TestManagement(t *testing.T) {
	t.Parallel()
	addr := serve(t, newFakeBroker("q1", "q2"), &fakeAuthority{}, Options{})
	token := value.UUID{1}
	op := func(name string) value.Map {
		return value.Map{{Key: "operation", Value: "com.microsoft:" + name}, {Key: "com.microsoft:server-timeout", Value: uint32(1000)}}
	}
	message := plainMessage(3)
	for _, c := range []struct {
		name      string
		operation string
		body      any
		status    int32
		condition any
	}{
		{"peek nothing", "peek-message", value.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(1)}}, 204, nil},
		{"peek none", "peek-message", value.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(-1)}}, 400, wire.CondArgumentOutOfRange},
		{"peek without a count", "peek-message", value.Map{{Key: "from-sequence-number", Value: int64(1)}}, 400, wire.CondArgumentError},
		{"renew a lost lock", "renew-lock", value.Map{{Key: "lock-tokens", Value: value.ArrayOf([]value.UUID{token})}}, 410, wire.CondMessageLockLost},
		{"renew nothing", "renew-lock", value.Map{}, 400, wire.CondArgumentError},
		{"renew numbers", "renew-lock", value.Map{{Key: "lock-tokens", Value: value.List{int32(1)}}}, 400, wire.CondArgumentError},
		{"settle a lost lock", "update-disposition", value.Map{{Key: "lock-tokens", Value: value.List{token}}, {Key: "disposition-status", Value: "completed"}}, 410, wire.CondMessageLockLost},
		{"settle somehow", "update-disposition", value.Map{{Key: "lock-tokens", Value: value.List{token}}, {Key: "disposition-status", Value: "eaten"}}, 400, wire.CondArgumentError},
		{"receive what is not deferred", "receive-by-sequence-number", value.Map{{Key: "sequence-numbers", Value: value.ArrayOf([]int64{99})}, {Key: "receiver-settle-mode", Value: uint8(1)}}, 404, wire.CondMessageNotFound},
		{"cancel what is not scheduled", "cancel-scheduled-message", value.Map{{Key: "sequence-numbers", Value: value.ArrayOf([]int64{99})}}, 404, wire.CondMessageNotFound},
		{"schedule", "schedule-message", value.Map{{Key: "messages", Value: value.List{value.Map{{Key: "message", Value: message}}}}}, 200, nil},
		{"schedule nothing", "schedule-message", value.Map{{Key: "messages", Value: value.List{}}}, 400, wire.CondArgumentError},
		{"schedule no message", "schedule-message", value.Map{{Key: "messages", Value: value.List{int32(1)}}}, 400, wire.CondArgumentError},
		{"schedule garbage", "schedule-message", value.Map{{Key: "messages", Value: value.List{value.Map{{Key: "message", Value: []byte{1}}}}}}, 400, wire.CondDecodeError},
		{"delete too many", "batch-delete-messages", value.Map{{Key: "message-count", Value: int32(5000)}, {Key: "enqueued-time-utc", Value: value.Timestamp(0)}}, 400, wire.CondArgumentOutOfRange},
		{"delete before nothing", "batch-delete-messages", value.Map{{Key: "message-count", Value: int32(5)}}, 400, wire.CondArgumentError},
		{"delete none", "batch-delete-messages", value.Map{{Key: "message-count", Value: int32(5)}, {Key: "enqueued-time-utc", Value: value.Timestamp(0)}}, 204, wire.CondMessageNotFound},
		{"list sessions without bounds", "get-message-sessions", value.Map{}, 400, wire.CondArgumentError},
		{"renew a session that is not held", "renew-session-lock", value.Map{{Key: "session-id", Value: "a"}}, 410, wire.CondSessionLockLost},
		{"renew no session", "renew-session-lock", value.Map{}, 400, wire.CondArgumentError},
		{"read state of a session that is not held", "get-session-state", value.Map{{Key: "session-id", Value: "a"}}, 410, wire.CondSessionLockLost},
		{"set state of a session that is not held", "set-session-state", value.Map{{Key: "session-id", Value: "a"}, {Key: "session-state", Value: nil}}, 410, wire.CondSessionLockLost},
		{"peek with the session of a queue without", "peek-message", value.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(1)}, {Key: "session-id", Value: "a"}}, 204, nil},
		{"settle with the session of a queue without", "update-disposition", value.Map{{Key: "lock-tokens", Value: value.List{token}}, {Key: "disposition-status", Value: "completed"}, {Key: "session-id", Value: "a"}}, 410, wire.CondMessageLockLost},
		{"an unknown operation", "make-coffee", value.Map{}, 501, wire.CondNotImplemented},
		{"no map", "peek-message", "x", 400, wire.CondArgumentError},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := dialPeer(t, addr)
			p.open()
			queue := "q1"
			if c.operation == "schedule-message" {
				queue = "q2"
			}
			n := p.node(queue+"/$management", 0)
			a := n.call(op(c.operation), c.body)
			if got := a.get("statusCode"); got != c.status {
				t.Errorf("statusCode: got %v (%T), want %d", got, got, c.status)
			}
			if got := a.get("errorCondition"); got != c.condition {
				t.Errorf("errorCondition: got %v (%T), want %v", got, got, c.condition)
			}
			if _, ok := a.get("statusDescription").(string); !ok {
				t.Errorf("statusDescription: got %v", a.get("statusDescription"))
			}
			if a.id != n.id {
				t.Errorf("correlation-id: got %v, want %v", a.id, n.id)
			}
		})
	}
}

// Clients tell arrays from lists.
func TestManagementAnswersInTheRightTypes(t *testing.T) {
	t.Parallel()
	p := dialPeer(t, serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{}))
	p.open()
	n := p.node("/Q1/$Management", 0)
	call := func(operation string, body value.Map) value.Map {
		t.Helper()
		a := n.call(value.Map{{Key: "operation", Value: "com.microsoft:" + operation}}, body)
		if a.get("statusCode") != int32(200) {
			t.Fatalf("%s: got %v", operation, a.headers)
		}
		return a.body
	}
	in := wire.AppendSection(nil, wire.DescMessageAnnotations, func() []byte {
		b, _ := value.Append(nil, value.Map{{Key: value.Symbol(annScheduled), Value: value.Timestamp(1 << 45)}})
		return b
	}())
	body := call("schedule-message", value.Map{{Key: "messages", Value: value.List{value.Map{{Key: "message", Value: append(in, plainMessage(3)...)}}}}})
	numbers, _ := body.Get("sequence-numbers")
	if a, ok := numbers.(value.Array); !ok || a.Elem != value.KindInt64 || len(a.Values) != 1 {
		t.Errorf("sequence-numbers: got %#v, want an array of one long", numbers)
	}
	body = call("peek-message", value.Map{{Key: "from-sequence-number", Value: int64(0)}, {Key: "message-count", Value: int32(10)}, {Key: "omit-message-body", Value: true}})
	messages, _ := body.Get("messages")
	l, ok := messages.(value.List)
	if !ok || len(l) != 1 {
		t.Fatalf("messages: got %#v, want a list of one", messages)
	}
	encoded, _ := l[0].(value.Map).Get("message")
	s, err := wire.SplitMessage(encoded.([]byte), value.Limits{})
	if err != nil || s.BodyKind != wire.BodyNone || s.Header == nil || s.Properties == nil || s.DeliveryAnnotations != nil {
		t.Errorf("peeked: got %+v, %v", s, err)
	}
	annotations, _, _ := value.Decode(s.MessageAnnotations, value.Limits{})
	if state, _ := annotations.(value.Map).Get(annMessageState); state != int32(2) {
		t.Errorf("state: got %v (%T), want 2", state, state)
	}
}

func TestManagementNeedsARight(t *testing.T) {
	t.Parallel()
	p := dialPeer(t, serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{}))
	p.header(wire.ProtocolAMQP)
	p.send(0, &wire.Open{ContainerID: "peer"}, &wire.Begin{IncomingWindow: 100, OutgoingWindow: 100})
	p.attach(0, wire.RoleSender, "q1/$management")
	if got := p.fault(); got == nil || got.Condition != wire.CondUnauthorizedAccess {
		t.Errorf("without a token: got %v, want %s", got, wire.CondUnauthorizedAccess)
	}
	p.send(0, &wire.Detach{Handle: 0, Closed: true})
	n := p.node("$cbs", 1)
	n.put(t, "listen", "sb://localhost/q1")
	m := p.node("q1/$management", 3)
	m.next = 1
	a := m.call(value.Map{{Key: "operation", Value: "com.microsoft:cancel-scheduled-message"}}, value.Map{{Key: "sequence-numbers", Value: value.List{int64(1)}}})
	if a.get("statusCode") != int32(401) || a.get("errorCondition") != wire.CondUnauthorizedAccess {
		t.Errorf("cancel without the right to send: got %v", a.headers)
	}
}
