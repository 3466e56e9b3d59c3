package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/namespaces"
)

// adminAPI is what all parts of the administration API share: it authenticates a request and
// writes the answer as JSON.
type adminAPI struct {
	directory *namespaces.Directory
	log       *slog.Logger
	refusals  *refusals.Log
}

// identity proves who sent a request: by a token or, to look only, by a policy's
// name and key as user and password, because monitors cannot sign tokens.
func (d *adminAPI) identity(r *http.Request) (core.Identity, error) {
	grant, err := d.grant(r)
	if err != nil {
		return nil, err
	}
	bridges.ProveIn(r.Context())
	return core.Identity{grant}, nil
}

func (d *adminAPI) grant(r *http.Request) (core.Grant, error) {
	if policy, key, ok := r.BasicAuth(); ok && r.Method == http.MethodGet {
		return d.directory.Key(r.Context(), bridges.Hosts(r), policy, key)
	}
	token := r.Header.Get("Authorization")
	if token == "" {
		return core.Grant{}, core.Refuse(core.Unauthorized, "MissingToken: The request has no Authorization header.")
	}
	return d.directory.Token(r.Context(), bridges.Hosts(r), token, "")
}

// authorize refuses those who may not Manage the gateway's own namespace.
func (d *adminAPI) authorize(r *http.Request) error {
	id, err := d.identity(r)
	if err != nil {
		return err
	}
	now := time.Now()
	if d.directory.Operator(id, now) {
		return nil
	}
	if err := id.Check(core.Manage, "", now); err != nil {
		return err
	}
	return core.Refuse(core.Unauthorized, "Unauthorized access. 'Manage' on the gateway's own namespace is required; this is the namespace '%s'.", id.Namespace())
}

// reply writes an answer, or why there is none.
func (d *adminAPI) reply(w http.ResponseWriter, r *http.Request, answer any, err error) {
	d.replyWith(w, r, http.StatusOK, answer, err)
}

// replyWith is reply with another status than 200 where all is well.
func (d *adminAPI) replyWith(w http.ResponseWriter, r *http.Request, status int, answer any, err error) {
	if err != nil {
		tracking, code := refusals.NewTracking(), core.CodeOf(err)
		text := cmp.Or(core.TextOf(err), string(code))
		told := refusals.Told{Tracking: tracking, Code: code, Err: err, Stranger: code == core.Unauthorized}
		d.refusals.Write(d.log, told, "peer", r.RemoteAddr, "method", r.Method, "path", refusals.Cut(r.URL.Path))
		status = statuses[code]
		switch code {
		case core.Unauthorized:
			w.Header().Set("WWW-Authenticate", "SharedAccessSignature") // RFC 9110 §15.5.2
		case core.NotAllowed:
			w.Header().Set("Allow", methodsOf(err)) // RFC 9110 §15.5.6
		case core.Internal:
			text = "It could not be done: the gateway's log says why."
		}
		answer = map[string]string{"error": text, "tracking": tracking}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // nobody may be there to read it
}

// statuses has the HTTP status of every code.
var statuses = map[core.Code]int{
	core.Unauthorized:    http.StatusUnauthorized,
	core.NotFound:        http.StatusNotFound,
	core.MessageNotFound: http.StatusNotFound,
	core.LockLost:        http.StatusNotFound,
	core.NotAllowed:      http.StatusMethodNotAllowed,
	core.AlreadyExists:   http.StatusConflict,
	core.Conflict:        http.StatusConflict,
	core.SessionLocked:   http.StatusConflict,
	core.SessionLockLost: http.StatusGone,
	core.EntityDisabled:  http.StatusForbidden,
	core.QuotaExceeded:   http.StatusForbidden,
	core.TooLarge:        http.StatusRequestEntityTooLarge,
	core.InvalidArgument: http.StatusBadRequest,
	core.OutOfRange:      http.StatusBadRequest,
	core.NotImplemented:  http.StatusNotImplemented,
	core.Busy:            http.StatusServiceUnavailable,
	core.Timeout:         http.StatusServiceUnavailable,
	core.Internal:        http.StatusInternalServerError,
}

// methodError refuses a request for its method, with the code NotAllowed.
type methodError struct {
	error
	methods string // that there are, as the header Allow has them; there may be none
}

func (e *methodError) Unwrap() error { return e.error }

// useMethods refuses a request whose method is none of these.
func useMethods(methods, format string, args ...any) error {
	return &methodError{core.Refuse(core.NotAllowed, format, args...), methods}
}

// methodsOf are the methods that an error names, "" if it names none.
func methodsOf(err error) string {
	if e, ok := errors.AsType[*methodError](err); ok {
		return e.methods
	}
	return ""
}
