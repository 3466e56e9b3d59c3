package https

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

// listener is a client of a stream. It takes what is written as long as it is not stuck.
type listener struct {
	mu       sync.Mutex
	head     http.Header
	status   int
	text     bytes.Buffer
	deadline time.Time
	stuck    chan struct{} // writes wait for it to close; nil: they do not

	leave context.CancelFunc
	done  chan struct{}
}

func (l *listener) Header() http.Header { return l.head }

func (l *listener) WriteHeader(status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status = status
}

func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	stuck, patience := l.stuck, time.Until(l.deadline)
	l.mu.Unlock()
	if stuck != nil {
		select {
		case <-stuck:
		case <-time.After(patience):
			return 0, errors.New("i/o timeout")
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *listener) FlushError() error { return nil }

func (l *listener) SetWriteDeadline(at time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = at
	return nil
}

// stick makes writes wait until release.
func (l *listener) stick() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{})
	l.stuck = c
	return func() { close(c) }
}

// listen opens a stream in a bubble. drain ends it as Serve would.
func listen(t *testing.T, b *Bridge, target string, headers ...string) (l *listener, drain func()) {
	t.Helper()
	draining, drain := context.WithCancel(context.Background())
	ctx, leave := context.WithCancel(bridges.WithEnding(t.Context(), draining.Done()))
	l = &listener{head: http.Header{}, status: http.StatusOK, leave: leave, done: make(chan struct{})}
	r := httptest.NewRequest("GET", target, http.NoBody).WithContext(ctx)
	r.Header.Set("Authorization", "SharedAccessSignature all")
	for _, h := range headers {
		name, v, _ := strings.Cut(h, ": ")
		r.Header.Set(name, v)
	}
	go func() {
		defer close(l.done)
		b.Handler().ServeHTTP(l, r)
	}()
	t.Cleanup(func() {
		leave()
		drain()
		<-l.done
	})
	synctest.Wait()
	return l, drain
}

// take waits until all is quiet and returns what has come since.
func (l *listener) take() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.String()
	l.text.Reset()
	return text
}

// ids are those of the events in a text.
func ids(text string) string {
	var all []string
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			all = append(all, strings.TrimSpace(id))
		}
	}
	return strings.Join(all, " ")
}

// inBubble runs a test with a bridge under a fake clock.
func inBubble(t *testing.T, test func(t *testing.T, f *fakeBus, b *Bridge)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeBus("q", "q/$DeadLetterQueue")
		test(t, f, newBridge(f))
	})
}

func plain(body string) *core.Message {
	return &core.Message{ContentType: "text/plain", Body: core.Body{Bytes: []byte(body)}}
}

func TestAStreamShowsWhatIsThereAndWhatComes(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeBus, b *Bridge) {
		f.put("q", plain("a"))
		l, _ := listen(t, b, "/q/messages/stream")
		want := "retry: 3000\n\n" +
			"event: message\nid: 1\n" +
			`data: {"broker":{"ContentType":"text/plain","SequenceNumber":1,"EnqueuedSequenceNumber":1,"EnqueuedTimeUtc":"2024-01-02T03:04:05.000Z","DeliveryCount":0,"State":"Active"},"text":"a"}` +
			"\n\n"
		if got := l.take(); got != want || l.status != http.StatusOK || l.head.Get("Content-Type") != "text/event-stream" || l.head.Get("Cache-Control") != "no-store" {
			t.Errorf("got %d %v %q, want %q", l.status, l.head, got, want)
		}
		time.Sleep(time.Minute)
		l.take()
		f.put("q", plain("b"), plain("c"))
		time.Sleep(lateFollow)
		if got := ids(l.take()); got != "2 3" {
			t.Errorf("later: got %q, want 2 and 3", got)
		}
		if n := len(f.stored("q")); n != 3 {
			t.Errorf("%d messages are left, want all", n)
		}
	})
}

func TestAStreamOfABacklogGoesOnWithoutPause(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeBus, b *Bridge) {
		for range 3*followPage + 7 {
			f.put("q", plain("x"))
		}
		l, _ := listen(t, b, "/q/messages/stream")
		if got := strings.Fields(ids(l.take())); len(got) != 3*followPage+7 || got[len(got)-1] != "307" {
			t.Errorf("got %d events, want all at once", len(got))
		}
	})
}

func TestAStreamBeginsWhereItIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeBus, b *Bridge) {
		for range 5 {
			f.put("q", plain("x"))
		}
		f.put("q/$DeadLetterQueue", plain("dead"))
		for _, c := range []struct{ target, header, want, next string }{
			{"/q/messages/stream?from=0", "", "1 2 3 4 5", "6"},
			{"/q/messages/stream?from=4&mode=PEEK&bodies=auto&api-version=2021-05", "", "4 5", "6"},
			{"/q/messages/stream?from=9", "", "", ""},
			{"/q/messages/stream?from=new", "", "", "6"},
			{"/q/messages/stream", "Last-Event-ID: 3", "4 5", "6"},
			{"/q/messages/stream?from=1", "Last-Event-ID: 5", "", "6"},
			{"/Q/$deadletterqueue/Messages/Stream/", "", "1", ""},
		} {
			headers := []string{c.header}
			if c.header == "" {
				headers = nil
			}
			l, _ := listen(t, b, c.target, headers...)
			if got := ids(l.take()); got != c.want {
				t.Errorf("%s %s: got %q, want %q", c.target, c.header, got, c.want)
			}
			f.put("q", plain("next"))
			time.Sleep(time.Second)
			if got := ids(l.take()); got != c.next {
				t.Errorf("%s %s: then got %q, want %q", c.target, c.header, got, c.next)
			}
			l.leave()
			<-l.done
			q := f.queues["q"]
			q.messages, q.last = q.messages[:5], 5
		}
	})
}

// A stream of an entity with partitions goes on in each of them.
func TestAStreamKnowsItsPlaceInEveryPartition(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeBus, b *Bridge) {
		q := f.queues["q"]
		q.entity.Partitions = 3
		at := func(partition uint16, n int64) string { return fmt.Sprint(core.SequenceNumber(partition, n)) }
		add := func(partition uint16, n int64) {
			f.mu.Lock()
			defer f.mu.Unlock()
			seq := core.SequenceNumber(partition, n)
			i := 0
			for i < len(q.messages) && q.messages[i].SequenceNumber < seq {
				i++
			}
			d := &core.Delivery{Message: plain("x"), BrokerProperties: core.BrokerProperties{SequenceNumber: seq}}
			q.messages = append(q.messages[:i], append([]*core.Delivery{d}, q.messages[i:]...)...)
		}
		add(0, 1)
		add(2, 1)
		add(2, 2)
		l, _ := listen(t, b, "/q/messages/stream")
		seen := at(0, 1) + "," + at(2, 2)
		if got, want := ids(l.take()), at(0, 1)+" "+at(0, 1)+","+at(2, 1)+" "+seen; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		add(0, 2)
		add(1, 1)
		time.Sleep(lateFollow)
		last := at(0, 2) + "," + at(1, 1) + "," + at(2, 2)
		if got, want := ids(l.take()), at(0, 2)+","+at(2, 2)+" "+last; got != want {
			t.Errorf("then got %q, want %q", got, want)
		}
		again, _ := listen(t, b, "/q/messages/stream", "Last-Event-ID: "+seen)
		if got, want := ids(again.take()), at(0, 2)+","+at(2, 2)+" "+last; got != want {
			t.Errorf("resumed: got %q, want %q", got, want)
		}
		fresh, _ := listen(t, b, "/q/messages/stream?from=new")
		add(1, 2)
		time.Sleep(lateFollow)
		if got, want := ids(fresh.take()), at(0, 2)+","+at(1, 2)+","+at(2, 2); got != want {
			t.Errorf("new ones: got %q, want %q", got, want)
		}
	})
}

func TestAStreamTakesMessagesAsTheyAreRead(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeBus, b *Bridge) {
		f.put("q", plain("a"), plain("b"), plain("c"))
		l, _ := listen(t, b, "/q/messages/stream?mode=receiveAndDelete&bodies=binary")
		text := l.take()
		if got := ids(text); got != "1 2 3" || !strings.Contains(text, `"DeliveryCount":1,"State":"Active"},"binary":"YQ=="}`) || len(f.stored("q")) != 0 {
			t.Errorf("got %s, %d left, want all three as bytes", text, len(f.stored("q")))
		}
		release := l.stick()
		for range 5 {
			call(b, "POST", "/q/messages", "x")
		}
		if l.take(); len(f.stored("q")) != 4 {
			t.Errorf("a client that reads nothing: %d of 5 messages are left, want all but the one on its way", len(f.stored("q")))
		}
		release()
		if got := ids(l.take()); got != "4 5 6 7 8" {
			t.Errorf("then got %q, want the others", got)
		}
	})
}

// trackingMember is what follows the reason for which a stream ends.
var trackingMember = regexp.MustCompile(`^,"tracking":"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"}\n\n$`)

func TestAStreamEndsWithAReason(t *testing.T) {
	for name, c := range map[string]struct {
		mode string
		end  func(f *fakeBus, drain func())
		want string
	}{
		"deleted": {
			"peek", func(f *fakeBus, _ func()) { delete(f.queues, "q") },
			`{"code":"not_found","text":"The messaging entity 'q' could not be found.","retriable":false}`,
		},
		"created anew": {
			"peek", func(f *fakeBus, _ func()) { f.queues["q"].entity.ID = "q2" },
			`{"code":"not_found","text":"The entity 'q' was deleted and created again: open a new stream.","retriable":false}`,
		},
		"disabled": {
			"receiveanddelete", func(f *fakeBus, _ func()) { f.queues["q"].waiting[0].o.Closed(core.EntityDisabled) },
			`{"code":"entity_disabled","text":"The messaging entity is disabled for this operation.","retriable":false}`,
		},
		"a fault": {
			"peek", func(f *fakeBus, _ func()) { f.fail = errors.New("secret") },
			`{"code":"internal","text":"An internal error occurred. The gateway's log has the details under the tracking id.","retriable":true}`,
		},
		"stopping": {
			"peek", func(_ *fakeBus, drain func()) { drain() },
			`{"code":"busy","text":"The gateway is stopping. Connect again.","retriable":true}`,
		},
		"closed": {
			"peek", func(_ *fakeBus, _ func()) {}, `{"code":"busy","text":"An operator has closed the connection. Connect again.","retriable":true}`,
		},
		"stopping while it waits": {
			"receiveanddelete", func(_ *fakeBus, drain func()) { drain() },
			`{"code":"busy","text":"The gateway is stopping. Connect again.","retriable":true}`,
		},
		"an old token": {
			"peek", func(*fakeBus, func()) { time.Sleep(time.Hour) },
			`{"code":"unauthorized","text":"ExpiredToken: The token is expired. Renew it to continue. Resource: 'q'.","retriable":false}`,
		},
		"an old token while it waits": {
			"receiveanddelete", func(*fakeBus, func()) { time.Sleep(time.Hour) },
			`{"code":"unauthorized","text":"ExpiredToken: The token is expired. Renew it to continue. Resource: 'q'.","retriable":false}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fakeBus, b *Bridge) {
				f.tokens["brief"] = core.Grant{Rights: core.Listen, Expires: time.Now().Add(time.Hour)}
				l, drain := listen(t, b, "/q/messages/stream?mode="+c.mode, "Authorization: SharedAccessSignature brief")
				l.take()
				if open := b.opts.Clients.Census(t.Context()); len(open) != 1 || open[0].Protocol != "event stream" || open[0].Links[0].Entity != "q" || b.opts.Clients.Evacuate("another") {
					t.Errorf("open: got %+v", open)
				} else if name == "closed" && !b.opts.Clients.Evacuate(open[0].ID) {
					t.Error("it cannot be closed")
				}
				func() {
					if !strings.HasPrefix(name, "an old") {
						f.mu.Lock()
						defer f.mu.Unlock()
					}
					c.end(f, drain)
				}()
				<-l.done
				got, want := strings.ReplaceAll(l.take(), ":\n\n", ""), "event: end\ndata: "+strings.TrimSuffix(c.want, "}")
				if rest, ok := strings.CutPrefix(got, want); !ok || !trackingMember.MatchString(rest) {
					t.Errorf("got %q, want %q and a tracking id", got, want)
				}
				if len(b.opts.Clients.Census(t.Context())) != 0 {
					t.Error("the stream still counts")
				}
			})
		})
	}
}

func TestASilentStreamIsKeptAlive(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *fakeBus, b *Bridge) {
		for _, mode := range []string{"peek", "receiveanddelete"} {
			l, _ := listen(t, b, "/q/messages/stream?mode="+mode)
			l.take()
			time.Sleep(4*streamBeat + streamBeat/2)
			if got := l.take(); got != strings.Repeat(":\n\n", 4) {
				t.Errorf("%s: got %q, want four comments", mode, got)
			}
		}
	})
}

func TestAClientThatIsStuckOrGoneEndsItsStream(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeBus, b *Bridge) {
		for _, mode := range []string{"peek", "receiveanddelete"} {
			l, _ := listen(t, b, "/q/messages/stream?mode="+mode)
			l.take()
			l.stick()
			call(b, "POST", "/q/messages", "x")
			began := time.Now()
			<-l.done
			if took := time.Since(began); took > streamTimeout+lateFollow {
				t.Errorf("%s: it took %v to end", mode, took)
			}
			l, _ = listen(t, b, "/q/messages/stream?mode="+mode)
			l.leave()
			<-l.done
			if got := l.take(); strings.Contains(got, "event: end") {
				t.Errorf("%s: got %q after the client had left", mode, got)
			}
		}
		if n := len(b.opts.Clients.Census(t.Context())); n != 0 || len(f.queues["q"].waiting) != 0 {
			t.Errorf("%d streams are open, %d receivers wait", n, len(f.queues["q"].waiting))
		}
	})
}

func TestLineEndsOfABodyAreSpaces(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeBus, b *Bridge) {
		f.put("q", &core.Message{ContentType: "application/json", Body: core.Body{Bytes: []byte("{\r\n  \"a\":\r1,\n\"b\": \"x\\n\"}")}})
		l, _ := listen(t, b, "/q/messages/stream")
		if got := l.take(); !strings.HasSuffix(got, "\"json\":{    \"a\": 1, \"b\": \"x\\n\"}}\n\n") {
			t.Errorf("got %q", got)
		}
	})
}

func TestStreamsAreRefusedWithAReason(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeBus, b *Bridge) {
		f.queues["sessions"] = &fakeQueue{entity: core.Entity{Name: "sessions", Settings: core.Settings{RequiresSession: true}}}
		for _, c := range []struct {
			method, target string
			header         string
			status         int
			text           string
		}{
			{"POST", "/q/messages/stream", "", 405, "use GET"},
			{"HEAD", "/q/messages/stream", "", 405, ""},
			{"OPTIONS", "/q/messages/stream", "", 405, "use GET"},
			{"GET", "/q/messages/stream", "Authorization: ", 401, "MissingToken"},
			{"GET", "/q/messages/stream", "Authorization: SharedAccessSignature send", 401, "'Listen' claim(s)"},
			{"GET", "/q/messages/stream", "Authorization: SharedAccessSignature bad", 401, "InvalidSignature"},
			{"GET", "/q/messages/stream?token=all", "", 400, "A token belongs in the Authorization header"},
			{"GET", "/none/messages/stream", "", 404, "could not be found"},
			{"GET", "/none/messages/stream", "Authorization: SharedAccessSignature send", 401, "'Listen' claim(s)"},
			{"GET", "/none/messages/stream?mode=receiveanddelete", "", 404, "could not be found"},
			{"GET", "/q/$management/messages/stream", "", 404, "could not be found"},
			{"GET", "/q/messages/stream?mode=peeklock", "", 400, `mode is "peeklock"`},
			{"GET", "/q/messages/stream?bodies=text", "", 400, `bodies is "text"`},
			{"GET", "/q/messages/stream?from=-1", "", 400, `from is "-1"`},
			{"GET", "/q/messages/stream?from=1,x", "", 400, `from is "1,x"`},
			{"GET", "/q/messages/stream?from=281474976710657", "", 400, "belongs to partition 1 (counted from 0), but the number of partitions of the entity is 1"},
			{"GET", "/q/messages/stream", "Last-Event-ID: soon", 400, `Last-Event-ID is "soon"`},
			{"GET", "/q/messages/stream?mode=receiveanddelete&from=1", "", 400, "only allowed with mode=peek"},
			{"GET", "/sessions/messages/stream?mode=receiveanddelete", "", 400, "requires sessions"},
			{"GET", "/q/messages/stream?accept=text/plain", "", 400, "only allowed with mode=receiveanddelete"},
		} {
			var headers []string
			if c.header != "" {
				headers = append(headers, c.header)
			}
			w := call(b, c.method, c.target, "", headers...)
			if w.Code != c.status || !strings.Contains(html.UnescapeString(w.Body.String()), c.text) {
				t.Errorf("%s %s %s: got %d %s, want %d %s", c.method, c.target, c.header, w.Code, w.Body, c.status, c.text)
			}
			if c.status == 405 && w.Header().Get("Allow") != "GET" {
				t.Errorf("%s: got Allow %q", c.method, w.Header().Get("Allow"))
			}
		}
		if len(b.opts.Clients.Census(t.Context())) != 0 {
			t.Error("a refused stream counts")
		}
	})
}

// inNamespace is a token of a namespace that may do all there.
func inNamespace(f *fakeBus, name string) (header string) {
	f.tokens[name] = core.Grant{Namespace: name, NamespaceID: name, Rights: core.AllRights}
	return "Authorization: SharedAccessSignature " + name
}

// refusedStream asks for a stream that must be refused for now, and returns why.
func refusedStream(t *testing.T, b *Bridge, header string) (text string) {
	t.Helper()
	w := call(b, "GET", "/q/messages/stream", "", header)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "10" {
		t.Errorf("got %d with Retry-After %q, want 503 with 10", w.Code, w.Header().Get("Retry-After"))
	}
	return w.Body.String()
}

func TestStreamsAreLimited(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeBus, _ *Bridge) {
		b := New(f, f, Options{Logger: quiet(), Pools: fair.Pools{Streams: fair.NewStreams(2*fair.EventStreamPlaces, nil)}})
		one, two, three := inNamespace(f, "one"), inNamespace(f, "two"), inNamespace(f, "three")
		first, _ := listen(t, b, "/q/messages/stream", one)
		listen(t, b, "/q/messages/stream", two)
		if text := refusedStream(t, b, three); !strings.Contains(text, "limit of 50 feeds") || len(b.opts.Clients.Census(t.Context())) != 2 {
			t.Errorf("the third: got %s with %d open", text, len(b.opts.Clients.Census(t.Context())))
		}
		first.leave()
		<-first.done
		third, _ := listen(t, b, "/q/messages/stream", three)
		if got := third.take(); third.status != http.StatusOK || got == "" {
			t.Errorf("after one has left: got %d %q", third.status, got)
		}
	})
}

func TestANamespaceLeavesStreamsToOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeBus, _ *Bridge) {
		b := New(f, f, Options{Logger: quiet(), Pools: fair.Pools{Streams: fair.NewStreams(4*fair.EventStreamPlaces, nil)}})
		one := inNamespace(f, "one")
		for range 3 {
			listen(t, b, "/q/messages/stream", one)
		}
		if text := refusedStream(t, b, one); !strings.Contains(text, "used its share") || len(b.opts.Clients.Census(t.Context())) != 3 {
			t.Errorf("the fourth: got %s with %d open", text, len(b.opts.Clients.Census(t.Context())))
		}
		if other, _ := listen(t, b, "/q/messages/stream", inNamespace(f, "two")); other.status != http.StatusOK {
			t.Errorf("another namespace: got %d", other.status)
		}
	})
}

func TestAStreamCountsAmongTheConnectionsOfItsNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeBus, b *Bridge) {
		header := inNamespace(f, "ns")
		f.connections = 1
		first, _ := listen(t, b, "/q/messages/stream", header)
		if w := call(b, "GET", "/q/messages/stream", "", header); w.Code != http.StatusForbidden {
			t.Errorf("a second: got %d %s", w.Code, w.Body)
		}
		first.take()
		f.expel(core.Refuse(core.NotFound, "The namespace 'ns' was deleted."))
		if got := first.take(); !strings.Contains(got, "event: end") || !strings.Contains(got, "was deleted") {
			t.Errorf("when its namespace was deleted: got %q", got)
		}
		<-first.done
		second, _ := listen(t, b, "/q/messages/stream", header)
		if second.status != http.StatusOK {
			t.Errorf("after the first: got %d", second.status)
		}
	})
}

// Over a real connection events arrive as they are written, and the end of the
// gateway is told.
func TestAStreamOverAConnection(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	origin, stop := serve(t, newBridge(f))
	res, err := http.DefaultClient.Do(request(t, "GET", origin+"/q/messages/stream?mode=receiveanddelete", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	next := func(prefix string) string {
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), prefix) {
				return lines.Text()
			}
		}
		t.Fatalf("the stream ended before %q: %v", prefix, lines.Err())
		return ""
	}
	next("retry: 3000")
	for i := range 3 {
		sent, err := http.DefaultClient.Do(request(t, "POST", origin+"/q/messages", strings.NewReader("x")))
		if err != nil {
			t.Fatal(err)
		}
		_ = sent.Body.Close()
		if got, want := next("id: "), fmt.Sprintf("id: %d", i+1); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	next("event: end")
	if got := next("data: "); !strings.Contains(got, `"retriable":true`) {
		t.Errorf("got %q", got)
	}
	if err := <-ended; err != nil || lines.Scan() && lines.Text() != "" {
		t.Errorf("serve: got %v, then %q", err, lines.Text())
	}
}

func FuzzPosition(f *testing.F) {
	f.Add("1,281474976710657", 3)
	f.Add("", 1)
	f.Add("9223372036854775807", 32)
	f.Fuzz(func(t *testing.T, text string, partitions int) {
		if partitions < 1 || partitions > core.MaxPartitions {
			return
		}
		p, err := parsePosition("from", text, partitions, 1)
		if err != nil {
			if code := core.CodeOf(err); code != core.InvalidArgument && code != core.OutOfRange {
				t.Fatalf("%q: got %v", text, err)
			}
			return
		}
		again, err := parsePosition("from", p.String(), partitions, 1)
		if err != nil || again.String() != p.String() {
			t.Fatalf("%q: %q is read as %q, %v", text, p, again, err)
		}
	})
}

// withMemory is a bridge whose messages in progress have limit bytes of memory.
func withMemory(f *fakeBus, limit int64) (*Bridge, *fair.Pool) {
	memory := fair.New(limit, nil, nil)
	return New(f, f, Options{Logger: quiet(), Pools: fair.Pools{Budget: memory}}), memory
}

func TestWithoutMemoryStreamsLeaveMessagesInTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeBus, _ *Bridge) {
		b, memory := withMemory(f, 1<<20)
		other := memory.Share(func() {})
		defer other.Close()
		other.Join(fair.Who{Namespace: "other"})
		for _, mode := range []string{"peek", "receiveanddelete"} {
			other.Add(1 << 20)
			f.put("q", plain("waits"))
			l, _ := listen(t, b, "/q/messages/stream?mode="+mode)
			time.Sleep(2*streamBeat + lateFollow)
			if got := l.take(); strings.Contains(got, "waits") || strings.Count(got, ":\n\n") != 2 {
				t.Errorf("%s, without memory: got %q, want two comments", mode, got)
			}
			if n := len(f.queues["q"].messages); n != 1 {
				t.Errorf("%s, without memory: the queue holds %d messages", mode, n)
			}
			other.Add(-1 << 20)
			if got := l.take(); !strings.Contains(got, "waits") {
				t.Errorf("%s, once there is memory: got %q", mode, got)
			}
			l.leave()
			<-l.done
			if mode == "peek" {
				call(b, "DELETE", "/q/messages/head", "")
			}
		}
		if held := memory.Stats().Held; held != 0 {
			t.Errorf("%d bytes are held in the end", held)
		}
	})
}

func TestWhatAStreamHasNotWrittenIsHeldInMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeBus, _ *Bridge) {
		const size = 512 << 10
		for _, mode := range []string{"peek", "receiveanddelete"} {
			b, memory := withMemory(f, 64<<20)
			l, _ := listen(t, b, "/q/messages/stream?mode="+mode)
			l.take()
			l.stick()
			call(b, "POST", "/q/messages", strings.Repeat("\x00", size), "Content-Type: application/octet-stream")
			time.Sleep(lateFollow)
			synctest.Wait()
			if held := memory.Stats().Held; held < size*4/3 || held > 2*size {
				t.Errorf("%s: %d bytes are held for a message of %d", mode, held, size)
			}
			l.leave()
			<-l.done
			if held := memory.Stats().Held; held != 0 {
				t.Errorf("%s: %d bytes are held once the client has gone", mode, held)
			}
			f.queues["q"].messages = nil
		}
	})
}
