package https

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
)

// condition is what the answer to an HTTP client says of a core.Code, besides its status.
type condition struct {
	subCode int    // the finer number that SDKs look for in the text; 0: none
	text    string // when the refusal carries none
}

// conditions has a row for every code. 40301 means an operation that the entity does not allow.
var conditions = map[core.Code]condition{
	core.NotFound:        {0, "The messaging entity could not be found."},
	core.AlreadyExists:   {40900, "Conflict. An entity of this name exists already."},
	core.Conflict:        {40901, "Another conflicting operation is in progress. Try again."},
	core.EntityDisabled:  {40301, "The messaging entity is disabled for this operation."},
	core.Unauthorized:    {0, "Unauthorized access. The token does not allow this operation."},
	core.NotAllowed:      {40000, "The operation does not fit the entity or the message."},
	core.InvalidArgument: {40000, "An argument of the request is not valid."},
	core.OutOfRange:      {40000, "An argument of the request is out of its range."},
	core.TooLarge:        {0, "The message is larger than the entity allows."},
	core.QuotaExceeded:   {0, "A quota of the entity or of the gateway is exhausted."},
	core.LockLost:        {0, "The lock supplied is invalid: it has expired, or the message was settled already."},
	core.MessageNotFound: {0, "No such message could be found."},
	core.SessionLockLost: {0, "The session lock has expired. Accept the session again."},
	core.SessionLocked:   {0, "The requested session cannot be accepted. It may be locked by another receiver."},
	core.Timeout:         {0, "The operation did not finish in time."},
	core.Busy:            {50001, "The store cannot serve this now. Try again."},
	core.NotImplemented:  {0, "The operation is not offered by this gateway."},
	core.Internal:        {0, "An internal error happened. The gateway's log knows more under the tracking id."},
}

// retryAfter is for how many seconds a client should leave the gateway alone that is busy: as long as the SDKs do.
const retryAfter = "10"

// statusError is a refusal of the bridge's own, whose status no Code has.
type statusError struct {
	status int
	text   string
	allow  string // methods, for 405
}

func (e *statusError) Error() string { return e.text }

// isTooSlow reports whether err is that a request's body did not come in time,
// after which net/http holds the client to be gone.
func isTooSlow(err error) bool {
	own, ok := errors.AsType[*statusError](err)
	return ok && own.status == http.StatusRequestTimeout
}

// refuse answers a request with what err says, in the one form that both the
// runtime and the admin API use. The client learns the text of a
// core.Refusal and nothing of other errors; those go to the log.
func (b *Bridge) refuse(w http.ResponseWriter, r *http.Request, err error) {
	tracking := refusals.NewTracking()
	status, text := 0, ""
	if own, ok := errors.AsType[*statusError](err); ok {
		status, text = own.status, own.text
		if own.allow != "" {
			w.Header().Set("Allow", own.allow) // RFC 9110 §15.5.6
		}
	} else {
		code := core.CodeOf(err)
		c := conditions[code]
		status, text = refusals.HTTPStatus(code), core.TextOf(err)
		if text == "" {
			text = c.text
		}
		if c.subCode != 0 && !strings.HasPrefix(text, "SubCode=") {
			text = fmt.Sprintf("SubCode=%d. %s", c.subCode, text)
		}
	}
	b.told(r, "", tracking, err, "status", status)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", sharedAccessSignature) // RFC 9110 §15.5.2
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter) // RFC 9110 §10.2.3
	}
	body := appendNumber([]byte(`<Error>`), "Code", int64(status))
	body = appendElement(body, "Detail", fmt.Sprintf("%s TrackingId:%s, SystemTracker:%s%s, Timestamp:%s",
		strings.TrimRight(text, " "), tracking, r.Host, r.URL.Path, time.Now().UTC().Format("2006-01-02T15:04:05")))
	body = append(body, `</Error>`...)
	w.Header().Set("Content-Type", "application/xml; charset=utf-8")
	_ = respond(w, status, body)
}

// told writes to the log what the sender of a request is told, under the same id.
func (b *Bridge) told(r *http.Request, entity, tracking string, err error, more ...any) {
	t := refusals.Told{Tracking: tracking, Code: core.CodeOf(err), Entity: entity, Err: err, Stranger: !isProven(r)}
	if _, own := errors.AsType[*statusError](err); own {
		t.Code = core.InvalidArgument
	}
	b.refusals.Write(b.log, t, append([]any{"peer", r.RemoteAddr, "method", r.Method, "path", refusals.Cut(r.URL.Path)}, more...)...)
}

// methodNotAllowed tells which methods the resource knows.
func methodNotAllowed(r *http.Request, allowed string) error {
	return &statusError{http.StatusMethodNotAllowed, fmt.Sprintf("%s is not allowed here: use %s.", r.Method, allowed), allowed}
}
