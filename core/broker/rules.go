package broker

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/rules"
)

const (
	// maxSQLFilters and maxOtherFilters limit the rules of all subscriptions of a topic together. A
	// rule with long SQL counts as several, so that the limits also bound memory and work.
	maxSQLFilters   = 2000
	maxOtherFilters = 100000
	ruleTries       = 10
)

func (b *Broker) checkRule(r *core.Rule) (*rules.Rule, error) {
	if err := cmp.Or(core.ValidateRuleName(r.Name), b.options.Limits.CheckRule(r)); err != nil {
		return nil, err
	}
	c, err := rules.Compile(*r)
	if err != nil {
		return nil, err
	}
	return c, b.evaluator.Plugins.Check(c)
}

// filterCounts estimates the number of rules of a topic: those at the last count, plus those that
// this gateway has tried to create since. A count reads all subscriptions, so it is repeated only
// when it is old, or when the estimate reaches a limit.
type filterCounts struct {
	mu      sync.Mutex
	filters [2]int // rules with SQL filters, and others, as weightOf counts them
	at      time.Time
}

const filterCountsAge = time.Minute

func weightOf(r *core.Rule) int {
	return max(1, (max(len(r.Filter.SQL), len(r.Action))+core.SQLLengthOfOne-1)/core.SQLLengthOfOne)
}

// makeRoomForRule counts rules of kind k as created, or refuses them if they exceed the topic's
// limit. weight is their number; a rule with long SQL counts as several.
func (b *Broker) makeRoomForRule(ctx context.Context, topic string, k core.FilterKind, weight int) error {
	e, err := b.entity(ctx, topic)
	if err != nil {
		return err
	}
	if e.topic == nil {
		return b.ns.NotFound(topic)
	}
	c, sort := &e.filters, filterIndex(k)
	c.mu.Lock()
	defer c.mu.Unlock()
	limit, with := maxSQLFilters, "with"
	if sort > 0 {
		limit, with = maxOtherFilters, "without"
	}
	if c.filters[sort]+weight > limit || time.Since(c.at) > filterCountsAge {
		t, err := b.topic(ctx, topic)
		if err != nil {
			return err
		}
		c.filters, c.at = [2]int{}, time.Now()
		for i := range t.Subscriptions {
			for _, r := range t.Subscriptions[i].Rules {
				c.filters[filterIndex(r.Filter.Kind)] += weightOf(&r)
			}
		}
	}
	if c.filters[sort]+weight > limit {
		return core.Refuse(core.QuotaExceeded, "The topic '%s' has %d rules %s SQL filters, and %d more would exceed the limit of %d (a rule with a filter or action of more than %d bytes counts as several): delete rules first.", topic, c.filters[sort], with, weight, limit, core.SQLLengthOfOne)
	}
	c.filters[sort] += weight
	return nil
}

func filterIndex(k core.FilterKind) int {
	if k == core.SQLFilter {
		return 0
	}
	return 1
}

func (b *Broker) CreateRule(ctx context.Context, id core.Identity, subscription string, r core.Rule) (core.Rule, error) {
	subscription, err := managed(id, subscription)
	if err != nil {
		return core.Rule{}, err
	}
	compiled, err := b.checkRule(&r)
	if err != nil {
		return core.Rule{}, err
	}
	ent, err := b.subscription(ctx, subscription)
	if err != nil {
		return core.Rule{}, err
	}
	topic, _, _ := core.SplitSubscription(ent.Name)
	if err := b.makeRoomForRule(ctx, topic, r.Filter.Kind, weightOf(&r)); err != nil {
		return core.Rule{}, err
	}
	r.CreatedAt = b.store.Now()
	err = b.changeRule(ctx, subscription, r.Name, func(ent *core.Entity, known *core.Rule) (core.RuleChange, *rules.Rule, error) {
		if known != nil {
			topic, own, _ := core.SplitSubscription(ent.Name)
			return core.RuleChange{}, nil, core.Refuse(core.AlreadyExists, "The messaging entity '%s:Topic:%s|%s|%s' already exists. To know more visit https://aka.ms/sbResourceMgrExceptions. ", b.ns.Name, topic, own, r.Name)
		}
		return core.RuleChange{Rule: r}, compiled, nil
	})
	return r, err
}

func (b *Broker) UpdateRule(ctx context.Context, id core.Identity, subscription string, r core.Rule) (core.Rule, error) {
	subscription, err := managed(id, subscription)
	if err != nil {
		return core.Rule{}, err
	}
	if _, err := b.checkRule(&r); err != nil {
		return core.Rule{}, err
	}
	if weight := weightOf(&r); weight > 1 { // otherwise r can replace the old rule even in a full topic
		old, err := b.Rule(ctx, id, subscription, r.Name)
		if err != nil {
			return core.Rule{}, err
		}
		if filterIndex(old.Filter.Kind) == filterIndex(r.Filter.Kind) {
			weight = max(weight-weightOf(&old), 0)
		}
		topic, _, _ := core.SplitSubscription(subscription)
		if err := b.makeRoomForRule(ctx, topic, r.Filter.Kind, weight); err != nil {
			return core.Rule{}, err
		}
	}
	err = b.changeRule(ctx, subscription, r.Name, func(ent *core.Entity, known *core.Rule) (core.RuleChange, *rules.Rule, error) {
		if known == nil {
			return core.RuleChange{}, nil, b.noRule(ent, r.Name)
		}
		r.Name, r.CreatedAt = known.Name, known.CreatedAt
		compiled, err := rules.Compile(r) // again, because an action can use the rule's name
		return core.RuleChange{Rule: r}, compiled, err
	})
	return r, err
}

func (b *Broker) DeleteRule(ctx context.Context, id core.Identity, subscription, rule string) error {
	subscription, err := managed(id, subscription)
	if err != nil {
		return err
	}
	return b.changeRule(ctx, subscription, rule, func(ent *core.Entity, known *core.Rule) (core.RuleChange, *rules.Rule, error) {
		if known == nil {
			return core.RuleChange{}, nil, b.noRule(ent, rule)
		}
		return core.RuleChange{Rule: *known, Remove: true}, nil, nil
	})
}

func (b *Broker) Rules(ctx context.Context, id core.Identity, subscription string, skip, top int) ([]core.Rule, error) {
	subscription, err := managed(id, subscription)
	if err != nil {
		return nil, err
	}
	ent, err := b.subscription(ctx, subscription)
	if err != nil {
		return nil, err
	}
	list, err := b.store.Rules(ctx, ent, skip, top)
	return list, b.ns.Refusal(err, &ent)
}

func (b *Broker) Rule(ctx context.Context, id core.Identity, subscription, name string) (core.Rule, error) {
	subscription, err := managed(id, subscription)
	if err != nil {
		return core.Rule{}, err
	}
	ent, err := b.subscription(ctx, subscription)
	if err != nil {
		return core.Rule{}, err
	}
	r, err := b.store.Rule(ctx, ent, name)
	if core.CodeOf(err) == core.NotFound {
		return core.Rule{}, b.noRule(&ent, name)
	}
	return r, b.ns.Refusal(err, &ent)
}

func (b *Broker) subscription(ctx context.Context, name string) (core.Entity, error) {
	ent, err := b.stored(ctx, name)
	if err != nil {
		return core.Entity{}, err
	}
	if ent.Kind != core.Subscription {
		return core.Entity{}, core.Refuse(core.NotAllowed, "'%s' is a %s: only subscriptions have rules.", ent.Name, ent.Kind)
	}
	return ent, nil
}

// changeRule changes the rule with that name as decide says. known is the stored rule, or nil.
// decide returns the change and the compiled rule, or a nil rule to remove it. If another change
// came first, changeRule calls decide again.
func (b *Broker) changeRule(ctx context.Context, subscription, name string,
	decide func(ent *core.Entity, known *core.Rule) (core.RuleChange, *rules.Rule, error),
) error {
	for range ruleTries {
		ent, err := b.subscription(ctx, subscription)
		if err != nil {
			return err
		}
		var known *core.Rule
		switch r, err := b.store.Rule(ctx, ent, name); core.CodeOf(err) {
		case "":
			known = &r
		case core.NotFound:
		default:
			return b.ns.Refusal(err, &ent)
		}
		change, compiled, err := decide(&ent, known)
		if err != nil {
			return err
		}
		ent.UpdatedAt = b.store.Now()
		read := time.Now()
		ent, version, err := b.store.ChangeRule(ctx, ent, change)
		switch core.CodeOf(err) {
		case "":
			b.log.Info("rule changed", "entity", ent.Name, "rule", name)
			topic, _, _ := core.SplitSubscription(ent.Name)
			if e := b.cached(topic); e != nil && e.View().ID == ent.TopicID {
				e.topic.ApplyRule(ent, version, name, compiled)
			}
			_, err := b.keep(ent, read)
			return err
		case core.Conflict:
		default:
			return b.ns.Refusal(err, &core.Entity{Kind: core.Subscription, Name: subscription})
		}
	}
	return core.Refuse(core.Conflict, "Another conflicting operation is in progress on '%s'. Please retry later. ", subscription)
}

func (b *Broker) noRule(ent *core.Entity, rule string) error {
	return b.ns.NotFound(ent.Name + "/Rules/" + rule)
}

func (b *Broker) TestRules(ctx context.Context, id core.Identity, name string, m *core.Message, trial []core.Rule) ([]core.Judgement, error) {
	name = core.ResourcePath(name)
	topic, _, one := core.SplitSubscription(name)
	if !one {
		topic = name
	}
	if err := authorize(id, topic); err != nil {
		return nil, err
	}
	t, err := b.topic(ctx, topic)
	if err != nil {
		return nil, err
	}
	if one {
		t.Subscriptions = slices.DeleteFunc(t.Subscriptions, func(s core.Entity) bool { return core.FoldName(s.Name) != core.FoldName(name) })
		if len(t.Subscriptions) == 0 {
			return nil, b.ns.NotFound(name)
		}
	}
	rt, err := b.evaluator.NewTester(ctx, b.ns.View(t.Entity), m)
	if err != nil {
		return nil, err
	}
	if trial != nil {
		t.Subscriptions = nil
	}
	all, err := rt.Test(ctx, nil, trial)
	for i := 0; i < len(t.Subscriptions) && err == nil; i++ {
		s := b.ns.View(t.Subscriptions[i])
		var judged []core.Judgement
		judged, err = rt.Test(ctx, s, s.Rules)
		all = append(all, judged...)
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(x, y core.Judgement) int { return cmp.Compare(rank(&x), rank(&y)) })
	return all, nil
}

func rank(j *core.Judgement) int {
	switch {
	case j.Matched:
		return 0
	case j.Err != nil:
		return 1
	}
	return 2
}
