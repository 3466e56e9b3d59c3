package topics

import (
	"slices"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/rules"
)

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
