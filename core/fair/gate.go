package fair

import (
	"context"

	"github.com/crosstown-mq/crosstown/core/intercept"
)

// While memory is short, Intercept refuses operations that need memory, but none that free memory.
// p is the pool of messages in progress.
func (p *Pool) Intercept(ctx context.Context, c *intercept.Call) {
	refused := false
	switch level := p.gauge.Level(); c.Op {
	case intercept.Send, intercept.Schedule:
		refused = level >= Tight && p.Refuses(Of(c.ID))
	case intercept.Create: // an entity's memory is not freed soon
		refused = level >= Tight
	case intercept.Peek:
		refused = level >= Full
	}
	if refused {
		c.Fail(p.gauge.Refusal())
		return
	}
	c.Next(ctx)
}

// Shortage returns an error while memory is short. Calls that add lasting data ask it first.
func (p *Pool) Shortage() error {
	if p == nil || p.gauge.Level() < Tight {
		return nil
	}
	return p.gauge.Refusal()
}
