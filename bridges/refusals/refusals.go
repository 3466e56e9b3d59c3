// Package refusals logs the errors that clients get, each with the tracking id that the client
// gets, and limits the number of lines.
package refusals

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Limits of the number of lines.
const (
	ofKnown     = 50 // lines a second about clients with a proven identity
	ofStrangers = 2  // of all others
	ofOne       = 5  // of one connection
	burst       = 20 // the number of seconds whose lines may come at once
)

// Limits in characters of texts from peers.
const (
	maxEntity = 300
	maxText   = 600
)

// Log is the log of one bridge.
type Log struct{ known, strangers bucket }

// New makes a Log.
func New() *Log { return &Log{known: bucket{rate: ofKnown}, strangers: bucket{rate: ofStrangers}} }

// Share limits the lines that one connection may write to a Log.
type Share struct {
	of  *Log
	own bucket
}

// Share makes the share of a connection.
func (l *Log) Share() *Share { return &Share{of: l, own: bucket{rate: ofOne}} }

// Told is an error that a client gets.
type Told struct {
	Tracking string // the id in its text
	Code     core.Code
	Entity   string
	Err      error // including what the client may not know
	Stranger bool  // the client has no proven identity
}

// Write writes a line about an error of the connection's client, with further keys and values. See
// Log.Write.
func (s *Share) Write(log *slog.Logger, t Told, more ...any) { s.of.write(log, &s.own, t, more) }

// Write writes a line. Its level is error for a failure of the gateway, debug for a timeout of a
// client that waits for a session, and info otherwise. Lines above the limits are written at the
// level debug. The next line then contains their number.
func (l *Log) Write(log *slog.Logger, t Told, more ...any) { l.write(log, nil, t, more) }

func (l *Log) write(log *slog.Logger, own *bucket, t Told, more []any) {
	level, leftOut := slog.LevelInfo, 0
	switch {
	case errors.Is(t.Err, context.Canceled): // the client has gone, or the gateway stops
		level = slog.LevelDebug
	case t.Code == core.Internal:
		level = slog.LevelError
	case t.Code == core.Timeout || !log.Enabled(context.Background(), slog.LevelInfo):
		level = slog.LevelDebug
	default:
		of := &l.known
		if t.Stranger {
			of = &l.strangers
		}
		var ok bool
		if leftOut, ok = of.take(own, time.Now()); !ok {
			level = slog.LevelDebug
		}
	}
	if !log.Enabled(context.Background(), level) {
		return
	}
	attrs := make([]any, 0, 12+len(more))
	attrs = append(attrs, "tracking", t.Tracking, "code", string(t.Code))
	if t.Entity != "" {
		attrs = append(attrs, "entity", cut(t.Entity, maxEntity))
	}
	attrs = append(attrs, more...)
	if t.Err != nil {
		attrs = append(attrs, "err", cut(t.Err.Error(), maxText))
	}
	if leftOut > 0 {
		attrs = append(attrs, "left_out", leftOut)
	}
	text := "refused"
	if level == slog.LevelError {
		text = "failed"
	}
	log.Log(context.Background(), level, text, attrs...)
}

// Cut shortens a text that a peer may have made long, such as the path of a request.
func Cut(s string) string { return cut(s, maxEntity) }

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// bucket counts the lines that may be written: rate a second, and a burst of those that were not
// used.
type bucket struct {
	rate float64

	mu      sync.Mutex
	level   float64
	filled  time.Time // zero: it is full
	leftOut int
}

// take takes one line out of the bucket and out of own, if that is not nil; otherwise it counts the
// line as left out. It returns the number of lines left out since the last written one.
func (b *bucket) take(own *bucket, now time.Time) (leftOut int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if own != nil && !own.has(now) || !b.fill(now) {
		b.leftOut++
		return 0, false
	}
	if own != nil {
		own.spend()
	}
	b.level--
	leftOut, b.leftOut = b.leftOut, 0
	return leftOut, true
}

func (b *bucket) has(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fill(now)
}

func (b *bucket) spend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.level--
}

// fill adds what has accumulated since the last call, and reports whether a line may be written.
// b.mu is held.
func (b *bucket) fill(now time.Time) bool {
	most := b.rate * burst
	if b.filled.IsZero() {
		b.level = most
	} else {
		b.level = min(b.level+now.Sub(b.filled).Seconds()*b.rate, most)
	}
	b.filled = now
	return b.level >= 1
}

// NewID makes a random id for a connection.
func NewID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand
	return hex.EncodeToString(b[:])
}

// NewTracking makes a random tracking id, in the form of a UUID.
func NewTracking() string {
	var id core.LockToken
	_, _ = rand.Read(id[:])
	return id.String()
}

// HTTPStatus returns the HTTP status for a refusal with the code.
func HTTPStatus(c core.Code) int { return answers[c].status }

// Text returns the text for HTTP and WebSocket clients if the refusal has no text.
func Text(c core.Code) string { return answers[c].text }

// answers has a row for every code. To the SDKs, 403 without a SubCode means a quota.
var answers = map[core.Code]struct {
	status int
	text   string
}{
	core.NotFound:        {http.StatusNotFound, "The messaging entity could not be found."},
	core.AlreadyExists:   {http.StatusConflict, "An object with this name already exists."},
	core.Conflict:        {http.StatusConflict, "Another conflicting operation is in progress. Try again."},
	core.EntityDisabled:  {http.StatusForbidden, "The messaging entity is disabled for this operation."},
	core.Unauthorized:    {http.StatusUnauthorized, "Unauthorized access. The token does not allow this operation."},
	core.NotAllowed:      {http.StatusBadRequest, "The operation is not allowed for this entity or message."},
	core.InvalidArgument: {http.StatusBadRequest, "An argument of the request is not valid."},
	core.OutOfRange:      {http.StatusBadRequest, "An argument of the request is out of its range."},
	core.TooLarge:        {http.StatusForbidden, "The message is larger than the entity allows."},
	core.QuotaExceeded:   {http.StatusForbidden, "A quota of the entity or of the gateway is exhausted."},
	core.LockLost:        {http.StatusNotFound, "The lock supplied is invalid: it has expired, or the message was settled already."},
	core.MessageNotFound: {http.StatusNotFound, "The message could not be found."},
	core.SessionLockLost: {http.StatusGone, "The session lock has expired. Accept the session again."},
	core.SessionLocked:   {http.StatusConflict, "The requested session cannot be accepted. It may be locked by another receiver."},
	core.Timeout:         {http.StatusGatewayTimeout, "The operation did not finish in time."},
	core.Busy:            {http.StatusServiceUnavailable, "The message store cannot serve the operation now. Try again."},
	core.NotImplemented:  {http.StatusNotImplemented, "The operation is not supported by this gateway."},
	core.Internal:        {http.StatusInternalServerError, "An internal error occurred. The gateway's log has the details under the tracking id."},
}
