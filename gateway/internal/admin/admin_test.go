package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
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

type pipeListener struct {
	net.Listener
	conns chan net.Conn
}

func (l pipeListener) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func (pipeListener) Close() error { return nil }

// The HTTP server gives a body a minute, which suffices for a large deposit only on a fast line.
func TestALargeBodyThatArrivesSteadilyMayTakeLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const piece, pieces = 512 << 10, 10
		here, there := net.Pipe()
		conns := make(chan net.Conn, 1)
		conns <- there
		got := make(chan error, 1)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Minute))
			memory := fair.New(0, nil, nil).Share(nil)
			defer memory.Close()
			c := call{Request: r, w: w, memory: memory}
			body, err := c.gather(maxDeposit)
			if err == nil && len(body) != piece*pieces {
				err = fmt.Errorf("%d bytes arrived", len(body))
			}
			time.Sleep(time.Minute) // storing them may take long, too
			got <- cmp.Or(err, r.Context().Err())
		})}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(pipeListener{conns: conns})
		}()
		go func() { _, _ = io.Copy(io.Discard, here) }()
		_, _ = fmt.Fprintf(here, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", piece*pieces)
		go func() {
			for range pieces {
				time.Sleep(15 * time.Second)
				_, _ = here.Write(make([]byte, piece))
			}
		}()
		if err := <-got; err != nil {
			t.Errorf("got %v", err)
		}
		_ = here.Close()
		close(conns)
		<-served
		_ = server.Close()
	})
}
