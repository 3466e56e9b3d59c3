package webhooks

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// pushed runs two pushes of a queue, as two gateways do, and returns what stops them.
func pushed(t *testing.T, b core.Broker, o PushOptions) []*Push {
	t.Helper()
	o.Namespace, o.From, o.Key, o.FirstDelay, o.Grace = "ns", "in", []byte("a key of the endpoint"), time.Millisecond, time.Minute
	var all []*Push
	for range 2 {
		p := NewPush(o)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = p.Run(ctx, b)
		}()
		t.Cleanup(func() { cancel(); <-done })
		all = append(all, p)
	}
	return all
}

func send(t *testing.T, b *broker.Broker, ms ...*core.Message) {
	t.Helper()
	tx, err := b.OpenSender(t.Context(), root, core.At("in"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	for _, m := range ms {
		if err := tx.Send(t.Context(), [][]*core.Message{{m}})[0].Err; err != nil {
			t.Fatal(err)
		}
	}
}

// until waits for a condition; it polls because the store tells nobody.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	eventually.True(t, what, is)
}

func left(t *testing.T, b *broker.Broker, address string) []core.Delivery {
	t.Helper()
	ds, err := b.Peek(t.Context(), root, core.At(address), nil, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

func create(t *testing.T, b *broker.Broker, change func(*core.Settings)) {
	t.Helper()
	s := core.DefaultSettings(core.Queue)
	change(&s)
	if _, err := b.CreateEntity(t.Context(), root, core.Queue, "in", s, nil); err != nil {
		t.Fatal(err)
	}
}

func TestAPushDeliversSignedAndRepeats(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	create(t, b, func(s *core.Settings) { s.MaxDeliveryCount = 4 })
	var mu sync.Mutex
	seen, underWay, most := map[string]int{}, 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := Standard.verify(r, body, [][]byte{[]byte("a key of the endpoint")}, time.Now(), time.Minute); err != nil {
			t.Error(err)
		}
		if r.URL.Path != "/in" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("X-Event") != "paid" || r.Header.Get("X-Hidden") != "" {
			t.Errorf("got %s %v", r.URL, r.Header)
		}
		mu.Lock()
		id := r.Header.Get("webhook-id")
		seen[id]++
		count := seen[id]
		underWay++
		most = max(most, underWay)
		mu.Unlock()
		time.Sleep(time.Millisecond) // so that requests overlap
		defer func() { mu.Lock(); underWay--; mu.Unlock() }()
		switch {
		case id == "gone":
			w.WriteHeader(http.StatusGone)
		case id == "failing":
			w.WriteHeader(http.StatusInternalServerError)
		case id == "moved":
			http.Redirect(w, r, "/private", http.StatusTemporaryRedirect)
		case id == "later" && count < 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	var messages []*core.Message
	for i := range 50 {
		id := fmt.Sprint("m", i)
		if i < 4 {
			id = []string{"gone", "failing", "moved", "later"}[i]
		}
		properties, err := core.NewProperties(core.Property{Key: "X-Event", Value: "paid"}, core.Property{Key: "X-Hidden", Value: "yes"})
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, &core.Message{MessageID: core.StringID(id), ContentType: "application/json", Properties: properties, Body: core.Body{Bytes: []byte(`{}`)}})
	}
	send(t, b, messages...)
	pushes := pushed(t, b, PushOptions{URL: server.URL + "/in?secret=in-the-address", Headers: []string{"X-Event"}, Concurrent: 3})
	until(t, "the queue is empty", func() bool { return len(left(t, b, "in")) == 0 })
	got := map[string]string{}
	for _, d := range left(t, b, "in/$DeadLetterQueue") {
		reason, _ := d.Properties.Get(core.PropertyDeadLetterReason)
		description, _ := d.Properties.Get(core.PropertyDeadLetterDescription)
		if text := fmt.Sprint(description); !strings.Contains(text, "answered") || strings.Contains(text, "in-the-address") {
			t.Errorf("%s: %v", d.MessageID, description)
		}
		got[d.MessageID.String()] = fmt.Sprint(reason)
	}
	if want := map[string]string{"gone": "HTTP 410", "failing": "HTTP 500", "moved": "HTTP 307"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("dead letters: got %v, want %v", got, want)
	}
	mu.Lock()
	defer mu.Unlock()
	for id, count := range seen {
		if want := map[string]int{"failing": 4, "moved": 4, "later": 3}[id]; count != max(want, 1) {
			t.Errorf("%s: %d requests, want %d", id, count, max(want, 1))
		}
	}
	if len(seen) != 50 || most > 6 {
		t.Errorf("%d messages were delivered, up to %d at a time, want 50 and at most 3 of each push", len(seen), most)
	}
	var sum PushState
	for _, p := range pushes {
		s := p.State()
		sum.Delivered, sum.Failed, sum.DeadLettered, sum.UnderWay = sum.Delivered+s.Delivered, sum.Failed+s.Failed, sum.DeadLettered+s.DeadLettered, sum.UnderWay+s.UnderWay
		if strings.Contains(s.URL+s.LastError, "in-the-address") {
			t.Errorf("the state shows a secret: %+v", s)
		}
	}
	if want := (PushState{Delivered: 47, Failed: 8, DeadLettered: 3}); sum != want {
		t.Errorf("got %+v, want %+v", sum, want)
	}
}

func TestAPushKeepsTheOrderOfSessions(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	create(t, b, func(s *core.Settings) { s.RequiresSession, s.MaxDeliveryCount = true, 10 })
	var mu sync.Mutex
	taken, tries := map[string][]string{}, map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get("webhook-id")
		session, n, _ := strings.Cut(id, "-")
		if tries[id]++; tries[id] < 3 && n == "2" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		taken[session] = append(taken[session], n)
	}))
	defer server.Close()
	var messages []*core.Message
	for n := range 5 {
		for _, session := range []string{"a", "b", "c"} {
			messages = append(messages, &core.Message{SessionID: session, MessageID: core.StringID(fmt.Sprint(session, "-", n))})
		}
	}
	send(t, b, messages...)
	pushed(t, b, PushOptions{URL: server.URL, Concurrent: 2})
	until(t, "the queue is empty", func() bool { return len(left(t, b, "in")) == 0 })
	mu.Lock()
	defer mu.Unlock()
	for _, session := range []string{"a", "b", "c"} {
		if want := []string{"0", "1", "2", "3", "4"}; !slices.Equal(taken[session], want) {
			t.Errorf("session %s: got %v, want %v", session, taken[session], want)
		}
	}
}

func TestAPushWaitsAsItIsTold(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for header, want := range map[string]time.Duration{
		"": 0, "120": 2 * time.Minute, now.Add(time.Minute).UTC().Format(http.TimeFormat): time.Minute, now.Add(-time.Hour).UTC().Format(http.TimeFormat): 0,
		"soon": 0, "-1": 0, "999999999": core.MaxBackoff,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q: got %v, want %v", header, got, want)
		}
	}
	p := NewPush(PushOptions{})
	for failures, want := range map[uint32]time.Duration{0: 5 * time.Second, 1: 10 * time.Second, 3: 40 * time.Second, 30: time.Hour, 1 << 31: time.Hour} {
		if got := p.backoff(failures); got > want || got < want*4/5 {
			t.Errorf("after %d failures: got %v, want %v less at most a fifth", failures, got, want)
		}
	}
}

// A receiver's answer takes a bounded part of the memory and of the log, whatever it says.
func TestWhatAReceiverOfPushesSaysIsBounded(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{
		"a long status line": "HTTP/1.1 500 " + strings.Repeat("R", 9<<20) + "\r\nContent-Length: 0\r\n\r\n",
		"its own words":      "HTTP/1.1 500 <script>\r\nContent-Length: 0\r\n\r\n",
		"many headers":       "HTTP/1.1 500 x\r\n" + strings.Repeat("X: y\r\n", 1<<20) + "\r\n",
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = http.ReadRequest(bufio.NewReader(c))
				_, _ = io.WriteString(c, head) // it may be cut short
				_ = c.Close()
			}
		}()
		b := newBroker(t)
		create(t, b, func(s *core.Settings) { s.MaxDeliveryCount = 1 })
		pushed(t, b, PushOptions{Name: "p", URL: "http://" + ln.Addr().String(), Timeout: time.Minute})
		send(t, b, &core.Message{})
		until(t, name, func() bool { return len(left(t, b, "in/$DeadLetterQueue")) == 1 })
		why, _ := left(t, b, "in/$DeadLetterQueue")[0].Properties.Get(core.PropertyDeadLetterDescription)
		if text, _ := why.(string); len(text) > 500 || strings.Contains(text, "script") {
			t.Errorf("%s: %d bytes were kept of the answer: %.100s", name, len(text), text)
		}
	}
}
