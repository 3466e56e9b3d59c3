package https

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core/fair"
)

// exchange is talk with a bridge that has a budget, which must be whole in the end.
func exchange(t *testing.T, memory *fair.Pool, tell func(t *testing.T, nc net.Conn)) {
	t.Parallel()
	talk(t, func() *Bridge {
		f := newFakeBus("q")
		f.limit = 1 << 20
		return New(f, f, Options{Logger: quiet(), Pools: fair.Pools{Budget: memory}})
	}, tell)
	if s := memory.Stats(); s.Held != 0 {
		t.Errorf("%d bytes are held in the end", s.Held)
	}
}

const sending = "POST /q/messages HTTP/1.1\r\nHost: h\r\nAuthorization: SharedAccessSignature all\r\nContent-Length: 300000\r\n\r\n"

func status(t *testing.T, nc net.Conn) *http.Response {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestStalledBodyIsAbandoned(t *testing.T) {
	memory := fair.New(0, nil, nil)
	exchange(t, memory, func(t *testing.T, nc net.Conn) {
		if _, err := io.WriteString(nc, sending+strings.Repeat("x", 100_000)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := memory.Stats(); s.Held != 300_000+fair.Message {
			t.Errorf("%d bytes are held for a message of 300,000 and what it becomes", s.Held)
		}
		start := time.Now()
		if res := status(t, nc); res.StatusCode != http.StatusRequestTimeout || time.Since(start) != fair.Grace {
			t.Errorf("got %s after %v, want 408 after %v", res.Status, time.Since(start), fair.Grace)
		}
	})
}

func TestLargeHeadersAreCharged(t *testing.T) {
	memory := fair.New(0, nil, nil)
	exchange(t, memory, func(t *testing.T, nc net.Conn) {
		const lines = 500
		if _, err := io.WriteString(nc, "DELETE /q/messages/head?timeout=1 HTTP/1.1\r\nHost: h\r\nAuthorization: SharedAccessSignature all\r\n"+strings.Repeat("Name: value\r\n", lines)+"\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if held := memory.Stats().Held; held < lines*20 || held > lines*30 {
			t.Errorf("%d bytes are held for a header of %d lines", held, lines)
		}
		if res := status(t, nc); res.StatusCode != http.StatusNoContent {
			t.Errorf("got %s, want 204", res.Status)
		}
	})
}

func TestALongBodyMayTakeLong(t *testing.T) {
	memory := fair.New(0, nil, nil)
	exchange(t, memory, func(t *testing.T, nc net.Conn) {
		if _, err := io.WriteString(nc, strings.Replace(sending, "300000", "1000000", 1)); err != nil {
			t.Fatal(err)
		}
		for range 10 { // a minute together
			time.Sleep(6 * time.Second)
			if _, err := io.WriteString(nc, strings.Repeat("x", 100_000)); err != nil {
				t.Fatal(err)
			}
		}
		if res := status(t, nc); res.StatusCode != http.StatusCreated {
			t.Errorf("got %s, want 201", res.Status)
		}
	})
}

func TestABodyWaitsForMemoryAndIsThenRefused(t *testing.T) {
	memory := fair.New(1<<20, nil, nil)
	exchange(t, memory, func(t *testing.T, nc net.Conn) {
		other := memory.Share(func() {})
		defer other.Close()
		other.Add(1 << 20)
		start := time.Now()
		go func() { _, _ = io.WriteString(nc, sending+strings.Repeat("x", 300_000)) }() // it is not read to its end
		res := status(t, nc)
		if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") != retryAfter || time.Since(start) != fair.Patience {
			t.Errorf("got %s after %v, and Retry-After %q, want 503 after %v", res.Status, time.Since(start), res.Header.Get("Retry-After"), fair.Patience)
		}
	})
}

func TestABodyLargerThanTheBudgetIsRefused(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	f.limit = 1 << 20
	r := httptest.NewRequest("POST", "/q/messages", strings.NewReader(strings.Repeat("x", 600_000)))
	r.Header.Set("Authorization", "SharedAccessSignature all")
	w := httptest.NewRecorder()
	New(f, f, Options{Logger: quiet(), Pools: fair.Pools{Budget: fair.New(1<<20, nil, nil)}}).Handler().ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "message-memory") {
		t.Errorf("got %d %s, want 403 with the setting", w.Code, w.Body)
	}
}
