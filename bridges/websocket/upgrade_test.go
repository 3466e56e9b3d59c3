package websocket

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

func TestWhoMayUpgrade(t *testing.T) {
	t.Parallel()
	u := newUpgrader([]string{"https://app.example.com", "https://*.Example.org", "http://localhost:*"}, 0, "new", "old")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := u.upgrade(w, r); err == nil {
			_ = c.Close()
		}
	}))
	t.Cleanup(server.Close)
	own := server.Listener.Addr().String()
	for _, c := range []struct {
		name, origin, protocols string
		status                  int
		chosen                  string
	}{
		{"no page", "", "new", 101, "new"},
		{"the host's own page", "http://" + own, "old", 101, "old"},
		{"the host's own page, by TLS before us", "https://" + own, "old", 101, "old"},
		{"an origin in the list", "https://app.example.com", "new", 101, "new"},
		{"an origin that matches", "https://a.b.example.org", "new", 101, "new"},
		{"any port", "http://localhost:5173", "new", 101, "new"},
		{"the server's choice counts", "", "old, new", 101, "new"},
		{"one of several", "", "other, old", 101, "old"},
		{"another scheme", "http://app.example.com", "new", 403, ""},
		{"another port", "https://app.example.com:444", "new", 403, ""},
		{"a host that begins alike", "https://app.example.com.evil.net", "new", 403, ""},
		{"a host that ends alike", "https://evilexample.org", "new", 403, ""},
		{"another port of the host", "http://127.0.0.1:1", "new", 403, ""},
		{"a page without origin", "null", "new", 403, ""},
		{"no sub-protocol", "", "", 400, ""},
		{"another sub-protocol", "", "other", 400, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := http.Header{}
			if c.origin != "" {
				header.Set("Origin", c.origin)
			}
			if c.protocols != "" {
				header.Set("Sec-WebSocket-Protocol", c.protocols)
			}
			d := websocket.Dialer{HandshakeTimeout: patience}
			conn, answer, err := d.Dial("ws://"+own, header)
			if answer == nil {
				t.Fatal(err)
			}
			if answer.StatusCode != c.status {
				t.Errorf("got %s, want %d", answer.Status, c.status)
			}
			if got := answer.Header.Get("Sec-WebSocket-Protocol"); got != c.chosen {
				t.Errorf("got sub-protocol %q, want %q", got, c.chosen)
			}
			if got := answer.Header.Get("Sec-WebSocket-Extensions"); got != "" {
				t.Errorf("got extensions %q, want none", got)
			}
			if err == nil {
				_ = conn.Close()
			}
		})
	}
}

func TestEveryOriginMayBeAllowed(t *testing.T) {
	t.Parallel()
	u := newUpgrader([]string{"*"}, 0, "p")
	for _, origin := range []string{"https://anywhere.example:1", "null", "http://gateway.example"} {
		r := httptest.NewRequest(http.MethodGet, "http://gateway.example/", nil)
		r.Header.Set("Origin", origin)
		if !u.CheckOrigin(r) {
			t.Errorf("%s is refused", origin)
		}
	}
}

func TestRequestWithoutUpgradeGetsUpgradeRequired(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	if _, err := newUpgrader(nil, 0, "p").upgrade(w, httptest.NewRequest(http.MethodGet, "/", nil)); err == nil {
		t.Fatal("upgraded")
	}
	body, _ := io.ReadAll(w.Body)
	if w.Code != http.StatusUpgradeRequired || w.Header().Get("Upgrade") != "websocket" || !strings.Contains(string(body), "WebSocket") {
		t.Errorf("got %d %v %q", w.Code, w.Header(), body)
	}
}
