package broker

import (
	"cmp"
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const maxSubscriptions = 10_000

// CreateEntity implements core.Admin. If first has no name, it gets the default rule's name.
func (b *Broker) CreateEntity(ctx context.Context, id core.Identity, kind core.Kind, name string, s core.Settings, first *core.Rule) (core.Entity, error) {
	if kind == core.Subscription {
		return b.createSubscription(ctx, id, name, s, first)
	}
	if err := authorize(id, name); err != nil {
		return core.Entity{}, err
	}
	if err := core.ValidateName(name); err != nil {
		return core.Entity{}, err
	}
	ent := core.Entity{Kind: kind, Name: name, Settings: s, Partitions: 1}
	if s.EnablePartitioning {
		ent.Partitions = b.options.PartitionCount
	}
	return b.create(ctx, id, ent)
}

func (b *Broker) createSubscription(ctx context.Context, id core.Identity, name string, s core.Settings, first *core.Rule) (core.Entity, error) {
	name, err := managed(id, name)
	if err != nil {
		return core.Entity{}, err
	}
	topicName, own, ok := core.SplitSubscription(name)
	if !ok {
		return core.Entity{}, core.Refuse(core.InvalidArgument, "'%s' cannot be the name of a subscription: write topic/Subscriptions/name.", name)
	}
	if err := core.ValidateSubscriptionName(own); err != nil {
		return core.Entity{}, err
	}
	rule := core.Rule{Name: core.DefaultRuleName, Filter: core.Filter{Kind: core.TrueFilter}}
	if first != nil {
		rule = *first
		rule.Name = cmp.Or(rule.Name, core.DefaultRuleName)
	}
	if _, err := b.checkRule(&rule); err != nil {
		return core.Entity{}, err
	}
	topic, err := b.stored(ctx, topicName)
	if err != nil {
		return core.Entity{}, err
	}
	if topic.Kind != core.Topic {
		return core.Entity{}, b.ns.NotFound(topicName)
	}
	subscriptions := core.Listing{Kind: core.Subscription, Topic: topic.Name}
	if err := b.roomFor(ctx, subscriptions, cmp.Or(b.options.Limits.MaxSubscriptions, maxSubscriptions), "The topic '%s' has %d subscriptions, which is the limit: delete one first.", topic.Name); err != nil {
		return core.Entity{}, err
	}
	if err := b.makeRoomForRule(ctx, topic.Name, rule.Filter.Kind, weightOf(&rule)); err != nil {
		return core.Entity{}, err
	}
	rule.CreatedAt = b.store.Now()
	made, err := b.create(ctx, id, core.Entity{
		Kind: core.Subscription, Name: core.SubscriptionPath(topic.Name, own), TopicID: topic.ID,
		Partitions: topic.Partitions, Settings: s, Rules: []core.Rule{rule},
	})
	if err != nil {
		return made, err
	}
	if err := b.store.TouchEntities(ctx, b.ns.ID, map[string]time.Time{topic.Name: made.CreatedAt}); err != nil {
		b.log.Warn("cannot record when a topic was last used; trying again when it is used next", "entity", topic.Name, "err", err)
	}
	return made, nil
}

// roomFor refuses to create an entity if the listing l already has limit entities. text formats the
// refusal, with two arguments: in (the name of the entities' parent) and limit.
func (b *Broker) roomFor(ctx context.Context, l core.Listing, limit int, text, in string) error {
	last, err := b.store.Entities(ctx, b.ns.ID, l, limit-1, 1)
	if err != nil {
		return b.ns.Refusal(err, &core.Entity{Name: in})
	}
	if len(last) > 0 {
		return core.Refuse(core.QuotaExceeded, text, in, limit)
	}
	return nil
}

func (b *Broker) roomForPartitioned(ctx context.Context, ent *core.Entity) error {
	most, n := b.options.Limits.MaxPartitioned, 0
	if most == 0 || !ent.Settings.EnablePartitioning {
		return nil
	}
	err := b.eachQueueAndTopic(ctx, func(other *core.Entity) {
		if other.Settings.EnablePartitioning && core.FoldName(other.Name) != core.FoldName(ent.Name) {
			n++
		}
	})
	if err != nil {
		return b.ns.Refusal(err, ent)
	}
	if n >= most {
		return core.Refuse(core.QuotaExceeded, "The namespace '%s' has %d partitioned queues and topics; in the %s tier at most %d are allowed: delete some first.",
			b.ns.Name, n, b.options.Limits.Tier, most)
	}
	return nil
}

func (b *Broker) topic(ctx context.Context, name string) (core.TopicView, error) {
	t, err := b.store.Topic(ctx, b.ns.ID, name)
	return t, b.ns.Refusal(err, &core.Entity{Kind: core.Topic, Name: name})
}

func (b *Broker) create(ctx context.Context, id core.Identity, ent core.Entity) (core.Entity, error) {
	ent.Settings.Fit(ent.Kind)
	fitPartitioned(&ent.Settings, 0)
	b.fitMessageSize(&ent.Settings, 0)
	if err := b.checkSettings(ent.Settings); err != nil {
		return core.Entity{}, err
	}
	if err := b.checkForwarding(ctx, id, &ent, &core.Settings{}); err != nil {
		return core.Entity{}, err
	}
	if err := b.roomForPartitioned(ctx, &ent); err != nil {
		return core.Entity{}, err
	}
	now := b.store.Now()
	ent.Namespace, ent.ID, ent.CreatedAt, ent.UpdatedAt = b.ns.ID, core.NewIncarnation(), now, now
	ent.Settings.AuthorizationRules = datedRules(ent.Settings.AuthorizationRules, nil, now)
	read := time.Now()
	made, err := b.store.CreateEntity(ctx, ent, b.quotas())
	switch code := core.CodeOf(err); {
	case code == core.AlreadyExists:
		return core.Entity{}, b.ns.Exists(&ent)
	case code == core.NotFound && ent.Kind == core.Subscription:
		topic, _, _ := core.SplitSubscription(ent.Name)
		return core.Entity{}, b.ns.NotFound(topic)
	case code == core.NotFound:
		return core.Entity{}, core.Refuse(core.NotFound, "The namespace '%s' has been deleted.", b.ns.Name)
	case code == core.QuotaExceeded:
		return core.Entity{}, b.quotaRefusal(ctx, &ent)
	case err != nil:
		return core.Entity{}, b.ns.Refusal(err, &ent)
	}
	b.log.Info("entity created", "entity", made.Name, "kind", made.Kind.String(), "partitions", made.Partitions)
	if _, err := b.keep(made, read); err != nil {
		return core.Entity{}, err
	}
	return withReportedSize(made), nil
}
