package declaration

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// pageSize is how many entities or rules are asked for at a time.
const pageSize = 1000

// Described reads all queues, topics, subscriptions and rules of a namespace, each subscription behind
// its topic.
func Described(ctx context.Context, admin Admin, id core.Identity) (all []config.Described, err error) {
	queues, err := list(ctx, admin, id, core.Listing{Kind: core.Queue})
	if err != nil {
		return nil, err
	}
	topics, err := list(ctx, admin, id, core.Listing{Kind: core.Topic})
	if err != nil {
		return nil, err
	}
	for _, e := range append(queues, topics...) {
		all = append(all, config.Described{Entity: e})
		if e.Kind != core.Topic {
			continue
		}
		subscriptions, err := list(ctx, admin, id, core.Listing{Kind: core.Subscription, Topic: e.Name})
		if err != nil {
			return nil, err
		}
		for _, s := range subscriptions {
			rules, err := allRules(ctx, admin, id, s.Name)
			if err != nil {
				return nil, err
			}
			all = append(all, config.Described{Entity: s, Rules: rules})
		}
	}
	return all, nil
}

func list(ctx context.Context, admin Admin, id core.Identity, l core.Listing) (all []core.Entity, err error) {
	for {
		page, _, err := admin.Entities(ctx, id, l, len(all), pageSize)
		if all = append(all, page...); err != nil || len(page) == 0 {
			return all, err
		}
	}
}
