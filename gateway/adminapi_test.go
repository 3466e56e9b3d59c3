package main

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
)

// Every refusal has a status of its own. Only what the gateway has no word for is
// an internal error.
func TestEveryCodeHasAStatus(t *testing.T) {
	t.Parallel()
	d := adminAPI{log: slog.New(slog.DiscardHandler), refusals: refusals.New()}
	for _, code := range core.Codes() {
		w := httptest.NewRecorder()
		d.reply(w, httptest.NewRequest(http.MethodGet, "/", nil), nil, core.Refuse(code, "no"))
		if internal := w.Code == http.StatusInternalServerError; w.Code < 400 || internal != (code == core.Internal) {
			t.Errorf("%s: got %d", code, w.Code)
		}
		if _, ok := w.Header()["Allow"]; ok != (w.Code == http.StatusMethodNotAllowed) {
			t.Errorf("%s: got %d with the headers %v", code, w.Code, w.Header())
		}
	}
	w := httptest.NewRecorder()
	d.reply(w, httptest.NewRequest(http.MethodGet, "/", nil), nil, errors.New("secret"))
	if body, _ := io.ReadAll(w.Body); w.Code != http.StatusInternalServerError || string(body) == "" {
		t.Errorf("a fault: got %d %s", w.Code, body)
	}
}

func TestMethodsThatThereAreAreNamed(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--config", writeFile(t, "crosstown.yaml", theirs))
	a := &asks{T: t, g: g, policy: "RootManageSharedAccessKey", key: "SAS_KEY_VALUE"}
	for _, c := range []struct{ method, path, allow string }{
		{"DELETE", metricsPath, "GET"},
		{"DELETE", remotesPath, "GET"},
		{"DELETE", pluginsPath, "GET"},
		{"DELETE", pluginsPath + "/any", "GET, POST"},
		{"DELETE", pipelinesPath, "GET"},
		{"PUT", "/", "GET"},
		{"POST", "/set", "GET, PUT, DELETE"},
		{"GET", "/set/reset", "POST"},
		{"DELETE", "/set", "GET"}, // it is of the configuration
	} {
		if status, _ := a.do(c.method, c.path, ""); status != http.StatusMethodNotAllowed || a.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: got %d with Allow %q, want 405 with %q", c.method, c.path, status, a.header.Get("Allow"), c.allow)
		}
	}
}
