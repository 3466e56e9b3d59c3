//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

const (
	narrowAttack = 5 * time.Second
	// narrowMemory is what the gateway may use.
	narrowMemory = 256 << 20
	narrowConfig = `
policies: [{name: RootManageSharedAccessKey, key: SAS_KEY_VALUE, rights: "Manage"}]
queues:
  - name: narrow
    policies:
      - {name: narrow-send, key: narrow-send-key, rights: Send}
      - {name: narrow-listen, key: narrow-listen-key, rights: Listen}
      - {name: narrow-manage, key: narrow-manage-key, rights: Manage}
  - name: calls
    requires-session: true
    policies: [{name: narrow-calls, key: narrow-calls-key, rights: Listen}]
topics:
  - name: events
    policies: [{name: narrow-events, key: narrow-events-key, rights: Manage}]
    subscriptions: [{name: s}]
namespaces:
  - name: neighbour
    policies: [{name: neighbour, key: key-of-the-neighbour, rights: Manage}]
    queues: [{name: theirs}]
`
)

// narrowAttacks are what a client can do whose key is for one entity.
var narrowAttacks = []struct {
	name string
	do   func(*narrow) error
}{
	{"HTTP batches of 10,000 messages", func(n *narrow) error {
		return n.post("narrow/messages", "narrow-send", "application/vnd.microsoft.servicebus.json", "["+strings.Repeat(`{},`, 9999)+"{}]")
	}},
	{"AMQP batches of 20,000 messages", func(n *narrow) error {
		session, hangUp, err := n.session("narrow", "narrow-send")
		if err != nil {
			return err
		}
		defer hangUp()
		sender, err := session.NewSender(n.ctx, "narrow", nil)
		if err != nil {
			return err
		}
		encoded, err := (&amqp.Message{Data: [][]byte{{}}}).MarshalBinary()
		if err != nil {
			return err
		}
		batch := &amqp.Message{Format: 0x80013700, Data: make([][]byte, 20_000)}
		for i := range batch.Data {
			batch.Data[i] = encoded
		}
		return n.send(sender, batch)
	}},
	{"batches of 4,000 messages for a topic whose rules make 501 copies of each", func(n *narrow) error {
		return n.post("events/messages", "narrow-events", "application/vnd.microsoft.servicebus.json", "["+strings.Repeat(`{},`, 3999)+"{}]")
	}},
	{"WebSocket frames of 4,500 messages", func(n *narrow) error {
		c, err := n.webSocketAt("localhost", "/$crosstown/ws", "crosstown.v1.json")
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		token := auth.SignSAS("http://localhost/narrow", "narrow-send", "narrow-send-key", time.Now().Add(time.Hour))
		send := `{"op":"send","id":%d,"entity":"narrow","messages":[` + strings.Repeat(`{},`, 4499) + `{}]}`
		if err := c.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"op":"auth","id":1,"token":%q}`, token)); err != nil {
			return err
		}
		for id := 2; n.ctx.Err() == nil; id++ {
			if err := c.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, send, id)); err != nil {
				return err
			}
			if _, _, err := c.ReadMessage(); err != nil {
				return err
			}
		}
		return nil
	}},
	{"links", func(n *narrow) error {
		conn, hangUp, err := n.dial("narrow", "narrow-send")
		if err != nil {
			return err
		}
		defer hangUp()
		for n.ctx.Err() == nil && err == nil {
			var session *amqp.Session
			if session, err = conn.NewSession(n.ctx, nil); err != nil {
				return err
			}
			for i := 0; i < 200 && err == nil; i++ {
				_, err = session.NewSender(n.ctx, "narrow", nil)
			}
		}
		return err
	}},
	{"links that wait for a session", func(n *narrow) error {
		conn, hangUp, err := n.dial("calls", "narrow-calls")
		if err != nil {
			return err
		}
		defer hangUp()
		var links sync.WaitGroup
		defer links.Wait()
		for range 4 { // all clients together more than fit into the gateway's memory; a receiver takes 140 KB in this process
			session, err := conn.NewSession(n.ctx, nil)
			if err != nil {
				return err
			}
			for range 200 {
				links.Go(func() {
					_, _ = session.NewReceiver(n.ctx, "calls", &amqp.ReceiverOptions{
						Filters: []amqp.LinkFilter{amqp.NewLinkFilter("com.microsoft:session-filter", 0x137000000C, nil)},
					})
				})
			}
		}
		return nil
	}},
	{"AMQP sessions", func(n *narrow) error {
		conn, hangUp, err := n.dial("narrow", "narrow-send")
		if err != nil {
			return err
		}
		defer hangUp()
		for n.ctx.Err() == nil {
			if _, err := conn.NewSession(n.ctx, nil); err != nil {
				return err
			}
		}
		return nil
	}},
	{"connections", func(n *narrow) error {
		_, hangUp, err := n.dial("narrow", "narrow-send")
		if err != nil {
			return err
		}
		defer hangUp()
		<-n.ctx.Done()
		return nil
	}},
	{"connections that begin a handshake", func(n *narrow) error {
		c, err := (&net.Dialer{}).DialContext(n.ctx, "tcp", n.gw.host)
		if err != nil {
			return err
		}
		context.AfterFunc(n.ctx, func() { _ = c.Close() })
		_, err = c.Write([]byte{0x16})
		return err
	}},
	{"HTTP connections that wait, with large headers", func(n *narrow) error {
		c, err := (&net.Dialer{}).DialContext(n.ctx, "tcp", n.gw.host)
		if err != nil {
			return err
		}
		context.AfterFunc(n.ctx, func() { _ = c.Close() })
		_, _ = fmt.Fprintf(c, "DELETE /narrow/messages/head?timeout=60 HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\n%s\r\n",
			n.token("narrow", "narrow-listen"), strings.Repeat("Name: "+strings.Repeat("x", 110)+"\r\n", 900))
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		answer := make([]byte, 40)
		if got, err := c.Read(answer); err == nil {
			_ = c.Close()
			return fmt.Errorf("answered %q", answer[:got])
		}
		return nil // it waits
	}},
	{"HTTP headers that do not end, of clients with a proven identity", func(n *narrow) error {
		c, err := (&net.Dialer{}).DialContext(n.ctx, "tcp", n.gw.host)
		if err != nil {
			return err
		}
		context.AfterFunc(n.ctx, func() { _ = c.Close() })
		_, _ = fmt.Fprintf(c, "POST /narrow/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\nContent-Length: 0\r\n\r\n", n.token("narrow", "narrow-send"))
		answer := make([]byte, 12)
		if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "HTTP/1.1 201" {
			_ = c.Close()
			return fmt.Errorf("answered %q, %v", answer, err)
		}
		_, err = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: localhost\r\n%s", strings.Repeat("Name: "+strings.Repeat("x", 110)+"\r\n", 900))
		return err
	}},
	{"deliveries that nobody settles", func(n *narrow) error {
		session, hangUp, err := n.session("narrow", "narrow-listen")
		if err != nil {
			return err
		}
		defer hangUp()
		r, err := session.NewReceiver(n.ctx, "narrow", &amqp.ReceiverOptions{Credit: 10_000})
		for err == nil {
			_, err = r.Receive(n.ctx, nil)
		}
		return err
	}},
	{"settlements that set 5,000 properties of a message with 20,000", func(n *narrow) error {
		m, set := &amqp.Message{ApplicationProperties: map[string]any{}}, amqp.Annotations{}
		for i := range 20_000 {
			if m.ApplicationProperties[fmt.Sprintf("a%05d", i)] = true; i < 5000 {
				set[fmt.Sprintf("b%05d", i)] = true
			}
		}
		return n.sendAndModify(m, &amqp.ModifyMessageOptions{DeliveryFailed: true, Annotations: set})
	}},
	{"deferred messages with large properties", func(n *narrow) error {
		set := amqp.Annotations{"a": strings.Repeat("x", 30_000), "b": strings.Repeat("x", 30_000)}
		return n.sendAndModify(&amqp.Message{Data: [][]byte{{}}}, &amqp.ModifyMessageOptions{UndeliverableHere: true, Annotations: set})
	}},
	{"states of ever new sessions", func(n *narrow) error {
		c, err := n.webSocketAt("localhost", "/$crosstown/ws", "crosstown.v1.json")
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		token := auth.SignSAS("http://localhost/calls", "narrow-calls", "narrow-calls-key", time.Now().Add(time.Hour))
		state := strings.Repeat("x", 250_000)
		if err := c.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"op":"auth","id":1,"token":%q}`, token)); err != nil {
			return err
		}
		for id := 1; n.ctx.Err() == nil; id += 3 {
			for _, request := range [][]byte{
				fmt.Appendf(nil, `{"op":"feed","id":%d,"feed":1,"entity":"calls","session":"%x"}`, id+1, rand.Uint64()),
				fmt.Appendf(nil, `{"op":"setState","id":%d,"feed":1,"state":%q}`, id+2, state),
				fmt.Appendf(nil, `{"op":"end","id":%d,"feed":1}`, id+3),
			} {
				if err := c.WriteMessage(websocket.TextMessage, request); err != nil {
					return err
				}
				_, answer, err := c.ReadMessage()
				if err == nil && strings.Contains(string(answer), `"error"`) {
					err = errors.New(string(answer))
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	}},
	{"taps that are not read", func(n *narrow) error {
		c, err := (&net.Dialer{}).DialContext(n.ctx, "tcp", n.gw.host)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_, _ = fmt.Fprintf(c, "GET /$crosstown/tap/narrow HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\n\r\n", n.token("narrow", "narrow-listen"))
		for n.ctx.Err() == nil && err == nil {
			err = n.post("narrow/messages", "narrow-send", "text/plain", strings.Repeat("\x01", 250_000))
		}
		return err
	}},
	{"deposits of tiny lines", func(n *narrow) error {
		return n.post("$crosstown/deposit/narrow", "narrow-manage", "application/x-ndjson", strings.Repeat(`{"messageId":"a1","state":"active","body":""}`+"\n", 10_000))
	}},
	{"tests of rules", func(n *narrow) error {
		return n.post("$crosstown/rules/events", "narrow-events", "application/json", `{"messageId":"a","state":"active","body":"`+strings.Repeat("x", 200_000)+`"}`)
	}},
}

// narrow is an attacker, or many.
type narrow struct {
	*env
	ctx context.Context
}

// token is one for an entity.
func (n *narrow) token(entity, policy string) string {
	return auth.SignSAS("http://localhost/"+entity, policy, policy+"-key", time.Now().Add(time.Hour))
}

func (n *narrow) post(path, policy, contentType, body string) error {
	entity := path[strings.LastIndex(strings.TrimSuffix(path, "/messages"), "/")+1:]
	r, err := http.NewRequestWithContext(n.ctx, http.MethodPost, "http://"+n.gw.host+"/"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", n.token(strings.TrimSuffix(entity, "/messages"), policy))
	r.Header.Set("Content-Type", contentType)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(got.Body, 200))
	if _, end := io.Copy(io.Discard, got.Body); err == nil {
		err = end
	}
	if err == nil && got.StatusCode >= 400 {
		err = fmt.Errorf("%s: %s", got.Status, text)
	}
	return err
}

// dial connects, and puts a token for a queue. The caller, or the end of the attack, hangs up.
func (n *narrow) dial(queue, policy string) (_ *amqp.Conn, hangUp func(), _ error) {
	conn, err := amqp.Dial(n.ctx, "amqp://"+n.gw.host, &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous(), HostName: "localhost"})
	if err != nil {
		return nil, nil, err
	}
	forget := context.AfterFunc(n.ctx, func() { _ = conn.Close() })
	hangUp = func() {
		forget()
		_ = conn.Close()
	}
	if err := n.authorize(conn, queue, policy); err != nil {
		hangUp()
		return nil, nil, err
	}
	return conn, hangUp, nil
}

// session is like dial, and opens a session.
func (n *narrow) session(queue, policy string) (_ *amqp.Session, hangUp func(), _ error) {
	conn, hangUp, err := n.dial(queue, policy)
	if err != nil {
		return nil, nil, err
	}
	s, err := conn.NewSession(n.ctx, nil)
	if err != nil {
		hangUp()
		return nil, nil, err
	}
	return s, hangUp, nil
}

// sendAndModify sends m again and again, receives it, and modifies it.
func (n *narrow) sendAndModify(m *amqp.Message, change *amqp.ModifyMessageOptions) error {
	sending, hangUp, err := n.session("narrow", "narrow-send")
	if err != nil {
		return err
	}
	defer hangUp()
	receiving, hangUp, err := n.session("narrow", "narrow-listen")
	if err != nil {
		return err
	}
	defer hangUp()
	sender, err := sending.NewSender(n.ctx, "narrow", nil)
	if err != nil {
		return err
	}
	receiver, err := receiving.NewReceiver(n.ctx, "narrow", &amqp.ReceiverOptions{SettlementMode: amqp.ReceiverSettleModeSecond.Ptr()})
	for err == nil {
		var got *amqp.Message
		if err = n.send(sender, m); err == nil {
			got, err = receiver.Receive(n.ctx, nil)
		}
		if err == nil {
			err = receiver.ModifyMessage(n.ctx, got, change)
		}
	}
	return err
}

// send waits until the connection ends: if a Send's context ends, go-amqp 1.7.0 can wait forever.
func (n *narrow) send(s *amqp.Sender, m *amqp.Message) error {
	return s.Send(context.WithoutCancel(n.ctx), m, nil)
}

// authorize puts a token for a queue.
func (n *narrow) authorize(conn *amqp.Conn, queue, policy string) error {
	session, err := conn.NewSession(n.ctx, nil)
	if err != nil {
		return err
	}
	answers, err := session.NewReceiver(n.ctx, "$cbs", &amqp.ReceiverOptions{TargetAddress: "here"})
	if err != nil {
		return err
	}
	sender, err := session.NewSender(n.ctx, "$cbs", nil)
	if err != nil {
		return err
	}
	here := "here"
	if err := n.send(sender, &amqp.Message{
		Value: n.token(queue, policy), Properties: &amqp.MessageProperties{MessageID: "1", ReplyTo: &here},
		ApplicationProperties: map[string]any{"operation": "put-token", "type": "servicebus.windows.net:sastoken", "name": "sb://localhost/" + queue},
	}); err != nil {
		return err
	}
	answer, err := answers.Receive(n.ctx, nil)
	if err != nil {
		return err
	}
	if status := answer.ApplicationProperties["status-code"]; status != int32(202) {
		return fmt.Errorf("the token was refused: %v", answer.ApplicationProperties)
	}
	return session.Close(n.ctx)
}

// TestNarrowKeysExhaustNothing plays attacks of clients with a key of one entity, one after the other and then all at once,
// against a gateway with little memory. Meanwhile a client of another namespace, which tries again what is refused as busy, sends, receives
// and settles: none of its calls may fail.
func TestNarrowKeysExhaustNothing(t *testing.T) {
	withoutRace(t)
	length := narrowAttack
	if long := os.Getenv(exhaustionVariable); long != "" {
		var err error
		if length, err = time.ParseDuration(long); err != nil {
			t.Fatalf("%s: %v", exhaustionVariable, err)
		}
	}
	t.Run("file", func(t *testing.T) { exhaustNarrowly(t, "file", length) })
	t.Run("redis", func(t *testing.T) {
		exhaustNarrowly(t, redistest.Start(t, redistest.Options{}).URL(), length)
	})
}

func exhaustNarrowly(t *testing.T, store string, length time.Duration) {
	file := filepath.Join(t.TempDir(), "crosstown.yaml")
	if err := os.WriteFile(file, []byte(narrowConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := newGateway(t.TempDir(), store, "--config", file, "--memory", "256MiB")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.kill()
		if err := g.sane(); err != nil {
			t.Error(err)
		}
	})
	if err := g.start(); err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, gw: g}
	for i := range 500 {
		e.wantHTTP(e.http(http.MethodPut, fmt.Sprintf("events/Subscriptions/s/Rules/r%d", i), actionRule, nil), 201)
	}
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	client, err := azservicebus.NewClientFromConnectionString(g.connection("neighbour", "key-of-the-neighbour", true), nil)
	if err != nil {
		t.Fatal(err)
	}
	sender := e.senderOf(client, "theirs")
	receiver, err := client.NewReceiverForQueue("theirs", nil)
	if err != nil {
		t.Fatal(err)
	}
	neighbour := &steady{env: e, name: "the neighbour", round: func(ctx context.Context, called func()) error { return sendAndSettle(ctx, sender, receiver, called) }}
	working.Go(func() { neighbour.work(ctx) })
	for i := range len(narrowAttacks) + 1 {
		name, kinds, clients := "all at once", narrowAttacks, 4*len(narrowAttacks)
		if i < len(narrowAttacks) {
			name, kinds, clients = narrowAttacks[i].name, narrowAttacks[i:i+1], 30
		}
		before := neighbour.done.Load()
		attacking, end := context.WithTimeout(t.Context(), length)
		var attackers sync.WaitGroup
		var done atomic.Int64
		var refused atomic.Value
		for i := range clients {
			do := kinds[i%len(kinds)].do
			attackers.Go(func() {
				for n := (&narrow{e, attacking}); attacking.Err() == nil; {
					err := do(n)
					done.Add(1)
					if err != nil && attacking.Err() == nil { // refused, as it should be
						refused.Store(err.Error())
						select {
						case <-time.After(10 * time.Millisecond):
						case <-attacking.Done():
						}
					}
				}
			})
		}
		attackers.Wait()
		end()
		debug.FreeOSMemory() // the attackers' memory would take the program and its files out of that of a small machine
		if g.hasEnded() {
			t.Fatalf("%s: the gateway has ended: %v", name, g.err)
		}
		e.eventually(name+": the neighbour goes on", func() bool { return neighbour.done.Load() > before || neighbour.failed.Load() })
		memory := memoryOf(t, g, "VmHWM") - memoryOf(t, g, "RssFile") // the program itself can be read again
		t.Logf("%s: %d done, refused with %.200v; %d rounds of the neighbour, worst call %v; peak of memory %d MiB", name, done.Load(), refused.Load(),
			neighbour.done.Load()-before, time.Duration(neighbour.worst.Swap(0)).Round(time.Millisecond), memory>>20)
		if memory > narrowMemory {
			t.Errorf("%s: the gateway took %d bytes, want at most %d", name, memory, narrowMemory)
		}
		e.wantHTTP(e.http(http.MethodPost, "$crosstown/namespaces/sbemulatorns/reset", "", nil), 200)
	}
	stop()
	working.Wait()
}

// actionRule is a rule that matches all, and changes each copy.
const actionRule = `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><RuleDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><Filter i:type="TrueFilter"><SqlExpression>1=1</SqlExpression></Filter><Action i:type="SqlRuleAction"><SqlExpression>SET a = 1</SqlExpression></Action></RuleDescription></content></entry>`
