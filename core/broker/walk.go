package broker

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

// listPage is how many entities are read at a time.
const listPage = 100

// walk visits all queues, topics and subscriptions of the namespace. visit reports whether it has
// deleted the entity; the subscriptions of a deleted topic are skipped.
func (b *Broker) walk(ctx context.Context, visit func(*core.Entity) (gone bool)) error {
	if err := b.walkListing(ctx, core.Listing{Kind: core.Queue}, visit); err != nil {
		return err
	}
	var inner error
	err := b.walkListing(ctx, core.Listing{Kind: core.Topic}, func(topic *core.Entity) bool {
		if visit(topic) {
			return true
		}
		if inner == nil {
			inner = b.walkListing(ctx, core.Listing{Kind: core.Subscription, Topic: topic.Name}, visit)
		}
		return false
	})
	if err != nil {
		return err
	}
	return inner
}

func (b *Broker) walkListing(ctx context.Context, l core.Listing, visit func(*core.Entity) (gone bool)) error {
	for skip := 0; ; {
		page, err := b.store.Entities(ctx, b.namespace, l, skip, listPage)
		if err != nil {
			return err
		}
		for i := range page {
			if !visit(&page[i]) {
				skip++
			}
		}
		if len(page) < listPage {
			return nil
		}
	}
}
