package https

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// serve runs a bridge on a port of its own. stop ends it and returns what Serve returned.
func serve(t *testing.T, b *Bridge) (origin string, stop func() error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Serve(ctx, ln) }()
	stopped := false
	stop = func() error {
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if !stopped {
			_ = stop()
		}
	})
	return "http://" + ln.Addr().String(), stop
}

func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "SharedAccessSignature all")
	return r
}

func TestDrainEndsLongPolls(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	origin, stop := serve(t, newBridge(f))
	answer := make(chan int, 1)
	go func() {
		res, err := http.DefaultClient.Do(request(t, "POST", origin+"/q/messages/head?timeout=60", nil))
		if err != nil {
			answer <- 0
			return
		}
		_ = res.Body.Close()
		answer <- res.StatusCode
	}()
	<-f.opened
	if err := stop(); err != nil {
		t.Errorf("Serve: got %v, want nil", err)
	}
	if got := <-answer; got != http.StatusNoContent {
		t.Errorf("long poll: got %d, want 204", got)
	}
	if _, err := http.DefaultClient.Do(request(t, "GET", origin+"/q", nil)); err == nil {
		t.Error("a request after the drain was accepted")
	}
}

// slowBody gives its text when release closes.
type slowBody struct {
	release <-chan struct{}
	text    *strings.Reader
}

func (s *slowBody) Read(p []byte) (int, error) {
	<-s.release
	return s.text.Read(p)
}

// sendSlowly starts a send whose body is not complete before release closes.
func sendSlowly(t *testing.T, origin string, release <-chan struct{}) (answer <-chan string) {
	c := make(chan string, 1)
	go func() {
		res, err := http.DefaultClient.Do(request(t, "POST", origin+"/q/messages", &slowBody{release, strings.NewReader("late")}))
		if err != nil {
			c <- err.Error()
			return
		}
		_ = res.Body.Close()
		c <- res.Status
	}()
	return c
}

func TestDrainLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	origin, stop := serve(t, newBridge(f))
	release := make(chan struct{})
	answer := sendSlowly(t, origin, release)
	<-f.opened // the request is in flight
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for { // until the listener is closed
		c, err := net.Dial("tcp", strings.TrimPrefix(origin, "http://"))
		if err != nil {
			break
		}
		_ = c.Close()
	}
	close(release)
	if got := <-answer; got != "201 Created" {
		t.Errorf("got %s, want 201 Created", got)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Serve: got %v, want nil", err)
	}
}

func TestGraceEnds(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	b := New(f, f, Options{Logger: quiet(), Grace: 10 * time.Millisecond})
	origin, stop := serve(t, b)
	release := make(chan struct{})
	answer := sendSlowly(t, origin, release)
	<-f.opened
	if err := stop(); err != nil {
		t.Errorf("Serve: got %v, want nil", err)
	}
	close(release) // the client's transport waits for its own body
	if got := <-answer; strings.HasPrefix(got, "201") || len(f.stored("q")) != 0 {
		t.Errorf("got %s and %d messages, want a broken connection and none", got, len(f.stored("q")))
	}
}

func TestServeReportsABrokenListener(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	f := newFakeBus()
	if err := newBridge(f).Serve(t.Context(), ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want %v", err, net.ErrClosed)
	}
}

func TestClientThatLeavesKeepsNoLock(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	origin, stop := serve(t, newBridge(f))
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		// With a body, which must be read before net/http can see the client leave.
		res, err := http.DefaultClient.Do(request(t, "POST", origin+"/q/messages/head?timeout=60", strings.NewReader("body")).WithContext(ctx))
		if err == nil {
			_ = res.Body.Close()
		}
	}()
	<-f.opened
	cancel()
	<-gone
	<-f.left
	f.put("q", &core.Message{})
	if !f.stored("q")[0].LockToken.IsZero() {
		t.Error("the message is locked for nobody")
	}
	if err := stop(); err != nil {
		t.Errorf("Serve: got %v, want nil", err)
	}
}

func TestOversizedHeadersAreRefused(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	origin, _ := serve(t, newBridge(f))
	for size, want := range map[int]int{60 << 10: http.StatusCreated, 200 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		r := request(t, "POST", origin+"/q/messages", strings.NewReader("x"))
		r.Header.Set("Big", `"`+strings.Repeat("x", size)+`"`)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%d bytes of headers: got %s, want %d", size, res.Status, want)
		}
	}
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	srv := httptest.NewUnstartedServer(newBridge(f).Handler())
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	r := request(t, "POST", srv.URL+"/q/messages", strings.NewReader("hello"))
	r.Header.Set("Priority", `"High"`)
	for _, r := range []*http.Request{r, request(t, "POST", srv.URL+"/q/messages/head", nil)} {
		res, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.ProtoMajor != 2 || res.StatusCode != http.StatusCreated {
			t.Errorf("%s: got %s %s %s, %v, want HTTP/2 and 201", r.URL, res.Proto, res.Status, body, err)
		}
		if strings.HasSuffix(r.URL.Path, "/head") && (string(body) != "hello" || res.Header.Get("Priority") != `"High"`) {
			t.Errorf("got %q, Priority %s, want hello, \"High\"", body, res.Header.Get("Priority"))
		}
	}
}

func TestHostsThatAreNotTheGatewaysAreRefused(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	b := New(f, f, Options{
		Logger: quiet(),
		Host: func(host string) error {
			if host == "evil.example" {
				return core.Refuse(core.NotAllowed, "Not by <%s>.", host)
			}
			return nil
		},
		Routes: map[string]http.Handler{"/mounted": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})},
		Home:   http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	})
	for _, path := range []string{"/", "/mounted", "/health", "/q", "/q/messages/head"} {
		for host, refused := range map[string]bool{"evil.example": true, "localhost": false} {
			r := request(t, http.MethodGet, path, nil)
			r.Host = host
			r.Header.Set("Accept", "text/html")
			w := httptest.NewRecorder()
			b.Handler().ServeHTTP(w, r)
			if got := w.Code == http.StatusMisdirectedRequest && strings.Contains(w.Body.String(), "<Code>421</Code><Detail>Not by &lt;evil.example&gt;. TrackingId:"); got != refused {
				t.Errorf("%s by %s: got %d %s", path, host, w.Code, w.Body)
			}
		}
	}
}
