package crosstowntest

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

// Entity is a queue, topic or subscription with which a namespace begins.
type Entity struct {
	kind     core.Kind
	name     string
	settings core.Settings
	rules    []core.Rule
}

// Queue describes a queue with Service Bus' default settings, which the changes may alter:
//
//	crosstowntest.Queue("orders", func(s *core.Settings) { s.MaxDeliveryCount = 3 })
func Queue(name string, changes ...func(*core.Settings)) Entity {
	return described(core.Queue, name, changes)
}

// Topic describes a topic.
func Topic(name string, changes ...func(*core.Settings)) Entity {
	return described(core.Topic, name, changes)
}

// Subscription describes a subscription of a topic, which must be listed before it. The
// subscription receives all messages unless Where limits them.
func Subscription(topic, name string, changes ...func(*core.Settings)) Entity {
	return described(core.Subscription, core.SubscriptionPath(topic, name), changes)
}

// Where limits a subscription to the messages that a SQL filter matches.
func (e Entity) Where(sql string) Entity {
	e.rules = []core.Rule{{Name: core.DefaultRuleName, Filter: core.Filter{Kind: core.SQLFilter, SQL: sql}}}
	return e
}

func described(k core.Kind, name string, changes []func(*core.Settings)) Entity {
	e := Entity{kind: k, name: name, settings: core.DefaultSettings(k)}
	for _, change := range changes {
		change(&e.settings)
	}
	return e
}

func (b *Bus) create(ctx context.Context, e *Entity) (err error) {
	var first *core.Rule
	if len(e.rules) > 0 {
		first = &e.rules[0]
	}
	_, err = b.gateway.broker.CreateEntity(ctx, b.identity, e.kind, e.name, e.settings, first)
	return err
}
