package refusals

import (
	"net/http"

	"github.com/crosstown-mq/crosstown/core"
)

// HTTPStatus is the status with which an HTTP client is refused.
func HTTPStatus(c core.Code) int { return statuses[c] }

// statuses has a status for every code. To the SDKs, 403 without a SubCode means a quota.
var statuses = map[core.Code]int{
	core.NotFound:        http.StatusNotFound,
	core.AlreadyExists:   http.StatusConflict,
	core.Conflict:        http.StatusConflict,
	core.EntityDisabled:  http.StatusForbidden,
	core.Unauthorized:    http.StatusUnauthorized,
	core.NotAllowed:      http.StatusBadRequest,
	core.InvalidArgument: http.StatusBadRequest,
	core.OutOfRange:      http.StatusBadRequest,
	core.TooLarge:        http.StatusForbidden,
	core.QuotaExceeded:   http.StatusForbidden,
	core.LockLost:        http.StatusNotFound,
	core.MessageNotFound: http.StatusNotFound,
	core.SessionLockLost: http.StatusGone,
	core.SessionLocked:   http.StatusConflict,
	core.Timeout:         http.StatusGatewayTimeout,
	core.Busy:            http.StatusServiceUnavailable,
	core.NotImplemented:  http.StatusNotImplemented,
	core.Internal:        http.StatusInternalServerError,
}
