package bridges

import (
	"errors"
	"net/http"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

// ReadBody reads up to limit bytes of a request's body and counts them in memory. If the body
// arrives too slowly, the error is fair.ErrTooSlow.
func ReadBody(w http.ResponseWriter, r *http.Request, memory *fair.Share, limit int64) ([]byte, error) {
	if r.ContentLength == 0 {
		return []byte{}, nil
	}
	control := http.NewResponseController(w)
	body, err := memory.Gather(r.Context(), fair.Arrival{
		Reader: r.Body, Size: r.ContentLength, Limit: limit,
		Deadline: func(at time.Time) error {
			_ = control.SetReadDeadline(at) // ignore the error: writers of tests have no deadlines
			return nil
		},
	})
	switch {
	case err == nil:
		_ = control.SetReadDeadline(time.Time{}) // net/http would later take the expired deadline for a disconnect
		return body, nil
	case errors.Is(err, fair.ErrTooLarge):
		return nil, core.Refuse(core.TooLarge, "The request body exceeds the limit of %d bytes.", limit)
	case core.CodeOf(err) == core.Busy, core.CodeOf(err) == core.QuotaExceeded, errors.Is(err, fair.ErrTooSlow):
		return nil, err
	}
	return nil, core.Refuse(core.InvalidArgument, "The request body is incomplete.")
}
