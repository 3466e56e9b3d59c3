package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/internal/eventually"
	"github.com/crosstown-mq/crosstown/internal/variants"
)

// patience bounds every wait for something that should happen, on a busy machine too.
const patience = eventually.Bound

// silence is how long nothing must happen for a test to believe that nothing will.
const silence = 400 * time.Millisecond

// env is where one telling of a story takes place.
type env struct {
	*testing.T
	gw        *gateway
	plain     bool       // AMQP over TCP, else over TLS; the SDK's admin client always uses TLS
	websocket bool       // AMQP in a WebSocket
	namespace *namespace // nil: the gateway's own
}

// credentials are the policy and the key of the clients.
func (e *env) credentials() (policy, key string) {
	if e.namespace != nil {
		return e.namespace.policy, e.namespace.key
	}
	return devPolicy, devKey
}

// everywhere tells a story that any engine or transport could break. The file engine is the memory
// engine with a journal, so what one transport shows for one need not be shown for both.
func everywhere(t *testing.T, story func(e *env)) {
	t.Helper()
	tell(t, story, "file/tcp", "memory/tls", "redis/tcp", "redis/tls", "cluster/tcp", "file/websocket")
}

// onEachEngine tells a story that no transport changes on an engine of one gateway or of several.
func onEachEngine(t *testing.T, story func(e *env)) {
	t.Helper()
	tell(t, story, "file/tcp", "redis/tcp")
}

func tell(t *testing.T, story func(e *env), places ...string) {
	t.Helper()
	t.Parallel()
	variants.Each(t, func(t *testing.T, place string) {
		t.Parallel()
		engine, transport, _ := strings.Cut(place, "/")
		story(&env{T: t, gw: sharedGateway(t, engine), plain: transport == "tcp", websocket: transport == "websocket"})
	}, places...)
}

// connection is the connection string of the clients.
func (e *env) connection() string {
	policy, key := e.credentials()
	return e.gw.connection(policy, key, e.plain)
}

// ctx returns a context that ends with the test, or after patience.
func (e *env) ctx() context.Context {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), patience)
	e.Cleanup(cancel)
	return ctx
}

func (e *env) tls() *tls.Config {
	return &tls.Config{RootCAs: e.gw.ca, MinVersion: tls.VersionTLS12}
}

// client opens the SDK's client.
func (e *env) client() *azservicebus.Client {
	e.Helper()
	return e.clientAs(e.credentials())
}

// clientAs opens the SDK's client with a policy, retrying nothing.
func (e *env) clientAs(policy, key string) *azservicebus.Client {
	e.Helper()
	o := &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}}
	if !e.plain {
		o.TLSConfig = e.tls()
	}
	if e.websocket {
		o.NewWebSocketConn = func(ctx context.Context, args azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			return dialSocket(ctx, args.Host, e.tls())
		}
	}
	c, err := azservicebus.NewClientFromConnectionString(e.gw.connection(policy, key, e.plain), o)
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { _ = c.Close(context.WithoutCancel(e.Context())) })
	return c
}

// admin opens the SDK's management client.
func (e *env) admin() *admin.Client {
	e.Helper()
	return e.adminAs(e.credentials())
}

func (e *env) adminAs(policy, key string) *admin.Client {
	e.Helper()
	transport := &http.Transport{TLSClientConfig: e.tls()}
	e.Cleanup(transport.CloseIdleConnections)
	o := &admin.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: transport}}}
	o.Retry.MaxRetries = -1
	c, err := admin.NewClientFromConnectionString(e.gw.connection(policy, key, e.plain), o)
	if err != nil {
		e.Fatal(err)
	}
	return c
}

var names atomic.Int64

// name makes a queue name that no other test uses.
func (e *env) name() string { return fmt.Sprintf("q-%d", names.Add(1)) }

// queue creates a queue and deletes it after the test. nil takes the defaults.
func (e *env) queue(p *admin.QueueProperties) string {
	e.Helper()
	name := e.name()
	e.create(name, p)
	return name
}

func (e *env) create(name string, p *admin.QueueProperties) {
	e.Helper()
	a := e.admin()
	if _, err := a.CreateQueue(e.ctx(), name, &admin.CreateQueueOptions{Properties: p}); err != nil {
		e.Fatalf("create queue %s: %v", name, err)
	}
	e.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, _ = a.DeleteQueue(ctx, name, nil) // the test may have deleted it
	})
}

// runtime returns a queue's counts.
func (e *env) runtime(queue string) admin.QueueRuntimeProperties {
	e.Helper()
	r, err := e.admin().GetQueueRuntimeProperties(e.ctx(), queue, nil)
	if err != nil || r == nil {
		e.Fatalf("runtime properties of %s: %v %v", queue, r, err)
	}
	return r.QueueRuntimeProperties
}

// sender opens a sender with a client of its own.
func (e *env) sender(queue string) *azservicebus.Sender {
	e.Helper()
	return e.senderOf(e.client(), queue)
}

func (e *env) senderOf(c *azservicebus.Client, queue string) *azservicebus.Sender {
	e.Helper()
	s, err := c.NewSender(queue, nil)
	if err != nil {
		e.Fatal(err)
	}
	return s
}

// receiver opens a peek-lock receiver with a client of its own.
func (e *env) receiver(queue string) *azservicebus.Receiver {
	e.Helper()
	return e.receiverWith(queue, nil)
}

// deadLetters opens a receiver of the dead-letter sub-queue.
func (e *env) deadLetters(queue string) *azservicebus.Receiver {
	e.Helper()
	return e.receiverWith(queue, &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
}

func (e *env) receiverWith(queue string, o *azservicebus.ReceiverOptions) *azservicebus.Receiver {
	e.Helper()
	r, err := e.client().NewReceiverForQueue(queue, o)
	if err != nil {
		e.Fatal(err)
	}
	return r
}

// send sends messages of these bodies, one by one.
func (e *env) send(queue string, bodies ...string) {
	e.Helper()
	s := e.sender(queue)
	for _, b := range bodies {
		e.post(s, &azservicebus.Message{Body: []byte(b)})
	}
}

func (e *env) post(s *azservicebus.Sender, m *azservicebus.Message) {
	e.Helper()
	if err := s.SendMessage(e.ctx(), m, nil); err != nil {
		e.Fatalf("send: %v", err)
	}
}

// take receives exactly n messages. It waits for all in one call where it can:
// between calls the SDK releases what arrives, which then comes out of order.
func (e *env) take(r *azservicebus.Receiver, n int) []*azservicebus.ReceivedMessage {
	e.Helper()
	var got []*azservicebus.ReceivedMessage
	for ctx := e.ctx(); len(got) < n; {
		ms, err := r.ReceiveMessages(ctx, n-len(got), &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: patience / 2})
		if err != nil {
			e.Fatalf("receive message %d of %d: %v", len(got)+1, n, err)
		}
		got = append(got, ms...)
	}
	return got
}

// one receives one message.
func (e *env) one(r *azservicebus.Receiver) *azservicebus.ReceivedMessage {
	e.Helper()
	return e.take(r, 1)[0]
}

// nothing checks that no message comes for a while.
func (e *env) nothing(r *azservicebus.Receiver) {
	e.Helper()
	e.peek(r, 0, 1) // opens the link, which the deadline below must not interrupt
	ctx, cancel := context.WithTimeout(e.Context(), silence)
	defer cancel()
	ms, err := r.ReceiveMessages(ctx, 1, nil)
	if err == nil || !errors.Is(err, context.DeadlineExceeded) {
		e.Fatalf("got %d messages and error %v, want none until the deadline", len(ms), err)
	}
}

// complete settles messages.
func (e *env) complete(r *azservicebus.Receiver, ms ...*azservicebus.ReceivedMessage) {
	e.Helper()
	for _, m := range ms {
		if err := r.CompleteMessage(e.ctx(), m, nil); err != nil {
			e.Fatalf("complete message %d: %v", *m.SequenceNumber, err)
		}
	}
}

// peek browses up to n messages from a sequence number; 0 is the start.
func (e *env) peek(r *azservicebus.Receiver, from int64, n int) []*azservicebus.ReceivedMessage {
	e.Helper()
	ms, err := r.PeekMessages(e.ctx(), n, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &from})
	if err != nil {
		e.Fatalf("peek from %d: %v", from, err)
	}
	return ms
}

// beside runs f next to the test. The test does not end before f has: what f
// reported after that would end all other tests, too. When f fails the channel is
// closed without a result, so that nothing waits for one.
func beside[T any](e *env, f func() T) <-chan T {
	e.Helper()
	result, ended := make(chan T, 1), make(chan struct{})
	e.Cleanup(func() { <-ended }) // the test's context has ended by then
	go func() {
		defer close(ended)
		defer close(result)
		result <- f()
	}()
	return result
}

// eventually waits until a condition holds that only polling can see.
func (e *env) eventually(what string, holds func() bool) {
	e.Helper()
	eventually.True(e, what, holds)
}

// hasReceiver waits until a receiver has a link to an entity through the env's gateway.
func (e *env) hasReceiver(entity string) {
	e.Helper()
	e.eventually("a receiver of "+entity+" is attached", func() bool {
		var list struct{ Connections []shownConnection }
		a := e.wantHTTP(e.http(http.MethodGet, "$crosstown/connections", "", nil), http.StatusOK)
		if err := json.Unmarshal([]byte(a.body), &list); err != nil {
			e.Fatalf("%s: %v", a.body, err)
		}
		for _, c := range list.Connections {
			for _, l := range c.Links {
				if l.Entity == entity && l.Direction == "receive" {
					return true
				}
			}
		}
		return false
	})
}

// wantCode checks that an error of the SDK has a code.
func (e *env) wantCode(err error, want azservicebus.Code) {
	e.Helper()
	if got, ok := errors.AsType[*azservicebus.Error](err); !ok || got.Code != want {
		e.Fatalf("got error %v, want code %s", err, want)
	}
}

// wantCondition checks that an error stems from an AMQP error of a condition.
func (e *env) wantCondition(err error, want amqp.ErrCond) {
	e.Helper()
	if got, ok := errors.AsType[*amqp.Error](err); !ok || got.Condition != want {
		e.Fatalf("got error %v, want condition %s", err, want)
	}
}

// amqp opens a go-amqp session with the development key over SASL PLAIN.
func (e *env) amqp() *amqp.Session {
	e.Helper()
	o := &amqp.ConnOptions{SASLType: amqp.SASLTypePlain(e.credentials())}
	scheme, inSocket := "amqp://", "ws://"
	if !e.plain {
		scheme, inSocket, o.TLSConfig = "amqps://", "wss://", e.tls()
	}
	dial := func() (*amqp.Conn, error) { return amqp.Dial(e.ctx(), scheme+e.gw.host, o) }
	if e.websocket {
		dial = func() (*amqp.Conn, error) {
			nc, err := dialSocket(e.ctx(), inSocket+e.gw.host+"/$servicebus/websocket", e.tls())
			if err != nil {
				return nil, err
			}
			return amqp.NewConn(e.ctx(), nc, o)
		}
	}
	conn, err := dial()
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { _ = conn.Close() })
	s, err := conn.NewSession(e.ctx(), nil)
	if err != nil {
		e.Fatal(err)
	}
	return s
}

// bodies returns the messages' payloads.
func bodies(ms []*azservicebus.ReceivedMessage) []string {
	var b []string
	for _, m := range ms {
		b = append(b, string(m.Body))
	}
	return b
}
