package crosstowntest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/faults"
	"github.com/crosstown-mq/crosstown/gateway/internal/wsstream"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// patient makes a client that tries again at once.
func patient(t *testing.T, b *Bus) *azservicebus.Client {
	t.Helper()
	c, err := azservicebus.NewClientFromConnectionString(b.ConnectionString, &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{MaxRetries: 3, RetryDelay: time.Millisecond, MaxRetryDelay: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func TestASenderTriesAgain(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"), Queue("other"), Queue("once", func(s *core.Settings) { s.RequiresDuplicateDetection = true }))
	c := patient(t, b)
	b.Inject(Fault{Entity: "q", Skip: 1, Times: 2})
	send(t, c, "q", "one", "two")
	send(t, c, "other", "three")
	b.ExpectMessages("q", "one", "two")
	b.ExpectFaultsMet()

	b.Inject(Fault{Entity: "other", After: true}) // the answer is lost, so the SDK sends it twice
	send(t, c, "other", "four")
	b.ExpectMessages("other", "three", "four", "four")

	b.Inject(Fault{Entity: "once", After: true})
	s, err := c.NewSender("once", nil)
	if err != nil {
		t.Fatal(err)
	}
	id := "m"
	if err := s.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("five"), MessageID: &id}, nil); err != nil {
		t.Fatal(err)
	}
	b.ExpectMessages("once", "five")

	b.Inject(Fault{Entity: "q", Code: core.QuotaExceeded})
	s, err = c.NewSender("q", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("six")}, nil); err == nil {
		t.Error("a full queue took a message")
	}
	b.ExpectMessages("q", "one", "two")
}

func TestAReceiverMeetsFaults(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"), Queue("s", func(s *core.Settings) { s.RequiresSession = true }))
	c := connect(t, b)
	send(t, c, "q", "one")
	r, err := c.NewReceiverForQueue("q", nil)
	if err != nil {
		t.Fatal(err)
	}
	m := receive(t, r)
	b.Inject(Fault{Operation: faults.Renew, Code: core.LockLost})
	b.Inject(Fault{Operation: faults.Settle, Code: core.LockLost})
	var lost *azservicebus.Error
	if err := r.RenewMessageLock(t.Context(), m, nil); !errors.As(err, &lost) || lost.Code != azservicebus.CodeLockLost {
		t.Errorf("renew: got %v", err)
	}
	if err := r.CompleteMessage(t.Context(), m, nil); !errors.As(err, &lost) || lost.Code != azservicebus.CodeLockLost {
		t.Errorf("complete: got %v", err)
	}
	b.ExpectMessages("q", "one")

	b.Inject(Fault{Operation: faults.AcceptSession, Entity: "s", Code: core.Unauthorized})
	if _, err := c.AcceptSessionForQueue(t.Context(), "s", "x", nil); err == nil {
		t.Error("a session was accepted")
	}
	began := time.Now()
	b.Inject(Fault{Effect: faults.Delay, Delay: 50 * time.Millisecond})
	send(t, c, "q", "two")
	if time.Since(began) < 50*time.Millisecond {
		t.Error("it did not wait")
	}
	b.ExpectMessages("q", "one", "two")

	b.Inject(Fault{Operation: faults.Peek, Times: 2})
	noted := &failed{TB: t}
	other := *b
	other.tb = noted
	other.ExpectFaultsMet()
	if want := "(peek, fail) took effect 0 times, want 2"; !strings.Contains(noted.text, want) {
		t.Errorf("got %q, want %q", noted.text, want)
	}
}

// A connection that breaks, before or after a message was stored, is one that the SDK opens again.
func TestConnectionsBreak(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"), Queue("once", func(s *core.Settings) { s.RequiresDuplicateDetection = true }))
	c := patient(t, b)
	b.Inject(Fault{Entity: "q", Effect: faults.Drop})
	send(t, c, "q", "one")
	b.ExpectMessages("q", "one")
	b.Inject(Fault{Entity: "q", Effect: faults.Drop, After: true})
	send(t, c, "q", "two") // the SDK does not know that it was stored, and sends it again
	b.ExpectMessages("q", "one", "two", "two")

	b.Inject(Fault{Entity: "once", Effect: faults.Detach, After: true, Code: core.Internal})
	s, err := c.NewSender("once", nil)
	if err != nil {
		t.Fatal(err)
	}
	id := "m"
	if err := s.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("three"), MessageID: &id}, nil); err != nil {
		t.Fatal(err)
	}
	b.ExpectMessages("once", "three")

	r, err := c.NewReceiverForQueue("q", nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Inject(Fault{Operation: faults.Deliver, Effect: faults.Drop}) // the message is locked, and never comes
	met(t, b, r)
	b.ExpectFaultsMet()
	b.Advance(time.Minute)
	if m := receive(t, r); string(m.Body) != "two" && string(m.Body) != "one" {
		t.Errorf("got %q", m.Body)
	}
}

// met receives until the faults are met, which may keep the messages back, and returns those that came.
func met(t *testing.T, b *Bus, r *azservicebus.Receiver) (came []*azservicebus.ReceivedMessage) {
	t.Helper()
	eventually.True(t, "the faults are met", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		ms, _ := r.ReceiveMessages(ctx, 1, nil)
		came = append(came, ms...)
		return len(b.left()) == 0
	})
	return came
}

// left are the faults that are still to be met.
func (b *Bus) left() (names []string) {
	for _, s := range b.faults().List() {
		if s.Met < s.Times {
			names = append(names, s.Name)
		}
	}
	return names
}

func TestExpiredLocksRedeliverMessages(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"), Queue("s", func(s *core.Settings) { s.RequiresSession = true }))
	c := connect(t, b)
	r, err := c.NewReceiverForQueue("q", nil)
	if err != nil {
		t.Fatal(err)
	}
	send(t, c, "q", "one")
	b.Inject(Fault{Operation: faults.Deliver, Effect: faults.LoseLock})
	first := receive(t, r)
	again := receive(t, r)
	if again.DeliveryCount != 2 || string(again.Body) != "one" {
		t.Errorf("delivered %d times: %q", again.DeliveryCount, again.Body)
	}
	var lost *azservicebus.Error
	if err := r.CompleteMessage(t.Context(), first, nil); !errors.As(err, &lost) || lost.Code != azservicebus.CodeLockLost {
		t.Errorf("complete under the lost lock: got %v", err)
	}
	b.Inject(Fault{Operation: faults.Complete, Effect: faults.DeliverTwice})
	if err := r.CompleteMessage(t.Context(), again, nil); err != nil {
		t.Fatal(err)
	}
	if third := receive(t, r); third.DeliveryCount != 3 {
		t.Errorf("delivered %d times", third.DeliveryCount)
	} else if err := r.CompleteMessage(t.Context(), third, nil); err != nil {
		t.Fatal(err)
	}
	b.ExpectEmpty("q")

	sender, err := c.NewSender("s", nil)
	if err != nil {
		t.Fatal(err)
	}
	id := "x"
	if err := sender.SendMessage(t.Context(), &azservicebus.Message{SessionID: &id, Body: []byte("in session")}, nil); err != nil {
		t.Fatal(err)
	}
	b.Inject(Fault{Operation: faults.Deliver, Effect: faults.LoseLock})
	holder, err := c.AcceptSessionForQueue(t.Context(), "s", id, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := receive(t, holder)
	other, err := c.AcceptSessionForQueue(t.Context(), "s", id, nil)
	eventually.True(t, "the session is not locked any more", func() bool {
		if err != nil {
			other, err = c.AcceptSessionForQueue(t.Context(), "s", id, nil)
		}
		return err == nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the SDK waits on the link that is gone
	defer cancel()
	if err := holder.CompleteMessage(ctx, m, nil); err == nil {
		t.Error("the first holder has completed the message")
	}
	_ = other.Close(t.Context())
}

func TestMessagesAreReordered(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"), Queue("s", func(s *core.Settings) { s.RequiresSession = true }))
	c := connect(t, b)
	r, err := c.NewReceiverForQueue("q", nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Inject(Fault{Operation: faults.Deliver, Effect: faults.Reorder, Delay: time.Minute})
	send(t, c, "q", "one", "two", "three")
	var got []string
	for len(got) < 3 {
		ms, err := r.ReceiveMessages(t.Context(), 3-len(got), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			got = append(got, string(m.Body))
			if err := r.CompleteMessage(t.Context(), m, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := []string{"two", "one", "three"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	b.ExpectEmpty("q")

	b.Inject(Fault{Operation: faults.Deliver, Effect: faults.Reorder, Delay: time.Millisecond}) // no other comes
	send(t, c, "q", "four")
	m := receive(t, r)
	if string(m.Body) != "four" {
		t.Errorf("got %q", m.Body)
	}
	if err := r.CompleteMessage(t.Context(), m, nil); err != nil {
		t.Fatal(err)
	}

	// A receiver that closes leaves what was kept back to the next one.
	b.Inject(Fault{Operation: faults.Deliver, Effect: faults.Reorder, Delay: time.Minute})
	send(t, c, "q", "five")
	for _, m := range met(t, b, r) { // the drain brought it
		if err := r.AbandonMessage(t.Context(), m, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err = c.NewReceiverForQueue("q", nil); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, r); string(m.Body) != "five" || m.DeliveryCount != 2 {
		t.Errorf("got %q, delivered %d times", m.Body, m.DeliveryCount)
	}
}

// relay forwards connections to a gateway, and counts the bytes that come back.
func relay(t *testing.T, to string) (address string, back *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	back = new(atomic.Int64)
	var tasks sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		tasks.Wait()
	})
	tasks.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			tasks.Go(func() {
				defer func() { _ = client.Close() }()
				gateway, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				tasks.Go(func() {
					_, _ = io.Copy(gateway, client)
					_ = gateway.Close()
				})
				_, _ = io.Copy(client, io.TeeReader(gateway, count{back}))
			})
		}
	})
	return l.Addr().String(), back
}

// count counts what is written.
type count struct{ n *atomic.Int64 }

func (c count) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

func TestATransferIsCut(t *testing.T) {
	t.Parallel()
	const size = 200_000
	b := Start(t, Queue("q"))
	send(t, connect(t, b), "q", strings.Repeat("x", size))
	cut := func(t *testing.T, receive func(address string)) {
		address, back := relay(t, b.Address)
		b.Inject(Fault{Operation: faults.Deliver, Effect: faults.Cut})
		receive(address)
		if got := back.Load(); got < size/2 || got > size*3/4 {
			t.Errorf("the client got %d bytes of a message of %d", got, size)
		}
		b.ExpectFaultsMet()
		b.Advance(time.Minute)
	}
	t.Run("AMQP", func(t *testing.T) {
		cut(t, func(address string) {
			c, err := azservicebus.NewClientFromConnectionString(strings.ReplaceAll(b.ConnectionString, b.Address, address), &azservicebus.ClientOptions{
				RetryOptions: azservicebus.RetryOptions{MaxRetries: -1},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close(context.Background()) }()
			r, err := c.NewReceiverForQueue("q", nil)
			if err != nil {
				t.Fatal(err)
			}
			if ms, err := r.ReceiveMessages(t.Context(), 1, nil); len(ms) > 0 {
				t.Errorf("%d messages came; error %v", len(ms), err)
			}
		})
	})
	t.Run("WebSocket", func(t *testing.T) {
		cut(t, func(address string) {
			ws := native(t, b, address)
			ask := map[string]any{"op": "feed", "id": 2, "feed": 1, "entity": "q", "credit": 1}
			err := ws.WriteJSON(ask)
			for err == nil {
				_, _, err = ws.ReadMessage()
			}
			if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway) {
				t.Errorf("the gateway said goodbye: %v", err)
			}
		})
	})
}

// native opens a connection of the WebSocket protocol that has proven its rights.
func native(t *testing.T, b *Bus, address string) *websocket.Conn {
	t.Helper()
	d := websocket.Dialer{Subprotocols: []string{"crosstown.v1.json"}}
	ws, answer, err := d.DialContext(t.Context(), "ws://"+address+"/$crosstown/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close() // it is empty
	t.Cleanup(func() { _ = ws.Close() })
	if err := ws.WriteJSON(map[string]any{"op": "auth", "id": 1, "token": token(t, b)}); err != nil {
		t.Fatal(err)
	}
	return ws
}

// breaks reads frames until the connection breaks without a word, and returns what it has read.
func breaks(t *testing.T, ws *websocket.Conn) (all string) {
	t.Helper()
	if err := ws.SetReadDeadline(time.Now().Add(eventually.Bound)); err != nil {
		t.Fatal(err)
	}
	for {
		_, frame, err := ws.ReadMessage()
		if err == nil {
			all += string(frame)
			continue
		}
		if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() || websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway) {
			t.Errorf("the connection does not break: %v", err)
		}
		return all
	}
}

// A connection of the WebSocket protocol, or of AMQP in a WebSocket, breaks before or after a message is
// stored, and at a delivery.
func TestWebSocketsBreak(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"), Queue("tunnel"))
	for _, after := range []bool{false, true} {
		ws := native(t, b, b.Address)
		b.Inject(Fault{Effect: faults.Drop, After: after})
		if err := ws.WriteJSON(map[string]any{"op": "send", "id": 2, "entity": "q", "messages": []any{map[string]any{"text": fmt.Sprint(after)}}}); err != nil {
			t.Fatal(err)
		}
		if told := breaks(t, ws); strings.Contains(told, `"id":2`) {
			t.Errorf("the client got an answer: %s", told)
		}
	}
	b.ExpectMessages("q", "true")
	for _, after := range []bool{false, true} {
		ws := native(t, b, b.Address)
		b.Inject(Fault{Operation: faults.Deliver, Effect: faults.Drop, After: after})
		if err := ws.WriteJSON(map[string]any{"op": "feed", "id": 2, "feed": 1, "entity": "q", "credit": 1}); err != nil {
			t.Fatal(err)
		}
		if told := breaks(t, ws); strings.Contains(told, "deliver") != after {
			t.Errorf("after %v: the client got %s", after, told)
		}
		b.Advance(time.Minute) // the lock ends
	}
	b.ExpectFaultsMet()
	b.ExpectMessages("q", "true")
	c, err := azservicebus.NewClientFromConnectionString(b.ConnectionString, &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{MaxRetries: 3, RetryDelay: time.Millisecond, MaxRetryDelay: time.Millisecond},
		NewWebSocketConn: func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			d := websocket.Dialer{Subprotocols: []string{"amqp"}}
			ws, answer, err := d.DialContext(ctx, "ws://"+b.Address+"/$servicebus/websocket", nil)
			if err != nil {
				return nil, err
			}
			_ = answer.Body.Close() // it is empty
			return wsstream.New(ws), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	b.Inject(Fault{Entity: "tunnel", Effect: faults.Drop})
	send(t, c, "tunnel", "one")
	b.Inject(Fault{Entity: "tunnel", Effect: faults.Drop, After: true})
	send(t, c, "tunnel", "two")
	b.ExpectFaultsMet()
	b.ExpectMessages("tunnel", "one", "two", "two")
}

// A message that is received over HTTP gets lost on its way, and stays in the queue.
func TestADeliveryOverHTTPIsLost(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"))
	send(t, connect(t, b), "q", "m")
	for _, effect := range []faults.Effect{faults.Drop, faults.Cut} {
		b.Inject(Fault{Operation: faults.Deliver, Effect: effect})
		if status := ask(t, b, http.MethodPost, "/q/messages/head?timeout=10", ""); status != 0 {
			t.Errorf("%s: the client got %d", effect, status)
		}
		b.ExpectFaultsMet()
		b.ExpectMessages("q", "m")
		b.Advance(time.Minute)
	}
	if status := ask(t, b, http.MethodPost, "/q/messages/head?timeout=10", ""); status != http.StatusCreated {
		t.Errorf("in the end: %d", status)
	}
}

// token gives all rights on the bus.
func token(t *testing.T, b *Bus) string {
	t.Helper()
	c, err := auth.ParseConnectionString(b.ConnectionString)
	if err != nil {
		t.Fatal(err)
	}
	return auth.SignSAS("http://"+c.Host+"/", c.KeyName, c.Key, time.Now().Add(time.Hour))
}

// ask sends a request over HTTP. The status is 0 if no answer came.
func ask(t *testing.T, b *Bus, method, path, body string) (status int) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, "http://"+b.Address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", token(t, b))
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0
	}
	_ = a.Body.Close()
	return a.StatusCode
}

// The answer to a request over HTTP is lost; the message is stored, or not.
func TestARequestOverHTTPGetsNoAnswer(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"))
	for _, after := range []bool{false, true} {
		b.Inject(Fault{Effect: faults.Drop, After: after})
		if status := ask(t, b, http.MethodPost, "/q/messages", fmt.Sprint(after)); status != 0 {
			t.Errorf("the client got %d", status)
		}
	}
	b.ExpectMessages("q", "true")
}

// A condition of AMQP that no code has.
func TestAnyCondition(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"))
	b.Inject(Fault{Condition: "com.microsoft:partition-not-owned"})
	s, err := connect(t, b).NewSender("q", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMessage(t.Context(), &azservicebus.Message{}, nil); err == nil || !strings.Contains(err.Error(), "com.microsoft:partition-not-owned") {
		t.Errorf("got %v", err)
	}
}

func TestManagementMeetsFaults(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"))
	b.Inject(Fault{Operation: faults.Manage, Entity: "q", Code: core.Internal})
	if status := ask(t, b, http.MethodDelete, "/q", ""); status != http.StatusInternalServerError {
		t.Errorf("delete: %d", status)
	}
	if status := ask(t, b, http.MethodPost, "/q/messages", ""); status != http.StatusCreated {
		t.Errorf("the queue was deleted: %d", status)
	}
	b.Inject(Fault{Operation: faults.Manage, After: true, Code: core.Timeout})
	if status := ask(t, b, http.MethodDelete, "/q", ""); status/100 == 2 {
		t.Errorf("delete: %d", status)
	}
	b.ExpectFaultsMet()
	if status := ask(t, b, http.MethodPost, "/q/messages", ""); status != http.StatusNotFound {
		t.Errorf("the queue was not deleted: %d", status)
	}
}

func TestFaultsAreForSomeOperations(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"), Queue("r"))
	c := connect(t, b)
	s, err := c.NewSender("q", nil)
	if err != nil {
		t.Fatal(err)
	}
	colour := func(of string) error {
		return s.SendMessage(t.Context(), &azservicebus.Message{Body: []byte(of), ApplicationProperties: map[string]any{"colour": of}}, nil)
	}
	b.Inject(Fault{Properties: map[string]string{"colour": "red"}, Times: 2, Client: "amqp 127.0.0.1"})
	b.Inject(Fault{Name: "others", Client: "another", Times: 100})
	b.Inject(Fault{Name: "all r", Entity: "r*", Effect: faults.Throttle, Rate: 0.001})
	for _, want := range []struct {
		of     string
		passes bool
	}{{"blue", true}, {"red", false}, {"blue", true}, {"red", false}, {"red", true}} {
		if err := colour(want.of); (err == nil) != want.passes {
			t.Errorf("%s: got %v", want.of, err)
		}
	}
	send(t, c, "r", "one")
	to, err := c.NewSender("r", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := to.SendMessage(t.Context(), &azservicebus.Message{}, nil); err == nil {
		t.Error("the second of a thousand seconds has passed")
	}

	met := func() (n int) {
		if err := b.faults().Remove(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		b.Inject(Fault{Entity: "q", Probability: 0.5, Seed: 7, Times: 100})
		for range 20 {
			_ = colour("green")
		}
		all := b.faults().List()
		if len(all) != 1 {
			t.Fatalf("got %v", all)
		}
		return all[0].Met
	}
	if one, two := met(), met(); one != two || one < 3 || one > 17 {
		t.Errorf("of 20 with a probability of a half %d and %d were met", one, two)
	}
}

func TestTokensAreRefusedAndEnd(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"))
	b.Inject(Fault{Operation: faults.Authorize, Code: core.Unauthorized})
	s, err := connect(t, b).NewSender("q", nil)
	if err != nil {
		t.Fatal(err)
	}
	var refused *azservicebus.Error
	if err := s.SendMessage(t.Context(), &azservicebus.Message{}, nil); !errors.As(err, &refused) || refused.Code != azservicebus.CodeUnauthorizedAccess {
		t.Errorf("a token that is refused: got %v", err)
	}
	b.Inject(Fault{Operation: faults.Authorize, Effect: faults.ExpireToken, Times: 2})
	if s, err = connect(t, b).NewSender("q", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.SendMessage(t.Context(), &azservicebus.Message{}, nil); err == nil {
		t.Error("a message was sent with a token that has ended")
	}
	b.ExpectFaultsMet()
	b.ExpectEmpty("q")
}
