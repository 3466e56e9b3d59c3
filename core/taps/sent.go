package taps

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/intercept"
)

// sending is a group of messages of a transaction.
type sending struct {
	entity string
	group  []*core.Message
}

// Intercept implements intercept.Interceptor: it shows what was sent. The messages of a transaction are
// shown once that is committed.
func (s *Taps) Intercept(ctx context.Context, c *intercept.Call) {
	c.Next(ctx)
	if s.open.Load() == 0 || c.Err != nil {
		return
	}
	switch {
	case c.Op == intercept.Commit:
		all, _ := c.Link.Kept(s).([]sending)
		for _, each := range all {
			s.sent(each.entity, each.group, nil)
		}
	case c.InTransaction() && len(c.Groups) > 0:
		all, _ := c.Link.Kept(s).([]sending)
		c.Link.Keep(s, append(all, sending{core.FoldName(c.Address.Entity), c.Groups[0]}))
	case c.Op == intercept.Send:
		for i, answer := range c.Appended {
			if answer.Err == nil {
				s.sent(core.FoldName(c.Address.Entity), c.Groups[i], answer.Numbers)
			}
		}
	}
}
