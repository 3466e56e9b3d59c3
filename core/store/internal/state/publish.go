package state

import (
	"context"
	"fmt"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

func (t *txn) publish(version int64, group []core.Publication, spare sparing) ([]int64, error) {
	if version < t.version {
		return nil, t.outdated(version)
	}
	sources, ok := t.sources(group)
	if !ok {
		return nil, fmt.Errorf("cannot publish messages to %v: the lock of a scheduled message that is due has ended: %w", t.Ref, core.LockLost)
	}
	if err := core.CheckSize(t.bytes, t.MaxBytes); err != nil && t.needsRoom(group, spare) {
		return nil, err
	}
	for i := range group {
		if group[i].Source.IsZero() {
			if err := t.remembersTooMuch(group[i].Message); err != nil {
				return nil, err
			}
		}
	}
	numbers := make([]int64, len(group))
	for i := range group {
		numbers[i] = t.publishOne(&group[i], sources[i], spare.has(i))
	}
	return numbers, nil
}

func (t *txn) outdated(version int64) error {
	return fmt.Errorf("cannot publish messages to %v: the publication used version %d of the topic's subscriptions, but the current one is %d: %w",
		t.Ref, version, t.version, core.Conflict)
}

// sources returns the entries of scheduled messages from which the publications come; nil for a
// publication by a sender. ok is false if a lock is lost, or given twice.
func (t *txn) sources(group []core.Publication) (entries []*entry, ok bool) {
	entries = make([]*entry, len(group))
	for i := range group {
		if source := group[i].Source; !source.IsZero() {
			e := t.holder(source)
			if e == nil || slices.Contains(entries[:i], e) {
				return nil, false
			}
			entries[i] = e
		}
	}
	return entries, true
}

func (t *txn) needsRoom(group []core.Publication, spare sparing) bool {
	for i := range group {
		if x := &group[i]; x.Source.IsZero() && !spare.drops(i) && !t.isKnown(x.Message) {
			return true
		}
	}
	return false
}

// publishOne publishes x or, if spared is true, only remembers its message id and Transit.Key.
func (t *txn) publishOne(x *core.Publication, source *entry, spared bool) int64 {
	number := int64(0)
	switch due, later := t.due(x.Message); {
	case source != nil:
		number = t.number(source.n)
		t.note(core.EventPublished, t.queue, source)
		t.queue.remove(source)
	case t.isRepeated(x.Message) || t.isDuplicate(x.Message, spared):
		return 0
	case spared:
		return noted
	case later:
		return t.schedule(x.Message, due)
	default:
		number = t.number(t.queue.skip())
		t.noteArrival(core.EventAccepted, t.queue, x.Message, number, 0, 0)
	}
	for i := range x.Copies {
		to := x.Copies[i].To
		if b := t.subscriptions[to.Subscription]; b != nil {
			t.enqueue(b.queue(to.Sub), x.Copies[i].Message, to.Sessions, number)
		}
	}
	return number
}

type topic struct {
	key     entityKey
	version int64
}

func (c *catalogue) Topic(_ context.Context, namespace, name string) (core.TopicView, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, _ := c.find(keyOf(namespace, name))
	t := c.topics[e.ID]
	if t == nil {
		return core.TopicView{}, fmt.Errorf("cannot read topic %s/%s: %w", namespace, name, core.NotFound)
	}
	view := core.TopicView{Entity: cloneEntity(e), Subscriptions: c.list(namespace, c.space(namespace).subscriptions(name)), Version: t.version}
	for i := range view.Subscriptions {
		view.Subscriptions[i].Rules = c.rules[view.Subscriptions[i].ID].page(0, allRules)
	}
	return view, nil
}
