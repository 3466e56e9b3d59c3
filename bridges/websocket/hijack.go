package websocket

import (
	"bufio"
	"net"
	"net/http"
)

// hijacker gives an upgrader a buffer to read through, and keeps it: the
// upgrader's connection does not tell what is in its own.
type hijacker struct {
	http.ResponseWriter
	size   int // of the buffer in bytes, above 256: the upgrader takes no smaller one
	buffer *bufio.Reader
}

// Hijack takes over the connection, as http.Hijacker says. What the client has
// sent too early stays where it is, for the upgrader to refuse.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err == nil && rw.Reader.Buffered() == 0 {
		h.buffer = bufio.NewReaderSize(nc, h.size)
		rw.Reader = h.buffer
	}
	return nc, rw, err
}
