package state

import (
	"context"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
)

// topic is what the catalogue knows of a topic besides its description.
type topic struct {
	key           entityKey
	subscriptions sortedNames
	version       int64
}

// Topic returns a topic with its subscriptions, or NotFound.
func (c *catalogue) Topic(_ context.Context, namespace, name string) (core.TopicView, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, _ := c.find(keyOf(namespace, name))
	t := c.topics[e.ID]
	if t == nil {
		return core.TopicView{}, fmt.Errorf("topic %s/%s: %w", namespace, name, core.NotFound)
	}
	view := core.TopicView{Entity: cloneEntity(e), Subscriptions: c.list(namespace, t.subscriptions), Version: t.version}
	for i := range view.Subscriptions {
		view.Subscriptions[i].Rules = c.rules[view.Subscriptions[i].ID].page(0, allRules)
	}
	return view, nil
}

// subscribe has the topic's partitions begin a new version, with the
// subscription e. c.mu is held.
func (c *catalogue) subscribe(t *topic, e *core.Entity) {
	for i, p := range c.partitions[e.TopicID] {
		p.subscribe(e.Ref(uint16(i), core.Main), t.version)
	}
}

// unsubscribe is the reverse of subscribe.
func (c *catalogue) unsubscribe(t *topic, e *core.Entity) {
	for i, p := range c.partitions[e.TopicID] {
		p.unsubscribe(e.Ref(uint16(i), core.Main), t.version)
	}
}
