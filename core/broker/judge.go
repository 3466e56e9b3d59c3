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
	c := court{topic: b.newView(t.Entity), facts: rules.Facts{EnqueuedTime: b.store.Now(), Body: b.options.Body}}
	if err := c.admit(m); err != nil {
		return nil, err
	}
	c.facts.Ask = b.askNow(ctx, t.Name, m)
	all := make([]core.Judgement, 0, len(trial))
	for _, r := range trial {
		all = append(all, c.judge(r))
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
			all = append(all, c.judgeFor(&s, r))
		}
	}
	return all, nil
}

// court judges one message that could be sent to a topic.
type court struct {
	topic   *view
	message *core.Message
	index   uint16 // the partition that the message would go to; any for one without a key
	facts   rules.Facts
}

// admit takes the message as the topic's sender would.
func (c *court) admit(m *core.Message) error {
	if err := c.topic.admit(m); err != nil {
		return err
	}
	key := keyOf(m, c.topic.Settings.RequiresDuplicateDetection)
	c.message, c.index = m, core.PartitionOf(key, len(c.topic.partitions[core.Main]))
	identify([]*core.Message{m})
	return nil
}

// judge tells what a rule makes of the message.
func (c *court) judge(r core.Rule) core.Judgement {
	e := rules.Explain(r, c.message, c.facts)
	return core.Judgement{Rule: r.Name, Matched: e.Truth == rules.True, Why: e.Why, Err: e.Err, Message: e.Message}
}

// judgeFor tells what a rule of the subscription makes of the message, and what
// the subscription makes of that.
func (c *court) judgeFor(s *member, r core.Rule) core.Judgement {
	j := c.judge(r)
	_, j.Subscription, _ = core.SplitSubscription(s.Name)
	if j.Message == nil {
		return j
	}
	if err := s.checkChanged(r.Name, c.message, j.Message, c.index); err != nil {
		j.Err, j.Message = err, nil
		return j
	}
	got := s.copy(c.topic, c.index, j.Message)
	if j.Message = got.Message; got.To.Sub == core.DeadLetter {
		j.Why = append(j.Why, "the subscription dead-letters the message: "+core.DescriptionNoSession)
	}
	return j
}
