package websocket

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/bridges/origins"
)

type upgrader struct{ websocket.Upgrader }

const upgradeTimeout = 10 * time.Second

// newUpgrader returns an upgrader that admits web pages of the listed origins (see origins.Check)
// and of the gateway's own host. Write buffers of bufferSize bytes, or 4096 for 0, are taken from a
// pool while a message is written. Messages are not compressed.
func newUpgrader(listed []string, bufferSize int, protocols ...string) *upgrader {
	return &upgrader{websocket.Upgrader{
		HandshakeTimeout: upgradeTimeout,
		WriteBufferSize:  bufferSize,
		WriteBufferPool:  &sync.Pool{},
		Subprotocols:     protocols,
		CheckOrigin:      origins.New(listed).Allows,
		Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
			http.Error(w, reason.Error(), status)
		},
	}}
}

// upgrade returns a connection without limits and deadlines. With an error, it has answered w.
func (u *upgrader) upgrade(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	switch {
	case !websocket.IsWebSocketUpgrade(r):
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		return nil, u.refuse(w, http.StatusUpgradeRequired, "This address accepts only WebSocket connections.")
	case !u.CheckOrigin(r):
		return nil, u.refuse(w, http.StatusForbidden, fmt.Sprintf("The origin %s may not connect: add it to the setting websocket.origins.", r.Header.Get("Origin")))
	case !slices.ContainsFunc(websocket.Subprotocols(r), func(offered string) bool { return slices.Contains(u.Subprotocols, offered) }):
		return nil, u.refuse(w, http.StatusBadRequest, "Sec-WebSocket-Protocol must offer one of: "+strings.Join(u.Subprotocols, ", ")+".")
	}
	return u.Upgrade(w, r, nil)
}

// accept upgrades a request for path. The connection ws reads from in, a buffer of readAhead bytes.
// enter returns why not to admit the connection. If accept then fails, it calls leave.
func (u *upgrader) accept(w http.ResponseWriter, r *http.Request, path string, readAhead int, enter func() (refusal string), leave func()) (ws *websocket.Conn, in *bufio.Reader, err error) {
	if !strings.EqualFold(strings.TrimSuffix(r.URL.Path, "/"), path) {
		http.NotFound(w, r)
		return nil, nil, fmt.Errorf("the path %.80q does not exist", r.URL.Path)
	}
	if text := enter(); text != "" {
		return nil, nil, u.refuse(w, http.StatusServiceUnavailable, text)
	}
	h := &hijacker{ResponseWriter: w, size: readAhead}
	if ws, err = u.upgrade(h, r); err != nil {
		leave()
	}
	return ws, h.buffer, err
}

func (u *upgrader) refuse(w http.ResponseWriter, status int, text string) error {
	http.Error(w, text, status)
	return errors.New(text)
}

// hijacker provides the buffer from which a WebSocket connection reads, because the connection does
// not show what its own buffer contains.
type hijacker struct {
	http.ResponseWriter
	size   int // in bytes; more than 256, because the upgrader does not use a smaller buffer
	buffer *bufio.Reader
}

// Hijack sets h.buffer unless rw has bytes of the client: the upgrader refuses such clients.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err == nil && rw.Reader.Buffered() == 0 {
		h.buffer = bufio.NewReaderSize(nc, h.size)
		rw.Reader = h.buffer
	}
	return nc, rw, err
}
