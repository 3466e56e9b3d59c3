package forward

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

// publishDue publishes scheduled messages of a topic that are due, and returns how many have left
// the topic's own queue.
func (pf *partitionForwarder) publishDue(ctx context.Context, e Entity, p core.Partition, ds []core.Delivery) (moved int) {
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	answers := e.PublishDue(call, p, ds)
	for i, a := range answers {
		switch {
		case a.Err == nil:
			moved++
		case core.CodeOf(a.Err) == core.LockLost: // another gateway has published it
		default:
			pf.holdBack(&ds[i], destination{})
		}
	}
	return moved
}
