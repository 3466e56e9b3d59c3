package broker

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/rules"
)

// TestRules implements core.Admin.
func (b *Broker) TestRules(ctx context.Context, id core.Identity, topic string, m *core.Message, trial []core.Rule) ([]core.Judgement, error) {
	topic, err := managed(id, topic)
	if err != nil {
		return nil, err
	}
	t, err := b.topic(ctx, topic)
	if err != nil {
		return nil, err
	}
	rt := ruleTester{topic: b.newView(t.Entity), facts: rules.Facts{EnqueuedTime: b.store.Now(), Body: b.options.Body}}
	if err := rt.admit(m); err != nil {
		return nil, err
	}
	rt.facts.Ask = b.askPluginNow(ctx, t.Name, m)
	all := make([]core.Judgement, 0, len(trial))
	for _, r := range trial {
		all = append(all, rt.test(r))
	}
	for i := range t.Subscriptions {
		if trial != nil {
			break
		}
		s := member{view: b.newView(t.Subscriptions[i])}
		for _, r := range s.Rules {
			if ctx.Err() != nil {
				return nil, errTimeout
			}
			all = append(all, rt.testFor(&s, r))
		}
	}
	return all, nil
}

// ruleTester tests rules with one message, as if it were sent to a topic.
type ruleTester struct {
	topic   *view
	message *core.Message
	index   uint16 // the message's partition; any, for a message without a key
	facts   rules.Facts
}

// admit checks and completes the message as a sender of the topic does.
func (rt *ruleTester) admit(m *core.Message) error {
	if err := rt.topic.admit(m); err != nil {
		return err
	}
	key := keyOf(m, rt.topic.Settings.RequiresDuplicateDetection)
	rt.message, rt.index = m, core.PartitionOf(key, len(rt.topic.partitions[core.Main]))
	identify([]*core.Message{m})
	return nil
}

// test applies a rule to the message.
func (rt *ruleTester) test(r core.Rule) core.Judgement {
	e := rules.Explain(r, rt.message, rt.facts)
	return core.Judgement{Rule: r.Name, Matched: e.Truth == rules.True, Why: e.Why, Err: e.Err, Message: e.Message}
}

// testFor applies a rule of the subscription to the message, and what the subscription does with
// the match.
func (rt *ruleTester) testFor(s *member, r core.Rule) core.Judgement {
	j := rt.test(r)
	_, j.Subscription, _ = core.SplitSubscription(s.Name)
	if j.Message == nil {
		return j
	}
	if err := s.checkChanged(r.Name, rt.message, j.Message, rt.index); err != nil {
		j.Err, j.Message = err, nil
		return j
	}
	got := s.copy(rt.topic, rt.index, j.Message)
	if j.Message = got.Message; got.To.Sub == core.DeadLetter {
		j.Why = append(j.Why, "the subscription dead-letters the message: "+core.DescriptionNoSession)
	}
	return j
}
