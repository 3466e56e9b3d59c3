package topics

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/rules"
)

type Tester struct {
	topic   *entity.View
	message *core.Message
	index   uint16 // the message's partition, or any if it has no key
	facts   rules.Facts
	shown   int
}

const maxShown = 1 << 20

func (rt *Tester) show(j core.Judgement) core.Judgement {
	if j.Message == nil {
		return j
	}
	if n := j.Message.Size(); rt.shown == 0 || rt.shown+n <= maxShown {
		rt.shown += n
		return j
	}
	j.Message, j.Why = nil, append(j.Why, "the message is omitted: the messages of the previous rules have 1 MiB, which is the limit")
	return j
}

func (ev *Evaluator) NewTester(ctx context.Context, topic *entity.View, m *core.Message) (*Tester, error) {
	if err := topic.Admit(m); err != nil {
		return nil, err
	}
	key := entity.KeyOf(m, topic.Settings.RequiresDuplicateDetection)
	entity.Identify([]*core.Message{m})
	return &Tester{
		topic: topic, message: m, index: core.PartitionOf(key, len(topic.Queues[core.Main])),
		facts: rules.Facts{EnqueuedTime: ev.Now(), Body: ev.Body, Ask: ev.askPluginNow(ctx, topic.Name, m)},
	}, nil
}

// Test evaluates rules. If v is not nil, they are rules of this subscription.
func (rt *Tester) Test(ctx context.Context, v *entity.View, rs []core.Rule) ([]core.Judgement, error) {
	all := make([]core.Judgement, 0, len(rs))
	for _, r := range rs {
		if ctx.Err() != nil {
			return nil, entity.ErrTimeout
		}
		e := rules.Explain(r, rt.message, rt.facts)
		j := core.Judgement{Rule: r.Name, Matched: e.Truth == rules.True, Why: e.Why, Err: e.Err, Message: e.Message}
		if v != nil {
			rt.copyFor(&member{View: v}, &j)
		}
		all = append(all, rt.show(j))
	}
	return all, nil
}

const maxWhyNot = 3

// WhyNot explains up to maxWhyNot rules for a stored message of the topic, matching ones first.
func (ev *Evaluator) WhyNot(ctx context.Context, topic *entity.View, d *core.Delivery, rs []core.Rule) (all []string) {
	facts := rules.Facts{EnqueuedTime: d.EnqueuedTime, Body: ev.Body, Ask: ev.askPluginNow(ctx, topic.Name, d.Message)}
	for _, r := range rs {
		e := rules.Explain(r, d.Message, facts)
		text := r.Name + ": " + strings.Join(e.Why, "; ")
		if e.Err != nil {
			text += " (" + core.TextOf(e.Err) + ")"
		}
		if e.Truth == rules.True {
			all = slices.Insert(all, 0, "matches now, "+text)
		} else {
			all = append(all, text)
		}
	}
	if n := len(all) - maxWhyNot; n > 0 {
		all = append(all[:maxWhyNot], fmt.Sprintf("and %d more", n))
	}
	if len(all) == 0 {
		all = []string{"the subscription has no rules"}
	}
	return all
}

// copyFor turns a rule's result into what the subscription s gets.
func (rt *Tester) copyFor(s *member, j *core.Judgement) {
	_, j.Subscription, _ = core.SplitSubscription(s.Name)
	if j.Message == nil {
		return
	}
	if err := s.checkChanged(j.Rule, rt.message, j.Message, rt.index); err != nil {
		j.Err, j.Message = err, nil
		return
	}
	got := s.copy(rt.topic, rt.index, j.Message)
	if j.Message = got.Message; got.To.Sub == core.DeadLetter {
		j.Why = append(j.Why, "the subscription dead-letters the message: "+core.DescriptionNoSession)
	}
}
