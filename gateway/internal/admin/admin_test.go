package admin

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

// Every refusal has a status of its own. Only an error without a code is an internal error.
func TestEveryCodeHasAStatus(t *testing.T) {
	t.Parallel()
	a := New(Options{Logger: slog.New(slog.DiscardHandler)})
	refused := func(err error) (*httptest.ResponseRecorder, api.Error) {
		w := httptest.NewRecorder()
		a.refuse(w, httptest.NewRequest(http.MethodGet, "/", nil), err)
		var answer api.Error
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Errorf("%v in %s", err, w.Body)
		}
		return w, answer
	}
	for _, code := range core.Codes() {
		w, answer := refused(core.Refuse(code, "no"))
		if internal := w.Code == http.StatusInternalServerError; w.Code < 400 || internal != (code == core.Internal) || answer.Error == "" {
			t.Errorf("%s: got %d %+v", code, w.Code, answer)
		}
		if w.Header().Get("Allow") != "" || (w.Header().Get("WWW-Authenticate") != "") != (code == core.Unauthorized) {
			t.Errorf("%s: got %d with the headers %v", code, w.Code, w.Header())
		}
	}
	if w, _ := refused(wrongMethod("GET, PUT")); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, PUT" {
		t.Errorf("a wrong method: got %d with the headers %v", w.Code, w.Header())
	}
	if w, answer := refused(errors.New("secret")); w.Code != http.StatusInternalServerError || answer.Tracking == "" || !strings.Contains(answer.Error, answer.Tracking) || strings.Contains(answer.Error, "secret") {
		t.Errorf("a fault: got %d %+v", w.Code, answer)
	}
}
