package listen

import (
	"io"
	"net"
	"strings"
	"testing"
)

// TestHeadersThatArriveCountAsUnproven sends headers on connections whose clients have a proven identity. All
// together may take what all strangers may; a request's token frees what its header has taken.
func TestHeadersThatArriveCountAsUnproven(t *testing.T) {
	t.Parallel()
	a := NewAdmission(AdmissionOptions{Connections: 10, Strangers: 4})
	enter := func() (client net.Conn, c *rewound) {
		client, there := net.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		go func() { _, _ = io.Copy(io.Discard, client) }()
		admitted := a.Enter(there)
		admitted.Proven()
		return client, &rewound{Conn: admitted, admitted: admitted, request: &header{}}
	}
	send := func(client net.Conn, c *rewound, text string) error {
		go func() { _, _ = io.WriteString(client, text) }()
		_, err := io.ReadFull(c, make([]byte, len(text)))
		return err
	}
	const start = "GET / HTTP/1.1\r\nName: "
	large, largeConn := enter()
	for range 3 {
		if err := send(large, largeConn, start+strings.Repeat("x", strangersBytes-1<<20)); err != nil {
			t.Fatalf("a header beside no other: %v", err)
		}
		if err := send(large, largeConn, "\r\n\r\n"); err != nil {
			t.Fatalf("its end: %v", err)
		}
		largeConn.Proven()
		largeConn.Answered()
		if held := a.bytes.Load(); held != 0 {
			t.Fatalf("after the token: got %d bytes, want none", held)
		}
	}
	if err := send(large, largeConn, start+strings.Repeat("x", strangersBytes)); err == nil {
		t.Fatal("a header of more than all may have: got no error")
	}
	other, otherConn := enter()
	if err := send(other, otherConn, start); err != nil {
		t.Errorf("a short header meanwhile: %v", err)
	}
	_, _ = largeConn.Close(), otherConn.Close()
	if held := a.bytes.Load(); held != 0 {
		t.Errorf("at the end: got %d bytes, want none", held)
	}
}
