package https

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

func TestPagesOfListedOriginsMayUseTheRuntime(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	var lines bytes.Buffer
	b := New(f, f, Options{Logger: slog.New(slog.NewTextHandler(&lines, nil)), Origins: []string{"https://*.App.example"}})
	const listed, other = "https://shop.app.example", "https://evil.example"
	preflight := func(path, method, origin string) http.Header {
		w := call(b, http.MethodOptions, path, "", "Authorization: ", "Origin: "+origin,
			"Access-Control-Request-Method: "+method, "Access-Control-Request-Headers: authorization,priority")
		h := w.Header()
		h.Set("Status", http.StatusText(w.Code))
		return h
	}
	for _, c := range []struct{ path, method, methods string }{
		{"/q/messages", "POST", "POST"},
		{"/q/messages/head", "DELETE", "POST, DELETE"},
		{"/q/messages/stream", "GET", "GET"},
		{"/q/messages/1/" + core.LockToken{}.String(), "PUT", "DELETE, PUT, POST"},
	} {
		h := preflight(c.path, c.method, listed)
		for name, want := range map[string]string{
			"Status": "No Content", "Access-Control-Allow-Origin": listed, "Access-Control-Allow-Methods": c.methods,
			"Access-Control-Allow-Headers": "authorization,priority", "Access-Control-Max-Age": "600", "Vary": "Origin", "Access-Control-Allow-Credentials": "",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s %s, %s: got %q, want %q", c.method, c.path, name, got, want)
			}
		}
		if h := preflight(c.path, c.method, other); h.Get("Status") != "Forbidden" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s of a page that is not listed: got %v, want 403", c.method, c.path, h)
		}
	}
	if !strings.Contains(lines.String(), other) || strings.Contains(lines.String(), listed) {
		t.Errorf("the log must name the refused origin alone: %s", &lines)
	}
	if h := preflight("/q", "PUT", listed); h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a page may manage entities: %v", h)
	}
	if len(f.stored("q")) != 0 {
		t.Error("a preflight has stored a message")
	}

	for origin, allowed := range map[string]string{listed: listed, other: "", "": ""} {
		for _, headers := range [][]string{{"Origin: " + origin}, {"Origin: " + origin, "Authorization: "}} { // refused, too
			w := call(b, "POST", "/q/messages", "x", headers...)
			exposed := w.Header().Get("Access-Control-Expose-Headers")
			if got := w.Header().Get("Access-Control-Allow-Origin"); got != allowed || (exposed == "*") != (allowed != "") || w.Header().Get("Vary") != "Origin" {
				t.Errorf("status %d for a page of %q: got allowed %q, exposed %q, %v", w.Code, origin, got, exposed, w.Header())
			}
		}
	}
	if w := call(newBridge(f), "POST", "/q/messages", "x", "Origin: "+other); w.Code != http.StatusCreated || w.Header().Get("Vary") != "" {
		t.Errorf("without origins: got %d %v", w.Code, w.Header())
	}
}
