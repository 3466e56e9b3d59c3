package https

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// pipeListener accepts one connection, the other end of a pipe.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	close(l.closed)
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// talk serves one connection under a fake clock, and has tell speak over it.
func talk(t *testing.T, served func() *Bridge, tell func(t *testing.T, nc net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		ln := &pipeListener{make(chan net.Conn, 1), make(chan struct{})}
		ln.conns <- there
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		b := served()
		go func() { done <- b.Serve(ctx, ln) }()
		defer func() {
			_ = here.Close()
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Serve: got %v, want nil", err)
			}
		}()
		tell(t, here)
	})
}

// Whoever announces a body and never sends it loses the connection, also where the request is refused unread.
func TestBodiesThatNeverComeEndTheConnection(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{
		"refused":  "POST /q/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n",
		"accepted": "POST /q/messages HTTP/1.1\r\nHost: h\r\nAuthorization: SharedAccessSignature all\r\nContent-Length: 1000\r\n\r\n",
		"chunked":  "PATCH /q HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
		"a route":  "POST /$crosstown/reads HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n",
		"health":   "GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			talk(t, func() *Bridge {
				b := newBridge(newFakeBus("q"))
				b.exact["/$crosstown/reads"] = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) })
				return b
			}, func(t *testing.T, nc net.Conn) {
				if _, err := io.WriteString(nc, head); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				_ = nc.SetReadDeadline(start.Add(time.Hour))
				_, err := io.Copy(io.Discard, nc)
				if waited := time.Since(start); err != nil || waited > bodyTimeout+idleTimeout {
					t.Errorf("the connection ended after %v with %v", waited, err)
				}
			})
		})
	}
}

// A client that waits for the answer before it sends a large body gets a refusal at once.
func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{"large": "", "expect": "Expect: 100-continue\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			talk(t, func() *Bridge { return newBridge(newFakeBus("q")) }, func(t *testing.T, nc net.Conn) {
				if _, err := io.WriteString(nc, "POST /q/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 10000000\r\n"+more+"\r\n"); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				response, err := http.ReadResponse(bufio.NewReader(nc), nil) // without its body
				waited := time.Since(start)
				if err != nil || response.StatusCode != http.StatusUnauthorized || waited > 0 {
					t.Errorf("got %v, %v after %v, want 401 at once", response, err, waited)
				}
			})
		})
	}
}

// proof notes that its client has proven who it is.
type proof struct {
	net.Conn
	proven atomic.Bool
}

func (p *proof) Proven() { p.proven.Store(true) }

// A connection is told of the first request whose token is good, and of nothing else.
func TestConnectionsHearWhoHasProvenWhoItIs(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	conn := &proof{Conn: there}
	ln := &pipeListener{make(chan net.Conn, 1), make(chan struct{})}
	ln.conns <- conn
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- newBridge(newFakeBus("q")).Serve(ctx, ln) }()
	answers := bufio.NewReader(here)
	for _, c := range []struct {
		header string
		want   bool
	}{{"", false}, {"Authorization: SharedAccessSignature nonsense\r\n", false}, {"Authorization: SharedAccessSignature all\r\n", true}} {
		if _, err := io.WriteString(here, "POST /q/messages HTTP/1.1\r\nHost: h\r\n"+c.header+"\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		if got := conn.proven.Load(); got != c.want {
			t.Errorf("after %q, answered with %s: proven is %v, want %v", c.header, res.Status, got, c.want)
		}
	}
	_ = here.Close()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve: got %v, want nil", err)
	}
}

func TestBatchesHaveALargestNumberOfMessages(t *testing.T) {
	t.Parallel()
	batch := func(n int) []byte { return []byte("[" + strings.TrimSuffix(strings.Repeat("{},", n), ",") + "]") }
	if group, err := parseBatch(batch(maxBatch)); err != nil || len(group) != maxBatch {
		t.Errorf("%d messages: got %d, %v", maxBatch, len(group), err)
	}
	if _, err := parseBatch(batch(maxBatch + 1)); core.CodeOf(err) != core.InvalidArgument {
		t.Errorf("%d messages: got %v, want %v", maxBatch+1, err, core.InvalidArgument)
	}
}

// Methods that nobody knows are answered in one form, and HEAD as GET is but without a body.
func TestMethods(t *testing.T) {
	t.Parallel()
	origin, _ := serve(t, newBridge(newFakeBus("q")))
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"OPTIONS", "/q", 405, "GET, HEAD, PUT, DELETE"},
		{"BREW", "/q", 405, "GET, HEAD, PUT, DELETE"},
		{"POST", "/", 405, "GET, HEAD"},
		{"HEAD", "/q", 200, ""},
		{"HEAD", "/nowhere", 200, ""}, // the empty feed
		{"HEAD", "/q/messages", 405, "POST"},
		{"GET", "/q/messages/head", 405, "POST, DELETE"},
		{"PATCH", "/q/messages/1/2", 405, "DELETE, PUT, POST"},
		{"BREW", "/health", 405, "GET, HEAD"},
	} {
		res, err := http.DefaultClient.Do(request(t, c.method, origin+c.path, nil))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != c.status || res.Header.Get("Allow") != c.allow || c.method == "HEAD" && len(body) > 0 {
			t.Errorf("%s %s: got %s, Allow %q, %d bytes; want %d, %q", c.method, c.path, res.Status, res.Header.Get("Allow"), len(body), c.status, c.allow)
		}
	}
}
