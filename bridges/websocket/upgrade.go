package websocket

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// upgrader turns HTTP requests into WebSocket connections of one of a few
// sub-protocols.
type upgrader struct {
	origins   []string // patterns, lower-cased
	protocols []string // in the order of preference
	upgrader  websocket.Upgrader
}

// upgradeTimeout bounds how long a client takes to read the handshake's answer.
const upgradeTimeout = 10 * time.Second

// newUpgrader returns an upgrader that lets in pages of these origins, see
// CheckOrigin, besides those of the host itself, and speaks these sub-protocols.
// Write buffers of bufferSize bytes are taken from a pool while a message is
// written; 0 means 4096. Messages are not compressed.
func newUpgrader(origins []string, bufferSize int, protocols ...string) *upgrader {
	u := &upgrader{protocols: protocols}
	for _, o := range origins {
		u.origins = append(u.origins, strings.ToLower(o))
	}
	u.upgrader = websocket.Upgrader{
		HandshakeTimeout: upgradeTimeout,
		WriteBufferSize:  bufferSize,
		WriteBufferPool:  &sync.Pool{},
		Subprotocols:     protocols,
		CheckOrigin:      u.allows,
		Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
			http.Error(w, reason.Error(), status)
		},
	}
	return u
}

// upgrade answers the request. It returns a connection without limit and
// deadlines, or an error if it has refused.
func (u *upgrader) upgrade(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	switch {
	case !websocket.IsWebSocketUpgrade(r):
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		return nil, u.refuse(w, http.StatusUpgradeRequired, "This address takes WebSocket connections.")
	case !u.allows(r):
		return nil, u.refuse(w, http.StatusForbidden, fmt.Sprintf("Pages of %s may not connect: see the setting websocket.origins.", r.Header.Get("Origin")))
	case !u.speaks(r):
		return nil, u.refuse(w, http.StatusBadRequest, "Sec-WebSocket-Protocol must offer one of: "+strings.Join(u.protocols, ", ")+".")
	}
	return u.upgrader.Upgrade(w, r, nil)
}

func (u *upgrader) refuse(w http.ResponseWriter, status int, text string) error {
	http.Error(w, text, status)
	return errors.New(text)
}

func (u *upgrader) speaks(r *http.Request) bool {
	return slices.ContainsFunc(websocket.Subprotocols(r), func(offered string) bool { return slices.Contains(u.protocols, offered) })
}

// allows reports whether the page that asks may: one of the host itself, or of
// an origin in the list. What is no page names no origin.
func (u *upgrader) allows(r *http.Request) bool {
	origin := strings.ToLower(r.Header.Get("Origin"))
	if origin == "" {
		return true
	}
	if at, err := url.Parse(origin); err == nil && at.Host != "" && strings.EqualFold(at.Host, r.Host) {
		return true
	}
	for _, pattern := range u.origins {
		if ok, _ := path.Match(pattern, origin); ok || pattern == "*" {
			return true
		}
	}
	return false
}

// CheckOrigin reports what is wrong with a pattern for origins: "*" for all, or
// an origin, SCHEME://HOST or SCHEME://HOST:PORT, in which "*" stands for any
// characters, as in https://*.example.com.
func CheckOrigin(pattern string) error {
	if pattern == "*" || pattern == "null" {
		return nil
	}
	scheme, host, ok := strings.Cut(pattern, "://")
	if _, err := path.Match(pattern, ""); err != nil || !ok || scheme == "" || host == "" || strings.Contains(host, "/") {
		return fmt.Errorf("%q is no origin: give SCHEME://HOST, with :PORT unless it is the scheme's own, or *", pattern)
	}
	return nil
}
