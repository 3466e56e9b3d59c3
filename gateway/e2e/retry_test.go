package e2e

import (
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/internal/variants"
)

// clockSlack is by how much the clocks of a store and of a test may differ.
const clockSlack = 50 * time.Millisecond

// putOff abandons a message with a property.
func (e *env) putOff(r *azservicebus.Receiver, m *azservicebus.ReceivedMessage, property string, v any) error {
	e.Helper()
	return r.AbandonMessage(e.ctx(), m, &azservicebus.AbandonMessageOptions{PropertiesToModify: map[string]any{property: v, "tried": true}})
}

// wantBack waits for a message that was put off at began.
func (e *env) wantBack(r *azservicebus.Receiver, m *azservicebus.ReceivedMessage, began time.Time, wait time.Duration) *azservicebus.ReceivedMessage {
	e.Helper()
	again := e.one(r)
	if took := time.Since(began); took < wait-clockSlack {
		e.Fatalf("message %d was to wait for %v, and is there after %v", *m.SequenceNumber, wait, took)
	}
	p := again.ApplicationProperties
	if *again.SequenceNumber != *m.SequenceNumber || again.DeliveryCount != m.DeliveryCount+1 || len(p) != 1 || p["tried"] != true {
		e.Fatalf("got number %d, delivery %d, properties %v; want %d, %d, and tried alone", *again.SequenceNumber, again.DeliveryCount, p, *m.SequenceNumber, m.DeliveryCount+1)
	}
	return again
}

func TestAMessageIsPutOff(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		e.send(queue, "a", "b", "c", "d")
		r := e.receiver(queue)
		m := e.one(r)
		began := time.Now()
		if err := e.putOff(r, m, "x-crosstown-retry-after", 1.5); err != nil {
			e.Fatal(err)
		}
		others := e.take(r, 3)
		if got, want := bodies(others), []string{"b", "c", "d"}; !slices.Equal(got, want) {
			e.Fatalf("meanwhile: got %q, want %q", got, want)
		}
		e.complete(r, others...)
		if browsed := e.peek(r, 0, 5); len(browsed) != 1 || browsed[0].State != azservicebus.MessageStateActive {
			e.Errorf("peek: got %v, want one that is active", browsed)
		}
		m = e.wantBack(r, m, began, 1500*time.Millisecond)

		began = time.Now()
		due := began.Add(time.Second)
		if err := e.putOff(r, m, "x-crosstown-retry-at", due); err != nil {
			e.Fatal(err)
		}
		m = e.wantBack(r, m, began, due.Truncate(time.Millisecond).Sub(began))

		// The SDK itself hides refusals of this kind behind its retries.
		for v, want := range map[any]string{"soon": "is not a delay", int32(100_000): "at most 24h0m0s is allowed"} {
			reply := e.ask(queue, "com.microsoft:update-disposition", map[string]any{
				"disposition-status": "abandoned", "lock-tokens": []amqp.UUID{m.LockToken},
				"properties-to-modify": map[string]any{"x-crosstown-retry-after": v},
			})
			if text, _ := reply.ApplicationProperties["statusDescription"].(string); !strings.Contains(text, want) {
				e.Errorf("wait for %v: got %v, want %q", v, reply.ApplicationProperties, want)
			}
		}
		e.completeByToken(queue, m) // it was locked all the time
		e.nothing(r)
	})
}

func TestAMessageThatIsPutOffPausesItsSession(t *testing.T) {
	onEachEngine(t, func(e *env) {
		pause := func(queue string, wait time.Duration) (began time.Time) {
			held := e.next(queue)
			m := held.take(1)[0]
			began = time.Now()
			if err := held.AbandonMessage(e.ctx(), m, &azservicebus.AbandonMessageOptions{PropertiesToModify: map[string]any{"x-crosstown-retry-after": wait.Seconds()}}); err != nil {
				e.Fatal(err)
			}
			held.end()
			return began
		}
		looked := e.queue(withSessions())
		e.sendTo(looked, "blue", "a", "b")
		pause(looked, time.Hour)
		if s := e.inspect(looked, "blue"); s.Delayed != 1 || s.LockedUntil != nil {
			e.Errorf("paused: got %+v", s)
		}

		queue := e.queue(withSessions())
		e.sendTo(queue, "blue", "a", "b")
		e.sendTo(queue, "red", "c")
		const wait = 2 * time.Second
		began := pause(queue, wait)
		other := e.next(queue)
		other.complete(other.take(1)...)
		other.end()
		again := e.next(queue)
		ms := again.take(2)
		if took := time.Since(began); again.SessionID() != "blue" || took < wait-clockSlack || !slices.Equal(bodies(ms), []string{"a", "b"}) || ms[0].DeliveryCount != 2 {
			e.Errorf("then: got %q of session %s after %v, delivery %d", bodies(ms), again.SessionID(), took, ms[0].DeliveryCount)
		}
		again.complete(ms...)
		again.end()
	})
}

func TestEveryProtocolPutsMessagesOff(t *testing.T) {
	onEachEngine(t, func(e *env) {
		for name, abandon := range map[string]func(queue string, m *azservicebus.ReceivedMessage){
			"management": func(queue string, m *azservicebus.ReceivedMessage) {
				e.manage(queue, "com.microsoft:update-disposition", map[string]any{
					"disposition-status": "abandoned", "lock-tokens": []amqp.UUID{m.LockToken},
					"properties-to-modify": map[string]any{"x-crosstown-retry-after": "PT1S", "tried": true},
				})
			},
			"WebSocket": func(queue string, m *azservicebus.ReceivedMessage) {
				e.native().must(map[string]any{"op": "settle", "entity": queue, "settlements": []any{map[string]any{
					"lockToken": amqp.UUID(m.LockToken).String(), "outcome": "abandon",
					"properties": map[string]any{"x-crosstown-retry-after": 1, "tried": true},
				}}})
			},
		} {
			e.Log(name)
			queue := e.queue(nil)
			e.send(queue, "a")
			r := e.receiver(queue)
			m := e.one(r)
			began := time.Now()
			abandon(queue, m)
			e.complete(r, e.wantBack(r, m, began, time.Second))
		}

		queue := e.queue(nil)
		e.send(queue, "a")
		locked := e.wantHTTP(e.http(http.MethodPost, queue+"/messages/head?timeout=5", "", nil), http.StatusCreated)
		began := time.Now()
		e.wantHTTP(e.http(http.MethodPut, locked.settleAt(e), "", http.Header{"x-crosstown-retry-after": {"1"}}), http.StatusOK)
		m := e.one(e.receiver(queue))
		if took := time.Since(began); took < time.Second-clockSlack || m.DeliveryCount != 2 || len(m.ApplicationProperties) != 0 {
			e.Errorf("by HTTP: back after %v, delivery %d, properties %v", took, m.DeliveryCount, m.ApplicationProperties)
		}
	})
}

func TestPoliciesPutMessagesOff(t *testing.T) {
	t.Parallel()
	variants.Each(t, func(t *testing.T, engine string) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "crosstown.yaml")
		const retries = "retries: [{entity: retr*, backoff: 300ms, factor: 2, max: 1s}]\n"
		if err := os.WriteFile(file, []byte(retries), 0o600); err != nil {
			t.Fatal(err)
		}
		e := &env{T: t, gw: own(t, storeOf(t, engine), "--config="+file), plain: true}
		e.create("retried", &admin.QueueProperties{MaxDeliveryCount: new(int32(5))})
		e.send("retried", "a")
		r := e.receiver("retried")
		m := e.one(r)
		abandon := func() {
			t.Helper()
			if err := r.AbandonMessage(e.ctx(), m, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, wait := range []time.Duration{300 * time.Millisecond, 600 * time.Millisecond, time.Second, time.Second} {
			began := time.Now()
			abandon()
			again := e.one(r)
			if took := time.Since(began); took < wait-clockSlack || again.DeliveryCount != m.DeliveryCount+1 {
				t.Fatalf("delivery %d: back after %v, want %v", again.DeliveryCount, took, wait)
			}
			m = again
		}
		abandon() // for the last time
		if dead := e.one(e.deadLetters("retried")); string(dead.Body) != "a" {
			t.Errorf("dead letter: got %q", dead.Body)
		}
	}, "memory", "redis")
}

func TestHowExactlyMessagesComeBack(t *testing.T) {
	onEachEngine(t, func(e *env) {
		const messages = 200
		queue := e.queue(nil)
		s := e.sender(queue)
		batch, err := s.NewMessageBatch(e.ctx(), nil)
		if err != nil {
			e.Fatal(err)
		}
		for range messages {
			if err := batch.AddMessage(&azservicebus.Message{Body: []byte("m")}, nil); err != nil {
				e.Fatal(err)
			}
		}
		if err := s.SendMessageBatch(e.ctx(), batch, nil); err != nil {
			e.Fatal(err)
		}
		// The SDK's receiver collects messages for a while; this one hands over each as it comes.
		r, err := e.amqp().NewReceiver(e.ctx(), queue, &amqp.ReceiverOptions{Credit: messages})
		if err != nil {
			e.Fatal(err)
		}
		receive := func() (m *amqp.Message, number int64) {
			e.Helper()
			m, err := r.Receive(e.ctx(), nil)
			if err != nil {
				e.Fatal(err)
			}
			number, _ = m.Annotations["x-opt-sequence-number"].(int64)
			return m, number
		}
		due := map[int64]time.Time{}
		timers := make([]time.Duration, messages) // what this machine has to spare
		var elapsed sync.WaitGroup
		for i := range timers {
			m, number := receive()
			at := time.Now().Add(2*time.Second + rand.N(3*time.Second)).Truncate(time.Millisecond)
			due[number] = at
			if err := r.ModifyMessage(e.ctx(), m, &amqp.ModifyMessageOptions{Annotations: amqp.Annotations{"x-crosstown-retry-at": at}}); err != nil {
				e.Fatal(err)
			}
			elapsed.Add(1)
			time.AfterFunc(time.Until(at), func() {
				defer elapsed.Done()
				timers[i] = time.Since(at)
			})
		}
		late := make([]time.Duration, messages)
		for i := range late {
			m, number := receive()
			late[i] = time.Since(due[number])
			if err := r.AcceptMessage(e.ctx(), m); err != nil {
				e.Fatal(err)
			}
		}
		elapsed.Wait()
		slices.Sort(late)
		slices.Sort(timers)
		if late[0] < -clockSlack {
			e.Errorf("a message came %v before its time", -late[0])
		}
		for what, each := range map[string][]time.Duration{"messages": late, "timers": timers} {
			e.Logf("%s: late by %v at best, %v at the median, %v at the 99th percentile, %v at worst", what, each[0], each[messages/2], each[messages*99/100], each[messages-1])
		}
	})
}

func TestTheJavaScriptSDKPutsMessagesOff(t *testing.T) {
	onEachEngine(t, func(e *env) { e.node("retry", "STORY_QUEUE="+e.queue(nil)) })
}
