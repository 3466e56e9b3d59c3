package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

// methodError refuses a request for its method, with the code NotAllowed.
type methodError struct {
	error
	methods string // that there are, as the header Allow lists them
}

func (e *methodError) Unwrap() error { return e.error }

// wrongMethod refuses a request whose method is none of these.
func wrongMethod(methods string) error {
	return &methodError{core.Refuse(core.NotAllowed, "The method is not allowed here: use %s.", methods), methods}
}

// refuse answers with an error. The client gets the text of a refusal, and of other errors only the id
// under which the log has them.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	tracking, code := refusals.NewTracking(), core.CodeOf(err)
	told := refusals.Told{Tracking: tracking, Code: code, Err: err, Stranger: code == core.Unauthorized}
	a.refusals.Write(a.Logger, told, "peer", r.RemoteAddr, "method", r.Method, "path", refusals.Cut(r.URL.Path))
	status, text := refusals.HTTPStatus(code), cmp.Or(core.TextOf(err), string(code))
	if method, ok := errors.AsType[*methodError](err); ok {
		status = http.StatusMethodNotAllowed
		w.Header().Set("Allow", method.methods) // RFC 9110 §15.5.6
	}
	switch code {
	case core.Unauthorized:
		w.Header().Set("WWW-Authenticate", "SharedAccessSignature") // RFC 9110 §15.5.2
	case core.Internal:
		text = fmt.Sprintf("Internal error: the gateway's log has it under the tracking id %s.", tracking)
	}
	write(w, status, api.Error{Error: text, Tracking: tracking})
}

// textOf is what clients are told of an error: its text, or else its code.
func textOf(err error) string { return cmp.Or(core.TextOf(err), string(core.CodeOf(err))) }
