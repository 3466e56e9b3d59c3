package fair

import (
	"context"

	"github.com/crosstown-mq/crosstown/core/intercept"
)

// Intercept implements intercept.Interceptor. It refuses operations that take memory while there is
// too little. p is the pool of messages in progress.
func (p *Pool) Intercept(ctx context.Context, c *intercept.Call) {
	if from := refusedFrom(c); from <= p.gauge.Level() && (from == Full || p.Refuses(Of(c.ID))) {
		c.Fail(p.gauge.Refusal())
		return
	}
	c.Next(ctx)
}

// refusedFrom is the level from which a call is refused. A call that gives memory back is never refused.
func refusedFrom(c *intercept.Call) Level {
	switch c.Op {
	case intercept.Send, intercept.Schedule:
		return Tight
	case intercept.Manage:
		if !c.Deletes {
			return Tight
		}
	case intercept.Peek:
		return Full
	}
	return Full + 1
}
