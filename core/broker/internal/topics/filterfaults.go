package topics

import (
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

// appendFault dead-letters a message whose evaluation failed, once for all rules of the
// subscription, unless the settings say that it is dropped. Copies of the message begin at first.
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

// deadLetterCopy is a copy of a message in the subscription's dead-letter queue.
func (m *member) deadLetterCopy(index uint16, msg *core.Message, reason, description string) core.Copy {
	dead := *msg
	dead.Properties = msg.Properties.Merge(entity.ReasonProperties(reason, description))
	return core.Copy{To: &m.Queues[core.DeadLetter][index], Message: &dead}
}
