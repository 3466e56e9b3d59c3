package admin

import (
	"net/http"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

func (a *API) ownClock(c *call) (any, error) { return a.clock(c, c.id.Namespace()) }

// clock shows or moves the time of a namespace. It answers after everything due by the new time.
func (a *API) clock(c *call, name string) (any, error) {
	switch c.Method {
	case http.MethodGet:
	case http.MethodPut:
		move, err := moveOf(c)
		if err != nil {
			return nil, err
		}
		if err := a.Directory.MoveClock(c.Context(), name, move); err != nil {
			return nil, err
		}
	default:
		return nil, wrongMethod("GET, PUT")
	}
	clock, now, err := a.Directory.Clock(c.Context(), name)
	if err != nil {
		return nil, err
	}
	at := clock.At(now)
	return api.Clock{Namespace: name, Now: at, Frozen: !clock.Frozen.IsZero(), Ahead: at.Sub(now).Round(time.Millisecond).String()}, nil
}

func moveOf(c *call) (func(core.VirtualClock, time.Time) (core.VirtualClock, error), error) {
	var request api.ClockRequest
	if err := c.read(&request, `{"freeze": true}, {"advance": "5m"}, {"set": "2030-01-01T00:00:00Z"} or {"resume": true}`); err != nil {
		return nil, err
	}
	var by time.Duration
	switch {
	case request == api.ClockRequest{}:
		return nil, core.Refuse(core.InvalidArgument, "The body must have at least one of 'freeze', 'resume', 'advance' and 'set'.")
	case request.Freeze && request.Resume:
		return nil, core.Refuse(core.InvalidArgument, "Use 'freeze' or 'resume', not both.")
	case request.Advance != "" && request.Set != nil:
		return nil, core.Refuse(core.InvalidArgument, "Use 'advance' or 'set', not both.")
	case request.Advance != "":
		var err error
		if by, err = core.ParseAnyDuration(request.Advance); err != nil {
			return nil, core.Refuse(core.InvalidArgument, "'advance' is %.40q: it must be a duration such as 90s, 5m, 36h, PT5M or P14D.", request.Advance)
		}
	}
	return func(clock core.VirtualClock, now time.Time) (core.VirtualClock, error) {
		switch {
		case request.Freeze:
			clock = clock.Freeze(now)
		case request.Resume:
			clock = clock.Resume(now)
		}
		if request.Set != nil {
			return clock.Set(now, *request.Set)
		}
		return clock.Advance(now, by)
	}, nil
}
