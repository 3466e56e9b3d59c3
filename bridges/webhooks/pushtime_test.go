package webhooks

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

// endpoint answers the requests of a push, without a socket.
type endpoint func(r *http.Request) int

func (e endpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	status := e(r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Body: io.NopCloser(strings.NewReader("")), Header: http.Header{}}, nil
}

// push runs a push of the queue "in" and returns what ends it, and waits.
func push(t *testing.T, b core.Broker, o PushOptions, e endpoint) (p *Push, end func()) {
	t.Helper()
	o.Namespace, o.From, o.Key = "ns", "in", []byte("a key of the endpoint")
	o.Logger = slog.New(slog.DiscardHandler)
	if o.URL == "" {
		o.URL = "https://shop.example/in"
	}
	p = NewPush(o)
	p.client.Transport = e
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Run(ctx, b)
	}()
	end = func() { cancel(); <-done }
	t.Cleanup(end)
	return p, end
}

// slow waits as long as the request may take.
func slow(r *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

func TestAPushKeepsTheLockOfASlowRequest(t *testing.T) {
	t.Parallel()
	for _, sessions := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBroker(t)
			create(t, b, func(s *core.Settings) { s.LockDuration, s.RequiresSession = 10*time.Second, sessions })
			var requests atomic.Int32
			o := PushOptions{Timeout: 10 * time.Minute, Concurrent: 1}
			var pushes []*Push
			for range 2 { // the other one would get the message when the lock ends
				p, _ := push(t, b, o, func(r *http.Request) int {
					requests.Add(1)
					slow(r, 5*time.Minute)
					return http.StatusOK
				})
				pushes = append(pushes, p)
			}
			send(t, b, &core.Message{SessionID: "s", MessageID: core.StringID("m")})
			time.Sleep(6 * time.Minute)
			synctest.Wait()
			if n := len(left(t, b, "in")); n != 0 || requests.Load() != 1 || pushes[0].State().Delivered+pushes[1].State().Delivered != 1 {
				t.Errorf("sessions %v: %d are left, after %d requests", sessions, n, requests.Load())
			}
		})
	}
}

func TestASessionThatFailsHoldsNoOtherBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		create(t, b, func(s *core.Settings) { s.RequiresSession, s.MaxDeliveryCount = true, 100 })
		var mu sync.Mutex
		taken, most, underWay, works := map[string]int{}, 0, 0, false
		p, _ := push(t, b, PushOptions{Concurrent: 2, FirstDelay: time.Hour, MaxDelay: time.Hour}, func(r *http.Request) int {
			mu.Lock()
			underWay++
			most = max(most, underWay)
			mu.Unlock()
			slow(r, time.Second)
			mu.Lock()
			defer mu.Unlock()
			underWay--
			id := r.Header.Get(headerID)
			if strings.HasPrefix(id, "bad") && !works {
				return http.StatusInternalServerError
			}
			taken[id]++
			return http.StatusOK
		})
		var ms []*core.Message
		for _, s := range []string{"bad-1", "bad-2", "bad-3", "good-1", "good-2", "good-3"} {
			for n := range 2 {
				ms = append(ms, &core.Message{SessionID: s, MessageID: core.StringID(fmt.Sprint(s, "/", n))})
			}
		}
		send(t, b, ms...)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		mu.Lock()
		if len(taken) != 6 || most > 2 {
			t.Errorf("half a minute later: taken %v, up to %d requests at a time", taken, most)
		}
		works = true
		mu.Unlock()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for id, n := range taken {
			if n != 1 {
				t.Errorf("%s: taken %d times", id, n)
			}
		}
		if s := p.State(); len(taken) != 12 || most > 2 || s.Failed != 3 || s.UnderWay != 0 {
			t.Errorf("at the end: taken %v, up to %d requests at a time, %+v", taken, most, s)
		}
	})
}

func TestPushContinuesWhenItsEntityIsRecreated(t *testing.T) {
	t.Parallel()
	for _, sessions := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBroker(t)
			var taken atomic.Int32
			p, _ := push(t, b, PushOptions{}, func(r *http.Request) int {
				taken.Add(1)
				slow(r, 10*time.Second)
				return http.StatusOK
			})
			for want := int32(1); want <= 2; want++ {
				time.Sleep(time.Minute) // there is no such entity
				if s := p.State(); s.LastError == "" {
					t.Errorf("the state tells no error: %+v", s)
				}
				create(t, b, func(s *core.Settings) { s.RequiresSession = sessions })
				send(t, b, &core.Message{SessionID: "s"})
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := taken.Load(); n != want {
					t.Errorf("sessions %v: %d requests, want %d", sessions, n, want)
				}
				if err := b.DeleteEntity(t.Context(), root, "in"); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestAPushThatEndsLetsRequestsEnd(t *testing.T) {
	t.Parallel()
	for _, sessions := range []bool{false, true} {
		for grace, want := range map[time.Duration]int{time.Minute: 1, time.Second: 2} {
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(t)
				create(t, b, func(s *core.Settings) { s.RequiresSession, s.MaxDeliveryCount = sessions, 1 })
				_, end := push(t, b, PushOptions{Concurrent: 1, Grace: grace, Timeout: time.Minute}, func(r *http.Request) int {
					slow(r, 20*time.Second)
					return http.StatusOK
				})
				send(t, b, &core.Message{SessionID: "s"}, &core.Message{SessionID: "s"})
				time.Sleep(time.Second)
				end()
				waiting := left(t, b, "in")
				if len(waiting) != want || waiting[0].DeliveryCount != 0 || len(left(t, b, "in/$DeadLetterQueue")) != 0 {
					t.Errorf("sessions %v, a grace of %v: %d are left, want %d; dead: %v", sessions, grace, len(waiting), want, left(t, b, "in/$DeadLetterQueue"))
				}
			})
		}
	}
}

// The requests that go on must not keep others from the messages that none has begun with.
func TestAPushThatEndsTakesNoFurtherMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		create(t, b, func(*core.Settings) {})
		_, end := push(t, b, PushOptions{Concurrent: 10, Grace: time.Hour, Timeout: time.Hour}, func(r *http.Request) int {
			slow(r, time.Hour)
			return http.StatusOK
		})
		send(t, b, &core.Message{MessageID: core.StringID("under way")})
		time.Sleep(time.Second)
		go end()
		synctest.Wait()
		send(t, b, &core.Message{MessageID: core.StringID("later")})
		synctest.Wait()
		got := make(chan core.Delivery, 1)
		rx, err := b.OpenReceiver(t.Context(), root, core.At("in"), core.ReceiverOptions{Deliver: func(ds []core.Delivery) { got <- ds[0] }})
		if err != nil {
			t.Fatal(err)
		}
		defer rx.Close()
		rx.AddCredit(1, core.AnyMessage)
		synctest.Wait()
		select {
		case d := <-got:
			if d.MessageID.String() != "later" || d.DeliveryCount != 0 {
				t.Errorf("got %v after %d deliveries", d.MessageID, d.DeliveryCount)
			}
		default:
			t.Error("another receiver does not get the message")
		}
	})
}

func TestPushesCountInTheMemoryOfMessages(t *testing.T) {
	t.Parallel()
	for _, sessions := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBroker(t)
			create(t, b, func(s *core.Settings) { s.RequiresSession = sessions })
			memory := fair.New(1<<20, nil, nil)
			var most atomic.Int64
			_, end := push(t, b, PushOptions{Concurrent: 10, Budget: memory}, func(r *http.Request) int {
				slow(r, time.Second)
				if held := memory.Stats().Held; held > most.Load() {
					most.Store(held)
				}
				return http.StatusOK
			})
			var ms []*core.Message
			for i := range 30 {
				ms = append(ms, &core.Message{SessionID: fmt.Sprint(i % 15), Body: core.Body{Bytes: make([]byte, 200<<10)}})
			}
			send(t, b, ms[0])
			time.Sleep(10 * time.Second) // now its size is known
			send(t, b, ms[1:]...)
			time.Sleep(time.Hour)
			synctest.Wait()
			if n := len(left(t, b, "in")); n != 0 || most.Load() == 0 {
				t.Errorf("sessions %v: %d are left, at most %d bytes were counted", sessions, n, most.Load())
			}
			end()
			if held := memory.Stats().Held; held != 0 {
				t.Errorf("%d bytes are still counted", held)
			}
		})
	}
}

func TestAPushTellsNoSecretOfItsAddress(t *testing.T) {
	t.Parallel()
	p := NewPush(PushOptions{Namespace: "ns", From: "in", URL: "http://user:topsecret@127.0.0.1:1/in put?code=topsecret", Key: []byte("k")})
	w := &pushing{Push: p, requests: t.Context()}
	reason, text, _ := w.post(core.Delivery{Message: &core.Message{}})
	if reason != "no answer" || strings.Contains(text, "topsecret") || !strings.Contains(text, "127.0.0.1:1") {
		t.Errorf("got %s: %s", reason, text)
	}
}
