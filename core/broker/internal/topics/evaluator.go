// Package topics evaluates the rules of a topic's subscriptions. A Cache has the subscriptions at
// one version, an Evaluation makes the copies of messages for the subscriptions, and a Tester
// explains rules.
package topics

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
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
			return nil, ev.Plugins.refusals[c.Name]
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
