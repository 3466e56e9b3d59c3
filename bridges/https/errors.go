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

// subCodes are the numbers that SDKs look for in the text of a refusal; 40301 is a disabled entity.
var subCodes = map[core.Code]int{
	core.AlreadyExists:   40900,
	core.Conflict:        40901,
	core.EntityDisabled:  40301,
	core.NotAllowed:      40000,
	core.InvalidArgument: 40000,
	core.OutOfRange:      40000,
	core.Busy:            50001,
}

func textOf(err error) string {
	text := core.TextOf(err)
	switch code := core.CodeOf(err); {
	case text != "":
		return text
	case code == core.AlreadyExists:
		return "Conflict. An entity of this name exists already."
	default:
		return refusals.Text(code)
	}
}

// retryAfter is the number of seconds after which SDKs retry when the gateway is busy.
const retryAfter = "10"

type statusError struct {
	status int
	text   string
	allow  string
}

func (e *statusError) Error() string { return e.text }

// isTooSlow reports whether a request's body did not arrive in time. In that case net/http cancels
// the request's context, as for a client that disconnected.
func isTooSlow(err error) bool {
	own, ok := errors.AsType[*statusError](err)
	return ok && own.status == http.StatusRequestTimeout
}

// refuse answers a request with err, in the form that the runtime API and the admin API share. The
// client gets the text of a core.Refusal; the details of other errors are only logged.
func (b *Bridge) refuse(w http.ResponseWriter, r *http.Request, err error) {
	tracking := refusals.NewTracking()
	status, text := 0, ""
	if own, ok := errors.AsType[*statusError](err); ok {
		status, text = own.status, own.text
		if own.allow != "" {
			w.Header().Set("Allow", own.allow)
		}
	} else {
		code := core.CodeOf(err)
		status, text = refusals.HTTPStatus(code), textOf(err)
		if sub := subCodes[code]; sub != 0 && !strings.HasPrefix(text, "SubCode=") {
			text = fmt.Sprintf("SubCode=%d. %s", sub, text)
		}
	}
	b.told(r, "", tracking, err, "status", status)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", sharedAccessSignature)
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	body := appendNumber([]byte(`<Error>`), "Code", int64(status))
	body = appendElement(body, "Detail", fmt.Sprintf("%s TrackingId:%s, SystemTracker:%s%s, Timestamp:%s",
		strings.TrimRight(text, " "), tracking, r.Host, r.URL.Path, time.Now().UTC().Format("2006-01-02T15:04:05")))
	body = append(body, `</Error>`...)
	w.Header().Set("Content-Type", "application/xml; charset=utf-8")
	_ = respond(w, status, body)
}

func (b *Bridge) told(r *http.Request, entity, tracking string, err error, more ...any) {
	t := refusals.Told{Tracking: tracking, Code: core.CodeOf(err), Entity: entity, Err: err, Stranger: !isProven(r)}
	if _, own := errors.AsType[*statusError](err); own {
		t.Code = core.InvalidArgument
	}
	b.refusals.Write(b.log, t, append([]any{"peer", r.RemoteAddr, "method", r.Method, "path", refusals.Cut(r.URL.Path)}, more...)...)
}

func methodNotAllowed(r *http.Request, allowed string) error {
	return &statusError{http.StatusMethodNotAllowed, fmt.Sprintf("%s is not allowed at this address: use %s.", r.Method, allowed), allowed}
}
