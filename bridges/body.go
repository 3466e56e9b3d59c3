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
	body, err := Gather(w, r, memory, fair.Arrival{Limit: limit})
	switch {
	case err == nil:
		return body, nil
	case errors.Is(err, fair.ErrTooLarge):
		return nil, core.Refuse(core.TooLarge, "The request body exceeds the limit of %d bytes.", limit)
	case core.CodeOf(err) == core.Busy, core.CodeOf(err) == core.QuotaExceeded, errors.Is(err, fair.ErrTooSlow):
		return nil, err
	}
	return nil, core.Refuse(core.InvalidArgument, "The request body is incomplete.")
}

// Gather reads a request's body as Share.Gather does. The deadline of the connection is that of the
// next part of the body, until the body has arrived.
func Gather(w http.ResponseWriter, r *http.Request, memory *fair.Share, a fair.Arrival) ([]byte, error) {
	control := http.NewResponseController(w)
	a.Reader, a.Size = r.Body, r.ContentLength
	a.Deadline = func(at time.Time) error {
		_ = control.SetReadDeadline(at) // ignore the error: writers of tests have no deadlines
		return nil
	}
	body, err := memory.Gather(r.Context(), a)
	if err == nil {
		_ = control.SetReadDeadline(time.Time{}) // net/http would later take the expired deadline for a disconnect
	}
	return body, err
}
