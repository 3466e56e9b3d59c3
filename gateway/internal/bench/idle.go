package bench

import (
	"context"
	"fmt"
	"time"
)

// wait keeps the connections open for the duration of the run, with credit at each receiver.
func (r *run) wait(ctx context.Context, l *links) error {
	for _, c := range l.receivers {
		if err := c.link.IssueCredit(r.o.Credit); err != nil {
			return fmt.Errorf("issue credit to %s: %w", c.entity, err)
		}
	}
	_, duration := r.o.limits()
	select {
	case <-time.After(duration):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
