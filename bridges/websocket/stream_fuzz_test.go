package websocket

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// recorded is a connection of which all that will be read is there, in pieces
// of a size; what is written is forgotten.
type recorded struct {
	in   *bytes.Reader
	size int
}

func (r *recorded) Read(p []byte) (int, error)       { return r.in.Read(p[:min(len(p), r.size)]) }
func (r *recorded) Write(p []byte) (int, error)      { return len(p), nil }
func (r *recorded) Close() error                     { return nil }
func (r *recorded) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (r *recorded) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (r *recorded) SetDeadline(time.Time) error      { return nil }
func (r *recorded) SetReadDeadline(time.Time) error  { return nil }
func (r *recorded) SetWriteDeadline(time.Time) error { return nil }

// given is a request's writer whose connection is taken over.
type given struct {
	*httptest.ResponseRecorder
	nc net.Conn
}

func (g given) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return g.nc, bufio.NewReadWriter(bufio.NewReader(g.nc), bufio.NewWriter(g.nc)), nil
}

// open upgrades a connection on which data will come in pieces of size bytes.
func open(t testing.TB, data []byte, size int) (*websocket.Conn, *bufio.Reader) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for name, v := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": "p",
	} {
		r.Header.Set(name, v)
	}
	w := &hijacker{ResponseWriter: given{httptest.NewRecorder(), &recorded{bytes.NewReader(data), size}}, size: 512}
	ws, err := newUpgrader(nil, 0, "p").upgrade(w, r)
	if err != nil {
		t.Fatal(err)
	}
	return ws, w.buffer
}

// FuzzStream compares what a stream reads with what its messages hold, whatever
// a client sends, in whatever pieces it comes and is read.
func FuzzStream(f *testing.F) {
	f.Add([]byte(clientFrame(0x82, "one")+clientFrame(0x82, "")+clientFrame(0x89, "ping")+clientFrame(0x82, "three")), uint8(200), uint8(100))
	f.Add([]byte(clientFrame(0x02, "fragments")+clientFrame(0x89, "")+clientFrame(0x00, "of")+clientFrame(0x80, "one")+clientFrame(0x82, "next one, and longer")), uint8(7), uint8(3))
	f.Add([]byte(clientFrame(0x82, "text follows, which ends it")+clientFrame(0x81, "text")), uint8(255), uint8(255))
	f.Add([]byte(clientFrame(0x82, "as does an end")+clientFrame(0x88, "\x03\xe8")), uint8(255), uint8(255))
	f.Add([]byte("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00 a length below zero"), uint8(64), uint8(64))
	f.Fuzz(func(t *testing.T, data []byte, piece, room uint8) {
		var want []byte
		ws, _ := open(t, data, max(int(piece), 1))
		for {
			kind, message, err := ws.NextReader()
			if err != nil || kind != websocket.BinaryMessage {
				break
			}
			part, err := io.ReadAll(message)
			want = append(want, part...)
			if err != nil {
				break
			}
		}
		var got []byte
		ws, in := open(t, data, max(int(piece), 1))
		s := newStream(ws, in, &http.Request{})
		for p := make([]byte, max(int(room), 1)); ; {
			n, err := s.Read(p)
			got = append(got, p[:n]...)
			if err != nil {
				break
			}
			if n == 0 {
				t.Fatal("read nothing, without an error")
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}
