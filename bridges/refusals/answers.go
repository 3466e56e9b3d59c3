package refusals

import (
	"net/http"

	"github.com/crosstown-mq/crosstown/core"
)

// HTTPStatus is the status with which an HTTP client is refused.
func HTTPStatus(c core.Code) int { return answers[c].status }

// Text is what a client of HTTP or of WebSocket reads where the refusal has no words of its own.
func Text(c core.Code) string { return answers[c].text }

// answers has a row for every code. To the SDKs, 403 without a SubCode means a quota.
var answers = map[core.Code]struct {
	status int
	text   string
}{
	core.NotFound:        {http.StatusNotFound, "The messaging entity could not be found."},
	core.AlreadyExists:   {http.StatusConflict, "Something of this name exists already."},
	core.Conflict:        {http.StatusConflict, "Another conflicting operation is in progress. Try again."},
	core.EntityDisabled:  {http.StatusForbidden, "The messaging entity is disabled for this operation."},
	core.Unauthorized:    {http.StatusUnauthorized, "Unauthorized access. The token does not allow this operation."},
	core.NotAllowed:      {http.StatusBadRequest, "The operation does not fit the entity or the message."},
	core.InvalidArgument: {http.StatusBadRequest, "An argument of the request is not valid."},
	core.OutOfRange:      {http.StatusBadRequest, "An argument of the request is out of its range."},
	core.TooLarge:        {http.StatusForbidden, "The message is larger than the entity allows."},
	core.QuotaExceeded:   {http.StatusForbidden, "A quota of the entity or of the gateway is exhausted."},
	core.LockLost:        {http.StatusNotFound, "The lock supplied is invalid: it has expired, or the message was settled already."},
	core.MessageNotFound: {http.StatusNotFound, "No such message could be found."},
	core.SessionLockLost: {http.StatusGone, "The session lock has expired. Accept the session again."},
	core.SessionLocked:   {http.StatusConflict, "The requested session cannot be accepted. It may be locked by another receiver."},
	core.Timeout:         {http.StatusGatewayTimeout, "The operation did not finish in time."},
	core.Busy:            {http.StatusServiceUnavailable, "The store cannot serve this now. Try again."},
	core.NotImplemented:  {http.StatusNotImplemented, "The operation is not offered by this gateway."},
	core.Internal:        {http.StatusInternalServerError, "An internal error happened. The gateway's log knows more under the tracking id."},
}
