// Package refusals logs the errors that clients get, with their tracking ids, and limits the number
// of log lines.
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

	"golang.org/x/time/rate"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

const (
	ofKnown     = 50
	ofStrangers = 2
	ofOne       = 5
	burst       = 20 // the unused log lines of this number of seconds accumulate
)

// Limits in bytes for a peer's texts in the log.
const (
	maxEntity = 300
	maxText   = 600
)

type Log struct{ known, strangers bucket }

func New() *Log {
	return &Log{known: bucket{lines: newLimiter(ofKnown)}, strangers: bucket{lines: newLimiter(ofStrangers)}}
}

type Share struct {
	of  *Log
	own *rate.Limiter
}

func (l *Log) Share() *Share { return &Share{of: l, own: newLimiter(ofOne)} }

type Told struct {
	Tracking string
	Code     core.Code
	Entity   string
	Err      error // may contain details that the client must not learn
	Stranger bool
}

func (s *Share) Write(log *slog.Logger, t Told, more ...any) { s.of.write(log, s.own, t, more) }

// Write logs internal errors at level error, time-outs and cancelled calls at level debug, and all
// other refusals at level info. Refusals beyond the limits get level debug; the next line at level
// info has their number as left_out.
func (l *Log) Write(log *slog.Logger, t Told, more ...any) { l.write(log, nil, t, more) }

func (l *Log) write(log *slog.Logger, own *rate.Limiter, t Told, more []any) {
	level, leftOut := slog.LevelInfo, 0
	switch {
	case errors.Is(t.Err, context.Canceled): // the client has disconnected, or the gateway stops
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

func Cut(s string) string { return cut(s, maxEntity) }

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// newLimiter allows perSecond lines a second. Unused lines accumulate for burst seconds.
func newLimiter(perSecond int) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), perSecond*burst)
}

type bucket struct {
	mu      sync.Mutex
	lines   *rate.Limiter
	leftOut int
}

// take takes a line from b and, if own is not nil, from own. If either has none, it returns false
// and counts the line as left out. leftOut is the number of lines that were left out before.
func (b *bucket) take(own *rate.Limiter, now time.Time) (leftOut int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if own != nil && own.TokensAt(now) < 1 || !b.lines.AllowN(now, 1) {
		b.leftOut++
		return 0, false
	}
	if own != nil {
		own.AllowN(now, 1)
	}
	leftOut, b.leftOut = b.leftOut, 0
	return leftOut, true
}

func NewID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func NewTracking() string { return value.NewUUID().String() }

func HTTPStatus(c core.Code) int { return answers[c].status }

func Text(c core.Code) string { return answers[c].text }

// answers has an entry for every code. To SDKs, 403 without a SubCode means an exceeded quota.
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
