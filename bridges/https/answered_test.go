package https

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
)

// tally keeps what Options.Answered was told.
type tally struct {
	mu  sync.Mutex
	got []string
}

func (c *tally) note(route string, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, fmt.Sprintf("%s %d", route, status))
}

func (c *tally) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.got) == 0 {
		return ""
	}
	return fmt.Sprintf("%s, %d in all", c.got[len(c.got)-1], len(c.got))
}

func TestEachAnswerIsReportedOnceWithItsRoute(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	var told tally
	b := New(f, f, Options{Logger: quiet(), Answered: told.note, Routes: map[string]http.Handler{
		"/Mounted":  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
		"/mounted/": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	}, Home: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("page")) })})
	for i, c := range []struct{ method, path, want string }{
		{"POST", "/q/messages", "send 201"},
		{"PUT", "/q/messages", "management 400"},
		{"DELETE", "/q/messages/head?timeout=0", "receive 200"},
		{"DELETE", "/q/messages/head?timeout=0", "receive 204"},
		{"DELETE", "/q/messages/1/2c8fa1ba-0f50-4c6f-8ae4-aa9aa5b8c6b5", "settle 404"},
		{"POST", "/q/messages/stream", "management 405"},
		{"GET", "/health", "health 200"},
		{"GET", "/q", "management 200"},
		{"PATCH", "/q", "management 405"},
		{"GET", "/mounted", "/mounted 418"},
		{"GET", "/MOUNTED/x", "/mounted 200"},
		{"GET", "/", "page 200"},
	} {
		r := request(t, c.method, c.path, strings.NewReader(""))
		r.Header.Set("Accept", "text/html")
		b.Handler().ServeHTTP(httptest.NewRecorder(), r)
		if got, want := told.last(), fmt.Sprintf("%s, %d in all", c.want, i+1); got != want {
			t.Errorf("%s %s: got %s, want %s", c.method, c.path, got, want)
		}
	}
}

func TestDepartedClientIsReported(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	var told tally
	b := New(f, f, Options{Logger: quiet(), Answered: told.note})
	ctx, cancel := context.WithCancel(t.Context())
	r := request(t, "POST", "/q/messages/head?timeout=60", nil).WithContext(ctx)
	go func() {
		<-f.opened
		cancel()
	}()
	b.Handler().ServeHTTP(httptest.NewRecorder(), r)
	if got, want := told.last(), "receive 499, 1 in all"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWebSocketIsReportedWhenItBegins(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	var told tally
	told101 := make(chan struct{})
	b := New(f, f, Options{Logger: quiet(), Answered: func(route string, status int) {
		told.note(route, status)
		close(told101)
	}, Routes: map[string]http.Handler{"/ws": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		_, _, _ = conn.ReadMessage() // until the other side closes
		_ = conn.Close()
	})}})
	origin, _ := serve(t, b)
	conn, _, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(origin, "http")+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	<-told101
	if got, want := told.last(), "/ws 101, 1 in all"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_ = conn.Close()
}
