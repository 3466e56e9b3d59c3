// Package topics evaluates the rules of a topic's subscriptions. A Cache has the subscriptions at
// one version, an Evaluation makes the copies of messages for the subscriptions, and a Tester
// explains rules.
package topics

import (
	"context"
	"slices"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pipeline"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/rules"
)

type Evaluator struct {
	*entity.Namespace
	Plugins *Plugins
	Body    func(*core.Message) (any, error) // nil: conditions on fields of the body are not true
	Memory  *fair.Pool                       // limits the memory of copies that are not stored yet; nil: no limit
}

// askPlugins makes calls for all ms. If one is not answered, err says whether to refuse or park ms.
// Otherwise the result has one answer per message for each call.
func (ev *Evaluator) askPlugins(ctx context.Context, topic string, calls []rules.Call, ms []*core.Message) (map[rules.Call][]pluginAnswer, error) {
	answers := make(map[rules.Call][]pluginAnswer, len(calls))
	if len(ms) == 0 {
		return answers, nil
	}
	got, errs := make([][]pluginAnswer, len(calls)), make([]error, len(calls))
	entity.InParallel(len(calls), func(i int) { got[i], errs[i] = ev.Plugins.ask(ctx, topic, calls[i], ms) })
	for i, c := range calls {
		if errs[i] != nil {
			ev.Log.Debug("a plugin that a rule calls did not answer", "entity", topic, "plugin", c.Name, "messages", len(ms), "err", errs[i])
			if ctx.Err() != nil {
				return nil, entity.ErrTimeout
			}
			refusal := core.Refuse(core.Busy, "The plugin '%s', which a rule calls, is not available. Please wait and try again.", c.Name)
			return nil, &entity.NoVerdict{Refusal: refusal, Parks: ev.Plugins.byName[c.Name].Unavailable == pipeline.Park}
		}
		answers[c] = got[i]
	}
	return answers, nil
}

func (ev *Evaluator) askPluginNow(ctx context.Context, topic string, m *core.Message) func(rules.Call) (bool, error) {
	return func(c rules.Call) (bool, error) {
		answers, err := ev.askPlugins(ctx, topic, []rules.Call{c}, []*core.Message{m})
		if err != nil {
			return false, err
		}
		a := answers[c][0]
		return a.yes, a.err
	}
}

// appendFault appends a dead letter for a message whose evaluation failed, if the settings require
// it. One is enough for all rules of the subscription, whose copies begin at dst[first].
func (m *member) appendFault(dst []core.Copy, first int, index uint16, msg *core.Message, err error) []core.Copy {
	if !m.Settings.DeadLetteringOnFilterEvaluationExceptions {
		return dst
	}
	for i := first; i < len(dst); i++ {
		if dst[i].To.Ref == m.Queues[core.DeadLetter][index].Ref {
			return dst
		}
	}
	return append(dst, m.deadLetterCopy(index, msg, core.ReasonFilterException, core.TextOf(err)))
}

func (m *member) deadLetterCopy(index uint16, msg *core.Message, reason, description string) core.Copy {
	dead := *msg
	dead.Properties = msg.Properties.Merge(core.ReasonProperties(reason, description))
	return core.Copy{To: &m.Queues[core.DeadLetter][index], Message: &dead}
}

var matchBuffers = sync.Pool{New: func() any { return new([]rules.Copy) }}

// copies appends the copies of m to dst and, if events is not nil, an event for each to events.
func (ss *Subscriptions) copies(dst []core.Copy, events *[]core.Event, topic *entity.View, index uint16, m *core.Message, f rules.Facts) []core.Copy {
	found := matchBuffers.Get().(*[]rules.Copy)
	*found = ss.set.Match((*found)[:0], m, f)
	defer func() {
		clear(*found)
		matchBuffers.Put(found)
	}()
	first := len(dst)
	dst = slices.Grow(dst, len(*found))
	fault := func(own *member, err error) {
		before := len(dst)
		if dst = own.appendFault(dst, first, index, m, err); events != nil && len(dst) > before {
			*events = append(*events, own.matched(&dst[before], nil, m, f))
		}
	}
	for i := range *found {
		c := &(*found)[i]
		own := &ss.members[c.Sub]
		if c.Err == nil && c.Message != m {
			c.Err = own.checkChanged(c.Rule.Name(), m, c.Message, index)
		}
		if c.Err != nil {
			fault(own, c.Err)
			continue
		}
		dst = append(dst, own.copy(topic, index, c.Message))
		if events != nil {
			*events = append(*events, own.matched(&dst[len(dst)-1], c.Rule, m, f))
		}
	}
	for _, i := range ss.uncompiled {
		fault(&ss.members[i], ss.members[i].err)
	}
	return dst
}

// If the subscription requires a session and the message has none, the copy is a dead letter.
func (m *member) copy(topic *entity.View, index uint16, msg *core.Message) core.Copy {
	if m.Settings.RequiresSession && !msg.HasSession() {
		return m.deadLetterCopy(index, msg, core.ReasonNoSession, core.DescriptionNoSession)
	}
	life := entity.CappedLife(entity.CappedLife(msg.TimeToLive, topic.Settings.DefaultMessageTimeToLive), m.Settings.DefaultMessageTimeToLive)
	if life != msg.TimeToLive {
		shortened := *msg
		shortened.TimeToLive = life
		msg = &shortened
	}
	return core.Copy{To: &m.Queues[core.Main][index], Message: msg}
}

// checkChanged refuses an action that has set a session id of another partition, because the copy
// stays in the message's partition, and all messages of a session must be in one partition.
func (m *member) checkChanged(rule string, before, after *core.Message, index uint16) error {
	key := after.SessionKey()
	if !m.Settings.RequiresSession || key == "" || key == before.SessionKey() {
		return nil
	}
	if core.PartitionOf(string(key), len(m.Queues[core.Main])) != index {
		return core.Refuse(core.InvalidArgument, "The action of rule '%s' sets the session id '%.130s', but this session is in another partition than the message: send the message with this id as its SessionId or PartitionKey.",
			rule, after.SessionID)
	}
	return nil
}
