package https

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
)

// quiet is a logger for tests that provoke errors.
func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func newBridge(f *fakeBus) *Bridge { return New(f, f, Options{Logger: quiet()}) }

// call sends a request as the identity "all" unless a header says otherwise.
// headers are "Name: value".
func call(b *Bridge, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "SharedAccessSignature all")
	for _, h := range headers {
		name, v, _ := strings.Cut(h, ": ")
		if v == "" {
			r.Header.Del(name)
			continue
		}
		name = http.CanonicalHeaderKey(name)
		if name == "Authorization" || name == "Content-Type" {
			r.Header.Set(name, v)
		} else {
			r.Header.Add(name, v)
		}
	}
	w := httptest.NewRecorder()
	b.Handler().ServeHTTP(w, r)
	return w
}

// detail decodes an error body.
func detail(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var e struct {
		XMLName xml.Name `xml:"Error"`
		Code    int
		Detail  string
	}
	if err := xml.Unmarshal(w.Body.Bytes(), &e); err != nil {
		t.Fatalf("error body %q: %v", w.Body, err)
	}
	if e.Code != w.Code {
		t.Errorf("Code in the body: got %d, want the status %d", e.Code, w.Code)
	}
	if got, want := w.Header().Get("Content-Type"), "application/xml; charset=utf-8"; got != want {
		t.Errorf("Content-Type: got %q, want %q", got, want)
	}
	return e.Detail
}

func TestEveryCodeHasACondition(t *testing.T) {
	t.Parallel()
	b := newBridge(newFakeBus())
	for _, code := range core.Codes() {
		status, want := refusals.HTTPStatus(code), textOf(code)
		if status < 400 || want == "" {
			t.Errorf("code %q: got status %d and text %q", code, status, want)
			continue
		}
		w := httptest.NewRecorder()
		b.refuse(w, httptest.NewRequest("GET", "/q", nil), fmt.Errorf("deep inside: %w", code))
		if w.Code != status {
			t.Errorf("code %q: got status %d, want %d", code, w.Code, status)
		}
		text := detail(t, w)
		if !strings.Contains(text, want) || strings.Contains(text, "deep inside") {
			t.Errorf("code %q: got %q, want the default text and no internals", code, text)
		}
		if retriable := status >= 500 && status != http.StatusNotImplemented; retriable != code.Retriable() {
			t.Errorf("code %q: status %d says retriable %v, the code says %v", code, status, retriable, code.Retriable())
		}
	}
}

func TestRefusalsReachTheClientAndOtherErrorsDoNot(t *testing.T) {
	t.Parallel()
	b := newBridge(newFakeBus())
	for _, c := range []struct {
		err    error
		status int
		want   string
	}{
		{core.Refuse(core.AlreadyExists, "There is <one> & only one."), 409, "SubCode=40900. There is <one> & only one. TrackingId:"},
		{core.Refuse(core.Conflict, "Busy."), 409, "SubCode=40901. Busy. TrackingId:"},
		{core.Refuse(core.InvalidArgument, "X is bad."), 400, "SubCode=40000. X is bad. TrackingId:"},
		{core.Refuse(core.EntityDisabled, "Off."), 403, "SubCode=40301. Off. TrackingId:"},
		{core.Refuse(core.QuotaExceeded, "Full."), 403, "Full. TrackingId:"},
		{errors.New("dial redis: secret"), 500, "An internal error occurred."},
	} {
		w := httptest.NewRecorder()
		b.refuse(w, httptest.NewRequest("GET", "/q", nil), c.err)
		if got := detail(t, w); w.Code != c.status || !strings.HasPrefix(got, c.want) || strings.Contains(got, "secret") {
			t.Errorf("%v: got %d %q, want %d %q", c.err, w.Code, got, c.status, c.want)
		}
	}
}

// The .NET SDK shows 403 as a quota that is exceeded.
func TestPlainRequestGetsUpgradeRequired(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	b := New(f, f, Options{Logger: quiet(), Plain: func(string) bool { return false }})
	w := call(b, "GET", "http://bus.example.com:5300/q", "")
	if w.Code != http.StatusUpgradeRequired || w.Header().Get("Upgrade") != "TLS/1.2, HTTP/1.1" || w.Header().Get("Connection") != "Upgrade" {
		t.Errorf("got %d, %v, want 426 with what to upgrade to", w.Code, w.Header())
	}
	if got := detail(t, w); !strings.HasPrefix(got, "This client must use TLS: call https://bus.example.com:5300.") {
		t.Errorf("got %s", got)
	}
	if w := call(b, "GET", "https://bus.example.com/q", ""); w.Code != http.StatusOK {
		t.Errorf("with TLS: got %d, want 200", w.Code)
	}
}
