package bench

import (
	"context"
	"fmt"

	"github.com/crosstown-mq/crosstown/internal/wake"
)

func (r *run) wait(ctx context.Context, l *links) error {
	for _, c := range l.receivers {
		if err := c.link.IssueCredit(r.o.Credit); err != nil {
			return fmt.Errorf("cannot issue credit to %s: %w", c.entity, err)
		}
	}
	_, duration := r.o.limits()
	wake.After(ctx, duration)
	return context.Cause(ctx)
}
