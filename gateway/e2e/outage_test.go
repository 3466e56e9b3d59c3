package e2e

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

func TestRedisIsLostAndComesBack(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{AOF: "always"})
	g := own(t, r.URL())
	e := &env{T: t, gw: g, plain: true}
	queue := e.queue(nil)
	raw, err := e.amqp().NewSender(e.ctx(), queue, nil)
	if err != nil {
		t.Fatal(err)
	}
	var stored []string
	post := func(body string) error {
		err := raw.Send(e.ctx(), amqp.NewMessage([]byte(body)), nil)
		if err == nil {
			stored = append(stored, body)
		}
		return err
	}
	if err := post("before"); err != nil {
		t.Fatal(err)
	}
	locked := e.one(e.receiver(queue))

	r.Kill()
	refused := post("during")
	if refused == nil {
		t.Fatal("a send was acknowledged while Redis was down")
	}
	// A condition that the SDKs retry, and the link stays: one send's outcome is no reason to drop it.
	if got, ok := errors.AsType[*amqp.Error](refused); !ok || got.Condition != "com.microsoft:server-busy" && got.Condition != "com.microsoft:timeout" {
		t.Errorf("got %v, want a retriable condition", refused)
	}
	if a := e.http(http.MethodPost, queue+"/messages", "x", nil); a.status != http.StatusServiceUnavailable {
		t.Errorf("HTTP: got %d %s, want 503", a.status, a.body)
	}
	if a := e.http(http.MethodGet, "health", "", nil); a.status != http.StatusServiceUnavailable || a.body == "" {
		t.Errorf("health: got %d %q, want 503 with the reason", a.status, a.body)
	}
	completion := e.ask(queue, "com.microsoft:update-disposition", map[string]any{
		"disposition-status": "completed", "lock-tokens": []amqp.UUID{locked.LockToken},
	})
	if status := completion.ApplicationProperties["statusCode"]; status != int32(503) {
		t.Errorf("a completion while Redis was down: got status %v, want 503", status)
	}

	r.Restart(t)
	e.eventually("health is good again", func() bool { return g.health() == nil })
	for i := range 3 {
		if err := post("after " + strconv.Itoa(i)); err != nil {
			t.Errorf("the same link after the outage: %v", err)
		}
	}
	e.completeByToken(queue, locked) // its lock has survived
	again := e.receiver(queue)
	got := map[string]bool{"before": true}
	for _, m := range e.take(again, len(stored)-1) {
		got[string(m.Body)] = true
	}
	for _, body := range stored {
		if !got[body] {
			t.Errorf("%q was acknowledged and is lost; got %v", body, got)
		}
	}
}

func TestTheSDKRidesOutAnOutage(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{AOF: "always"})
	g := own(t, r.URL())
	e := &env{T: t, gw: g, plain: true}
	queue := e.queue(nil)
	c, err := azservicebus.NewClientFromConnectionString(g.connection(devPolicy, devKey, true), &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{MaxRetries: 50, RetryDelay: silence, MaxRetryDelay: silence},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(e.ctx()) })
	s := e.senderOf(c, queue)
	e.post(s, &azservicebus.Message{Body: []byte("a")})
	r.Kill()
	sent := make(chan error, 1)
	go func() { sent <- s.SendMessage(e.ctx(), &azservicebus.Message{Body: []byte("b")}, nil) }()
	select {
	case err := <-sent:
		t.Fatalf("the send ended while Redis was down: %v", err)
	case <-time.After(2 * silence):
	}
	r.Restart(t)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	e.take(e.receiver(queue), 2)
}

func TestTheSDKReportsNoCompletionThatNeverWas(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{AOF: "always"})
	g := own(t, r.URL())
	e := &env{T: t, gw: g, plain: true}
	queue := e.queue(nil)
	e.send(queue, "a", "b")
	receiver := e.receiver(queue)
	ms := e.take(receiver, 2)
	r.Kill()
	short, cancel := context.WithTimeout(t.Context(), 6*time.Second) // the SDK tries again after four
	defer cancel()
	if err := receiver.CompleteMessage(short, ms[0], nil); err == nil {
		t.Fatal("a completion was reported while Redis was down")
	}
	completed := make(chan error, 1)
	go func() { completed <- receiver.CompleteMessage(e.ctx(), ms[1], nil) }()
	time.Sleep(silence) // most likely the SDK has asked by then; if not, it completes all the same
	r.Restart(t)
	if err := <-completed; err != nil {
		t.Errorf("completing over the outage: %v", err)
	}
	e.completeByToken(queue, ms[0])
	if c := e.runtime(queue); c.TotalMessageCount != 0 {
		t.Errorf("%d messages are left", c.TotalMessageCount)
	}
}
