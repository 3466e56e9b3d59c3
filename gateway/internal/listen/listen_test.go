package listen_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/gateway/internal/devca"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// serveEcho runs a mux whose AMQP side echoes what it reads, prefixed with
// "amqp:", and whose HTTP side answers with "plain" or "tls".
func serveEcho(t *testing.T, addresses []string, o listen.Options) []string {
	t.Helper()
	listeners, err := listen.Open(t.Context(), addresses)
	if err != nil {
		t.Fatal(err)
	}
	bound := make([]string, len(listeners))
	for i, ln := range listeners {
		bound[i] = ln.Addr().String()
	}
	mux := listen.New(listeners, o)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := mux.Serve(ctx); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	amqp := mux.AMQP()
	wg.Go(func() {
		for {
			conn, err := amqp.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = conn.Close() }()
				line, _ := bufio.NewReader(conn).ReadString('\n')
				_, _ = io.WriteString(conn, "amqp:"+line)
			})
		}
	})
	server := &http.Server{ConnState: func(nc net.Conn, s http.ConnState) {
		if s == http.StateIdle {
			bridges.Answered(nc)
		}
	}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			_, _ = io.WriteString(w, "tls")
			return
		}
		_, _ = io.WriteString(w, "plain")
	})}
	wg.Go(func() { _ = server.Serve(mux.HTTP()) })
	t.Cleanup(func() {
		_ = server.Close()
		_ = amqp.Close()
		cancel()
		wg.Wait()
	})
	return bound
}

func testTLS(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	ca, err := devca.Open(t.TempDir(), devca.Options{Hosts: []string{"localhost", "127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM)
	return &tls.Config{Certificates: []tls.Certificate{ca.Certificate}}, &tls.Config{RootCAs: pool, ServerName: "localhost"}
}

func echo(t *testing.T, conn net.Conn) string {
	t.Helper()
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(eventually.Bound))
	if _, err := io.WriteString(conn, "AMQP hello\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func TestEveryPortSpeaksEveryProtocol(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := testTLS(t)
	for _, addr := range serveEcho(t, []string{"127.0.0.1:0", "127.0.0.1:0"}, listen.Options{TLS: func() *tls.Config { return serverTLS }}) {
		plain, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := echo(t, plain); got != "amqp:AMQP hello\n" {
			t.Errorf("AMQP: got %q", got)
		}
		inTLS, err := tls.Dial("tcp", addr, clientTLS)
		if err != nil {
			t.Fatal(err)
		}
		if got := echo(t, inTLS); got != "amqp:AMQP hello\n" {
			t.Errorf("AMQP in TLS: got %q", got)
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: clientTLS}}
		for url, want := range map[string]string{"http://" + addr: "plain", "https://" + addr: "tls"} {
			resp, err := client.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if string(body) != want {
				t.Errorf("GET %s: got %q, want %q", url, body, want)
			}
		}
		client.CloseIdleConnections()
	}
}

func TestAnALPNOfferDoesNotDisturb(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := testTLS(t)
	addr := serveEcho(t, []string{"127.0.0.1:0"}, listen.Options{TLS: func() *tls.Config { return serverTLS }})[0]
	clientTLS.NextProtos = []string{"amqp", "h2", "http/1.1"}
	conn, err := tls.Dial("tcp", addr, clientTLS)
	if err != nil {
		t.Fatal(err)
	}
	if got := echo(t, conn); got != "amqp:AMQP hello\n" {
		t.Errorf("got %q", got)
	}
}

// A request is refused for the number of its header lines, the first on a connection and a later one; lines of a
// body do not count.
func TestAHeaderOfManyLinesIsRefused(t *testing.T) {
	t.Parallel()
	server, client := testTLS(t)
	address := serveEcho(t, []string{"127.0.0.1:0"}, listen.Options{TLS: func() *tls.Config { return server }})[0]
	const start = "POST / HTTP/1.1\r\nHost: localhost\r\n"
	body := start + "Content-Length: 4000\r\n\r\n" + strings.Repeat("\r\n", 2000)
	for _, dial := range []func() (net.Conn, error){
		func() (net.Conn, error) { return net.Dial("tcp", address) },
		func() (net.Conn, error) { return tls.Dial("tcp", address, client) },
	} {
		for i, c := range []struct {
			lines  int
			status int
		}{{997, http.StatusOK}, {998, http.StatusRequestHeaderFieldsTooLarge}} {
			nc, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = nc.Close() }()
			_ = nc.SetDeadline(time.Now().Add(eventually.Bound))
			answers := bufio.NewReader(nc)
			ask := func(request string) int {
				if _, err := io.WriteString(nc, request); err != nil {
					t.Fatal(err)
				}
				res, err := http.ReadResponse(answers, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				return res.StatusCode
			}
			if i == 1 && ask(body) != http.StatusOK {
				t.Error("the lines of a body were counted")
			}
			if got := ask(start + strings.Repeat("a:\n", c.lines) + "\r\n"); got != c.status {
				t.Errorf("%d lines: got %d, want %d", c.lines+3, got, c.status)
			}
		}
	}
}

func TestASilentPeerIsDropped(t *testing.T) {
	t.Parallel()
	addr := serveEcho(t, []string{"127.0.0.1:0"}, listen.Options{Timeout: 20 * time.Millisecond})[0]
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "AMQ")
	_ = conn.SetReadDeadline(time.Now().Add(eventually.Bound))
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read: got %v, want the end of the connection", err)
	}
}

func TestTLSWithoutACertificateIsRefused(t *testing.T) {
	t.Parallel()
	addr := serveEcho(t, []string{"127.0.0.1:0"}, listen.Options{})[0]
	if _, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}); err == nil {
		t.Fatal("handshake succeeded without a certificate")
	}
}

// queue is a listener of what comes through a channel.
type queue struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (q *queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}
func (q *queue) Close() error   { close(q.closed); return nil }
func (q *queue) Addr() net.Addr { return &net.TCPAddr{} }

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestServeEndsWhileAPeerIsUndecided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		conns := make(chan net.Conn, 1)
		conns <- far
		mux := listen.New([]net.Listener{&queue{conns: conns, closed: make(chan struct{})}}, listen.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- mux.Serve(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: got %v, want nil", err)
		}
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the peer reads: got %v, want EOF", err)
		}
	})
}

// unread is a connection whose reader learns of its end late, as on a busy machine.
type unread struct {
	net.Conn
	end chan struct{}
}

func (c unread) Read([]byte) (int, error) {
	<-c.end
	return 0, io.EOF
}

func (unread) SetDeadline(time.Time) error { return nil }

func TestConnectionsWaitWhileTheGoroutinesOfClosedOnesEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const strangers, all = 10, 1000
		conns, end := make(chan net.Conn, all), make(chan struct{})
		for range all {
			near, far := net.Pipe()
			_ = near.Close()
			conns <- unread{far, end}
		}
		admission := listen.NewAdmission(listen.AdmissionOptions{Strangers: strangers})
		mux := listen.New([]net.Listener{&queue{conns: conns, closed: make(chan struct{})}}, listen.Options{Admission: admission})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- mux.Serve(ctx) }()
		synctest.Wait()
		if accepted := all - len(conns); accepted < strangers || accepted > 100 {
			t.Errorf("accepted %d connections with places for %d strangers, want at most 100", accepted, strangers)
		}
		close(end)
		synctest.Wait()
		if len(conns) > 0 {
			t.Errorf("%d connections are not accepted after goroutines have ended", len(conns))
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: got %v, want nil", err)
		}
	})
}

// Nothing accepts AMQP here: the connection does not wait for ever, and the log says so.
func TestAConnectionThatIsNotTakenOverIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		conns := make(chan net.Conn, 1)
		conns <- far
		var log bytes.Buffer
		admission := listen.NewAdmission(listen.AdmissionOptions{})
		mux := listen.New([]net.Listener{&queue{conns: conns, closed: make(chan struct{})}}, listen.Options{
			Admission: admission, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- mux.Serve(ctx) }()
		began := time.Now()
		_, _ = io.WriteString(near, "AMQP")
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) != 10*time.Second {
			t.Errorf("got %v after %v, want EOF after 10s", err, time.Since(began))
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: got %v, want nil", err)
		}
		if s := admission.State(); s.Connections != 0 {
			t.Errorf("its place is not free: %+v", s)
		}
		if !strings.Contains(log.String(), "the gateway did not begin to serve a new connection in time") {
			t.Errorf("the log: got %q", log.String())
		}
	})
}

func TestPortsInUseAreAllNamedWithTheRemedy(t *testing.T) {
	t.Parallel()
	var taken []string
	for range 2 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
		taken = append(taken, ln.Addr().String())
	}
	_, err := listen.Open(t.Context(), append([]string{"127.0.0.1:0"}, taken...))
	if err == nil {
		t.Fatal("opened a port in use")
	}
	for _, addr := range taken {
		_, port, _ := net.SplitHostPort(addr)
		if want := "cannot listen on " + addr + ": port " + port + " is in use"; !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	if !strings.Contains(err.Error(), "--listen") {
		t.Errorf("error %q names no remedy", err)
	}
}

func TestIsLoopback(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.8.9.1:1": true, "[::1]:1": true, "localhost:1": true, "LocalHost:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "gateway:1": false, "nonsense": false,
	} {
		if got := listen.IsLoopback(addr); got != want {
			t.Errorf("IsLoopback(%q): got %v, want %v", addr, got, want)
		}
	}
}

// While one listener has ended and the next has not begun, connections wait.
func TestConnectionsWaitForTheNextListener(t *testing.T) {
	t.Parallel()
	listeners, err := listen.Open(t.Context(), []string{"127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	mux := listen.New(listeners, listen.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = mux.Serve(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	first := mux.AMQP()
	_ = first.Close()
	if _, err := first.Accept(); err == nil {
		t.Error("a listener that is closed accepts")
	}
	client, err := net.Dial("tcp", listeners[0].Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := io.WriteString(client, "AMQP\x00\x01\x00\x00"); err != nil {
		t.Fatal(err)
	}
	next := mux.AMQP()
	defer func() { _ = next.Close() }()
	conn, err := next.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil || string(head) != "AMQP" {
		t.Errorf("got %q, %v", head, err)
	}
}
