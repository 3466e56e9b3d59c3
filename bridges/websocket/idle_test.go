package websocket

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// idler opens connections over TCP that sign in and then say nothing. Its side
// of them costs as little as can be.
func idler(tb testing.TB) (open func()) {
	tb.Helper()
	h := openHouse(tb, Options{PingInterval: time.Hour})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	server := &http.Server{Handler: h.bridge}
	go func() { _ = server.Serve(ln) }()
	tb.Cleanup(func() { _ = server.Close() })
	frame := `{"op":"auth","id":1,"token":"` + rootToken + `"}`
	masked := append([]byte{0x81, 0x80 | byte(len(frame)), 0, 0, 0, 0}, frame...) // by zeros
	return func() {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		_, err = fmt.Fprintf(c, "GET /$crosstown/ws HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: %s\r\n\r\n", protocolJSON)
		if err != nil {
			tb.Fatal(err)
		}
		r := bufio.NewReaderSize(c, 512)
		for line := "-"; line != "\r\n"; {
			if line, err = r.ReadString('\n'); err != nil {
				tb.Fatal(err)
			}
		}
		if _, err := c.Write(masked); err != nil {
			tb.Fatal(err)
		}
		answer := make([]byte, 64)
		if n, err := r.Read(answer); err != nil || !strings.Contains(string(answer[:n]), `"ok"`) {
			tb.Fatalf("got %q, %v", answer[:n], err)
		}
	}
}

// memory is what the heap and the stacks take.
func memory() int64 {
	runtime.GC()
	runtime.GC() // what pools held, too
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// BenchmarkIdleConnections reports what a connection takes that has signed in
// and is idle. Say -benchtime 10000x for ten thousand at a time; it takes two
// file descriptors for each.
func BenchmarkIdleConnections(b *testing.B) {
	open := idler(b)
	before := memory()
	n := 0
	for b.Loop() {
		open()
		n++
	}
	b.ReportMetric(float64(memory()-before)/float64(n), "B/conn")
}

func TestIdleConnectionsAreSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures the whole process")
	}
	const n, most = 500, 32 << 10 // a race detector takes some, too
	open := idler(t)
	open()
	before := memory()
	for range n {
		open()
	}
	if each := (memory() - before) / n; each > most {
		t.Errorf("an idle connection takes %d bytes, want at most %d", each, most)
	} else {
		t.Logf("%d bytes", each)
	}
}
