package websocket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// patience bounds every wait for something that should happen.
const patience = eventually.Bound

// tunneling serves a tunnel until the test ends, and returns its address and what ends it.
func tunneling(t testing.TB, serve func(context.Context, net.Conn) error) (address string, end func()) {
	t.Helper()
	tunnel := NewTunnel(serve, TunnelOptions{})
	server := httptest.NewServer(tunnel)
	ctx, cancel := context.WithCancel(context.Background())
	var runs sync.WaitGroup
	runs.Go(func() { _ = tunnel.Run(ctx) })
	t.Cleanup(func() { cancel(); runs.Wait(); server.Close() })
	return "ws" + strings.TrimPrefix(server.URL, "http"), func() { cancel(); runs.Wait() }
}

// dial connects to a tunnel. The connection's reads and writes end after patience.
func dial(t testing.TB, url string) *websocket.Conn {
	t.Helper()
	d := websocket.Dialer{Subprotocols: []string{"AMQPWSB10"}, HandshakeTimeout: patience}
	c, _, err := d.Dial(url+TunnelPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_ = c.SetWriteDeadline(time.Now().Add(patience))
	return c
}

func write(t testing.TB, c *websocket.Conn, kind int, data string) {
	t.Helper()
	if err := c.WriteMessage(kind, []byte(data)); err != nil {
		t.Fatal(err)
	}
}

// closeOf reads until the connection ends, and returns its close code.
func closeOf(t testing.TB, c *websocket.Conn) int {
	t.Helper()
	for {
		if _, _, err := c.ReadMessage(); err != nil {
			ended, ok := errors.AsType[*websocket.CloseError](err)
			if !ok {
				t.Fatalf("got %v, want a close", err)
			}
			return ended.Code
		}
	}
}

// reads serves a connection by reading all of it, and says what came and how it ended.
func reads(said chan<- read) func(context.Context, net.Conn) error {
	return func(_ context.Context, nc net.Conn) error {
		data, err := io.ReadAll(nc)
		_ = nc.Close()
		said <- read{string(data), err}
		return err
	}
}

type read struct {
	data string
	err  error
}

func TestWhereTheTunnelIs(t *testing.T) {
	t.Parallel()
	url, _ := tunneling(t, func(_ context.Context, nc net.Conn) error { return nc.Close() })
	for _, c := range []struct {
		path, protocol, origin string
		status                 int
	}{
		{"/$servicebus/websocket", "AMQPWSB10", "", 101},
		{"/%24servicebus/websocket", "AMQPWSB10", "", 101},
		{"/$ServiceBus/WebSocket/?access_token=x", "amqp", "", 101},
		{"/$servicebus/websocket", "AMQPWSB10", "http" + strings.TrimPrefix(url, "ws"), 101},
		{"/$servicebus/websocket", "AMQPWSB10", "https://elsewhere.example", 403},
		{"/$servicebus/websocket", "", "", 400},
		{"/$servicebus/websocket", "mqtt", "", 400},
		{"/$servicebus/websocket/more", "amqp", "", 404},
	} {
		header := http.Header{}
		for name, v := range map[string]string{"Sec-WebSocket-Protocol": c.protocol, "Origin": c.origin} {
			if v != "" {
				header.Set(name, v)
			}
		}
		d := websocket.Dialer{HandshakeTimeout: patience}
		conn, answer, err := d.Dial(url+c.path, header)
		if answer == nil {
			t.Fatal(err)
		}
		if answer.StatusCode != c.status {
			t.Errorf("%s as %q from %q: got %s, want %d", c.path, c.protocol, c.origin, answer.Status, c.status)
		}
		if conn != nil {
			if got := conn.Subprotocol(); got != c.protocol {
				t.Errorf("sub-protocol: got %q, want %q", got, c.protocol)
			}
			_ = conn.Close()
		}
	}
}

func TestMessagesAreAStreamOfBytes(t *testing.T) {
	t.Parallel()
	said := make(chan read, 1)
	url, _ := tunneling(t, reads(said))
	c := dial(t, url)
	large := strings.Repeat("large", 1<<20)
	for _, part := range []string{"one", "", "two", large} {
		write(t, c, websocket.BinaryMessage, part)
	}
	if err := c.WriteControl(websocket.PingMessage, []byte("?"), time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	w, err := c.NextWriter(websocket.BinaryMessage) // in fragments
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := w.Write(bytes.Repeat([]byte("f"), 10_000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	pongs := 0
	c.SetPongHandler(func(data string) error { pongs += len(data); return nil })
	write(t, c, websocket.CloseMessage, string(websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")))
	if code := closeOf(t, c); code != websocket.CloseNormalClosure || pongs != 1 {
		t.Errorf("got close code %d and %d pongs, want %d and 1", code, pongs, websocket.CloseNormalClosure)
	}
	got := <-said
	if want := "onetwo" + large + strings.Repeat("f", 30_000); got.data != want || got.err != nil {
		t.Errorf("got %d bytes and error %v, want %d and none", len(got.data), got.err, len(want))
	}
}

// clientFrame is a frame of a client, masked with zeros.
func clientFrame(first byte, data string) string {
	head := []byte{first, 0x80 | byte(len(data))}
	if len(data) > 125 {
		head = []byte{first, 0x80 | 126, byte(len(data) >> 8), byte(len(data))}
	}
	return string(head) + "\x00\x00\x00\x00" + data
}

func TestAReadTakesWhatIsHereAndWaitsForNothingElse(t *testing.T) {
	t.Parallel()
	const binary, begin, end, ping = 0x82, 0x02, 0x80, 0x89
	x, y := strings.Repeat("x", 1000), strings.Repeat("y", 3000)
	for _, c := range []struct {
		name, sent string
		bufferSize int
		want       []string
	}{
		{"one message", clientFrame(binary, x), 5000, []string{x}},
		{"several", clientFrame(binary, x) + clientFrame(binary, y) + clientFrame(binary, "z"), 5000, []string{x + y, "z"}}, // too short to be looked at
		{"more than there is room for", clientFrame(binary, x) + clientFrame(binary, y), 1500, []string{x + y[:500], y[500:2000], y[2000:]}},
		{"fragments", clientFrame(begin, x) + clientFrame(end, y) + clientFrame(binary, x), 5000, []string{x, y, x}},
		{"pings between", clientFrame(binary, x) + clientFrame(ping, y[:120]) + clientFrame(ping, y[:120]), 5000, []string{x}},
		{"pings before", clientFrame(ping, "") + clientFrame(binary, x) + clientFrame(ping, y[:100]) + clientFrame(binary, y), 5000, []string{x, y}},
		{"a part of the next", clientFrame(binary, x) + clientFrame(binary, y)[:2000], 5000, []string{x + y[:1992]}},
		{"its head", clientFrame(binary, x) + clientFrame(binary, y)[:8], 5000, []string{x}},
		{"empty ones", clientFrame(binary, "") + clientFrame(binary, x) + clientFrame(binary, "") + clientFrame(binary, "") + clientFrame(binary, y), 5000, []string{x, y}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sent, got := make(chan struct{}), make(chan []string, 1)
			url, _ := tunneling(t, func(_ context.Context, nc net.Conn) error {
				defer func() { _ = nc.Close() }()
				<-sent
				var parts []string
				for range c.want {
					p := make([]byte, c.bufferSize)
					n, err := nc.Read(p)
					if err != nil {
						t.Errorf("read: %v", err)
					}
					parts = append(parts, string(p[:n]))
				}
				got <- parts
				return nil
			})
			if _, err := dial(t, url).NetConn().Write([]byte(c.sent)); err != nil {
				t.Fatal(err)
			}
			close(sent)
			if got := <-got; !slices.Equal(got, c.want) {
				t.Errorf("got  %.2000q\nwant %.2000q", got, c.want)
			}
		})
	}
}

func TestEachWriteIsOneMessage(t *testing.T) {
	t.Parallel()
	written := []int{1, 125, 126, tunnelBuffer - 14, tunnelBuffer, 65_535, 65_536, 1 << 20}
	url, _ := tunneling(t, func(_ context.Context, nc net.Conn) error {
		defer func() { _ = nc.Close() }()
		for i, n := range written {
			if got, err := nc.Write(bytes.Repeat([]byte{byte(i)}, n)); got != n || err != nil {
				t.Errorf("write %d bytes: got %d, %v", n, got, err)
			}
		}
		return nil
	})
	c := dial(t, url)
	for i, n := range written {
		kind, data, err := c.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		if kind != websocket.BinaryMessage || !bytes.Equal(data, bytes.Repeat([]byte{byte(i)}, n)) {
			t.Errorf("message %d: got kind %d and %d bytes, want %d and %d", i, kind, len(data), websocket.BinaryMessage, n)
		}
	}
	if code := closeOf(t, c); code != websocket.CloseNormalClosure {
		t.Errorf("got close code %d, want %d", code, websocket.CloseNormalClosure)
	}
}

func TestHowClientsEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(*testing.T, *websocket.Conn)
		want func(error) bool
	}{
		{"in order", func(t *testing.T, c *websocket.Conn) {
			write(t, c, websocket.CloseMessage, string(websocket.FormatCloseMessage(websocket.CloseGoingAway, "")))
		}, func(err error) bool { return err == nil }},
		{
			"abruptly", func(_ *testing.T, c *websocket.Conn) { _ = c.NetConn().Close() },
			func(err error) bool { return err != nil },
		},
		{"in the middle of a message", func(t *testing.T, c *websocket.Conn) {
			if _, err := c.NetConn().Write([]byte{0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4, 'x'}); err != nil {
				t.Fatal(err)
			}
			_ = c.NetConn().Close()
		}, func(err error) bool { return websocket.IsCloseError(err, websocket.CloseAbnormalClosure) }},
		{"with text", func(t *testing.T, c *websocket.Conn) {
			write(t, c, websocket.TextMessage, "AMQP")
			if code := closeOf(t, c); code != websocket.CloseUnsupportedData {
				t.Errorf("got close code %d, want %d", code, websocket.CloseUnsupportedData)
			}
		}, func(err error) bool { return err != nil }},
		{"without a mask", func(t *testing.T, c *websocket.Conn) {
			if _, err := c.NetConn().Write([]byte{0x82, 1, 'x'}); err != nil {
				t.Fatal(err)
			}
			if code := closeOf(t, c); code != websocket.CloseProtocolError {
				t.Errorf("got close code %d, want %d", code, websocket.CloseProtocolError)
			}
		}, func(err error) bool { return err != nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			said := make(chan read, 1)
			url, _ := tunneling(t, reads(said))
			c.end(t, dial(t, url))
			if got := <-said; !c.want(got.err) {
				t.Errorf("the stream ended with %v", got.err)
			}
		})
	}
}

func TestDeadlinesHold(t *testing.T) {
	t.Parallel()
	said := make(chan error, 3)
	url, _ := tunneling(t, func(_ context.Context, nc net.Conn) error {
		defer func() { _ = nc.Close() }()
		_ = nc.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		_, err := nc.Write(make([]byte, 64<<20)) // more than sockets hold
		said <- err
		_, err = nc.Write([]byte("more"))
		said <- err
		_ = nc.SetDeadline(time.Now())
		_, err = nc.Read(make([]byte, 1))
		said <- err
		return nil
	})
	_ = dial(t, url) // and read nothing
	for _, what := range []string{"write", "write again", "read"} {
		if err, ok := errors.AsType[net.Error](<-said); !ok || !err.Timeout() {
			t.Errorf("%s: got %v, want a time-out", what, err)
		}
	}
}

func TestCloseEndsReadAndWrite(t *testing.T) {
	t.Parallel()
	said := make(chan error, 2)
	url, _ := tunneling(t, func(_ context.Context, nc net.Conn) error {
		go func() {
			_, err := nc.Read(make([]byte, 1))
			said <- err
		}()
		go func() {
			_, err := nc.Write(make([]byte, 64<<20))
			said <- err
		}()
		_ = nc.Close()
		_ = nc.Close()
		return nil
	})
	_ = dial(t, url)
	for range 2 {
		if err := <-said; err == nil {
			t.Error("got no error")
		}
	}
}

func TestRunEndsWhenTheConnectionsHave(t *testing.T) {
	t.Parallel()
	told, drained := make(chan struct{}), make(chan struct{})
	url, end := tunneling(t, func(ctx context.Context, nc net.Conn) error {
		<-ctx.Done()
		close(told)
		<-drained
		return nc.Close()
	})
	c := dial(t, url)
	ended := make(chan struct{})
	go func() { end(); close(ended) }()
	<-told
	select {
	case <-ended:
		t.Error("Run has ended before the connection")
	default:
	}
	d := websocket.Dialer{Subprotocols: []string{"amqp"}, HandshakeTimeout: patience}
	if _, answer, err := d.Dial(url+TunnelPath, nil); answer == nil || answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a late client: got %v, %v, want 503", answer, err)
	}
	close(drained)
	<-ended
	if code := closeOf(t, c); code != websocket.CloseNormalClosure {
		t.Errorf("got close code %d, want %d", code, websocket.CloseNormalClosure)
	}
}
