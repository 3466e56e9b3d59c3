package listen_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// from is the gateway's end of a connection from an address.
type from struct {
	net.Conn
	addr string
}

func (f from) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(f.addr), 40000))
}

// admit connects a client from an address. conn is nil where it is refused.
func admit(t *testing.T, a *listen.Admission, addr string) (client net.Conn, conn *listen.Conn) {
	t.Helper()
	client, there := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	return client, a.Enter(from{there, addr})
}

// isClosed reports whether the gateway has closed a client's connection.
func isClosed(client net.Conn) bool {
	_ = client.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := client.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// wantClosed checks which of the clients the gateway has closed.
func wantClosed(t *testing.T, clients []net.Conn, want ...int) {
	t.Helper()
	closed := map[int]bool{}
	for _, i := range want {
		closed[i] = true
	}
	for i, c := range clients {
		if got := isClosed(c); got != closed[i] {
			t.Errorf("client %d is closed: got %v, want %v", i, got, closed[i])
		}
	}
}

func TestTheOldestStrangerMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := listen.NewAdmission(listen.AdmissionOptions{Connections: 10, Strangers: 2})
		var clients []net.Conn
		for range 4 {
			c, _ := admit(t, a, "192.0.2.1")
			clients = append(clients, c)
		}
		wantClosed(t, clients, 0, 1)
		if s := a.State(); s.Connections != 2 || s.Strangers != 2 || s.Closed["strangers"] != 2 {
			t.Errorf("state: got %+v", s)
		}
	})
}

// An address with many strangers loses one of its own, those of other addresses
// stay. Addresses of one IPv6 network count as one.
func TestTheAddressWithMostStrangersMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := listen.NewAdmission(listen.AdmissionOptions{Connections: 10, Strangers: 4})
		var clients []net.Conn
		for _, addr := range []string{"192.0.2.1", "198.51.100.1", "2001:db8::1", "2001:db8::2", "203.0.113.1"} {
			c, _ := admit(t, a, addr)
			clients = append(clients, c)
		}
		wantClosed(t, clients, 2)
	})
}

// A client that takes long for its handshake is no longer new, but all of the flood of another address is.
func TestFloodOfOneAddressMakesRoomBeforeASlowHandshake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := listen.NewAdmission(listen.AdmissionOptions{Connections: 100, Strangers: 4})
		slow, _ := admit(t, a, "192.0.2.2")
		time.Sleep(2 * time.Second)
		for range 20 {
			admit(t, a, "192.0.2.1")
		}
		wantClosed(t, []net.Conn{slow})
	})
}

func TestPlacesForNetworksThatAreKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := listen.NewAdmission(listen.AdmissionOptions{Connections: 100, Strangers: 16})
		_, conn := admit(t, a, "192.0.2.1")
		conn.Proven()
		_ = conn.Close()
		time.Sleep(23 * time.Hour)
		known, _ := admit(t, a, "192.0.2.1")
		clients := []net.Conn{known}
		flood := func() {
			for i := range 40 {
				c, _ := admit(t, a, netip.AddrFrom4([4]byte{198, 51, byte(i), 1}).String())
				clients = append(clients, c)
			}
		}
		if flood(); isClosed(known) {
			t.Error("a client from a network that is known made room for one from another")
		}
		_ = known.Close()
		time.Sleep(2 * time.Hour)
		unknown, _ := admit(t, a, "192.0.2.1")
		if flood(); !isClosed(unknown) {
			t.Error("the network is still known after a day")
		}
		var crowd []net.Conn
		_, conn = admit(t, a, "192.0.2.1")
		conn.Proven()
		for range 10 {
			c, _ := admit(t, a, "192.0.2.1")
			crowd = append(crowd, c)
		}
		flood()
		left := 0
		for _, c := range crowd {
			if !isClosed(c) {
				left++
			}
		}
		if left != 2 {
			t.Errorf("%d of 10 strangers of one known network keep their places of 16, want an eighth", left)
		}
	})
}

func TestAWholeNetworkMakesRoomForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := listen.NewAdmission(listen.AdmissionOptions{Connections: 100, Strangers: 8})
		var others []net.Conn
		for i := range 4 {
			c, _ := admit(t, a, netip.AddrFrom4([4]byte{203, 0, byte(i), 1}).String())
			others = append(others, c)
		}
		for i := range 500 { // one customer's /48
			admit(t, a, fmt.Sprintf("2001:db8:1:%x::1", i))
		}
		wantClosed(t, others)
	})
}

func TestAClientThatHasProvenWhoItIsKeepsItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := listen.NewAdmission(listen.AdmissionOptions{Connections: 3, Strangers: 2})
		first, conn := admit(t, a, "192.0.2.1")
		conn.Proven()
		clients := []net.Conn{first}
		for range 5 {
			c, _ := admit(t, a, "192.0.2.1")
			clients = append(clients, c)
		}
		wantClosed(t, clients, 1, 2, 3)
		_ = conn.Close()
		_ = conn.Close() // twice is once
		if s := a.State(); s.Connections != 2 || s.Strangers != 2 {
			t.Errorf("after it has gone: got %+v", s)
		}
	})
}

// With as many connections as there may be, a newcomer has the place of a
// stranger, and none where there is no stranger.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := listen.NewAdmission(listen.AdmissionOptions{Connections: 2, Strangers: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		proven, conn := admit(t, a, "192.0.2.1")
		conn.Proven()
		stranger, _ := admit(t, a, "192.0.2.1")
		newcomer, conn := admit(t, a, "192.0.2.1")
		wantClosed(t, []net.Conn{proven, stranger, newcomer}, 1)
		conn.Proven()
		last, conn := admit(t, a, "192.0.2.1")
		if conn != nil || !isClosed(last) {
			t.Error("a connection too many was admitted")
		}
		wantClosed(t, []net.Conn{proven, newcomer})
		if s := a.State(); s.Connections != 2 || s.Closed["connections"] != 2 {
			t.Errorf("state: got %+v", s)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "limit of open files") {
			t.Errorf("the log: got %q, want one line that names the limit of open files", log.String())
		}
	})
}

// TestStrangersSendOnlySoMuch has strangers send what nobody answers: who has sent
// more than a fair share is closed, the others are not.
func TestStrangersSendOnlySoMuch(t *testing.T) {
	t.Parallel()
	a := listen.NewAdmission(listen.AdmissionOptions{Connections: 10, Strangers: 4})
	const all = 16 << 20
	send := func(conn *listen.Conn, client net.Conn, n int) error {
		written := make(chan struct{})
		go func() {
			defer close(written)
			_, _ = client.Write(make([]byte, n)) // it may be cut short
		}()
		_, err := io.ReadFull(conn, make([]byte, n))
		if err != nil {
			_ = conn.Close()
		}
		<-written
		return err
	}
	answered, conn := admit(t, a, "192.0.2.1")
	for range 3 {
		if err := send(conn, answered, all-1<<20); err != nil {
			t.Fatalf("a stranger whose requests are answered: %v", err)
		}
		conn.Answered()
	}
	proven, conn := admit(t, a, "192.0.2.1")
	conn.Proven()
	if err := send(conn, proven, 2*all); err != nil {
		t.Fatalf("a client that has proven who it is: %v", err)
	}
	heavy, conn := admit(t, a, "192.0.2.1")
	if err := send(conn, heavy, all); err != nil {
		t.Fatalf("the first to send much: %v", err)
	}
	light, lightConn := admit(t, a, "192.0.2.1")
	if err := send(lightConn, light, 1000); err != nil {
		t.Errorf("a stranger that sends little: %v", err)
	}
	if err := send(conn, heavy, 1); err == nil {
		t.Error("a stranger that has sent more than its share, with all that there may be: got no error")
	}
	if err := send(lightConn, light, 1000); err != nil {
		t.Errorf("a stranger that sends little, then: %v", err)
	}
	if s := a.State(); s.Closed["bytes"] != 1 {
		t.Errorf("state: got %+v", s)
	}
}

func TestDefaultsLeaveDescriptorsForOthers(t *testing.T) {
	t.Parallel()
	connections, strangers := listen.NewAdmission(listen.AdmissionOptions{}).Limits()
	if connections < 1 || strangers < 1 || strangers > connections/2 {
		t.Errorf("got %d connections and %d strangers", connections, strangers)
	}
}

// TestStalledHandshakesDoNotBlockNewcomers begins more TLS handshakes than there
// are places, and then speaks each protocol.
func TestStalledHandshakesDoNotBlockNewcomers(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := testTLS(t)
	admission := listen.NewAdmission(listen.AdmissionOptions{Connections: 100, Strangers: 8})
	addr := serveEcho(t, []string{"127.0.0.1:0"}, listen.Options{TLS: func() *tls.Config { return serverTLS }, Admission: admission})[0]
	for range 50 {
		if _, err := dial(t, addr).Write([]byte{0x16}); err != nil {
			t.Fatal(err)
		}
	}
	inTLS, err := tls.Dial("tcp", addr, clientTLS)
	if err != nil {
		t.Fatal(err)
	}
	if got := echo(t, inTLS); got != "amqp:AMQP hello\n" {
		t.Errorf("AMQP in TLS: got %q", got)
	}
	if got := echo(t, dial(t, addr)); got != "amqp:AMQP hello\n" {
		t.Errorf("AMQP: got %q", got)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: clientTLS}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("https://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// TestConnectionsThatEndGiveTheirPlacesBack has connections of each kind come and go.
func TestConnectionsThatEndGiveTheirPlacesBack(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := testTLS(t)
	admission := listen.NewAdmission(listen.AdmissionOptions{Connections: 100, Strangers: 50})
	addr := serveEcho(t, []string{"127.0.0.1:0"}, listen.Options{TLS: func() *tls.Config { return serverTLS }, Admission: admission})[0]
	echo(t, dial(t, addr))
	inTLS, err := tls.Dial("tcp", addr, clientTLS)
	if err != nil {
		t.Fatal(err)
	}
	echo(t, inTLS)
	for _, first := range []string{"\x16", "AMQ", "GET / HTTP/1.1\r\nConnection: close\r\n\r\n"} {
		c := dial(t, addr)
		_, _ = io.WriteString(c, first)
		_ = c.Close()
	}
	eventually.True(t, "connections that have ended are not counted any more", func() bool { return admission.State().Connections == 0 })
	if s := admission.State(); s.Strangers != 0 {
		t.Errorf("got %+v", s)
	}
}
