package topics

import (
	"context"
	"errors"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/audit"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/rules"
)

// Evaluation evaluates the rules of a topic for groups of messages that are published in one
// partition. It returns the copies in pieces, because there may be very many. The caller must call
// Release when it has stored a piece.
type Evaluation struct {
	subs      *Subscriptions
	topic     *entity.View
	partition uint16
	trail     *audit.Trail
	facts     rules.Facts
	undecoded error // why no decoder could answer: the results of the rules must then not be used
	answers   map[rules.Call][]pluginAnswer
	groups    [][]*core.Message
	due       []core.Delivery // scheduled messages that are due, each a group of its own
	room      room

	made    []core.Publication
	events  []core.Event // events of the message that is being evaluated, if there is a trail
	byGroup [][]core.Publication
}

func (ev *Evaluator) Begin(ctx context.Context, ss *Subscriptions, topic *entity.View, partition uint16, groups [][]*core.Message, trail *audit.Trail) (*Evaluation, error) {
	x := &Evaluation{subs: ss, topic: topic, partition: partition, trail: trail, groups: groups, room: room{ev: ev, topic: topic.Name}}
	x.facts.EnqueuedTime = ev.Now()
	if ev.Body != nil && ss.set.ReadsBodies() {
		x.facts.Body = x.decode
	}
	if ev.Memory != nil {
		x.facts.Changed = x.room.takeChanged
	}
	if calls := ss.set.Calls(); len(calls) > 0 {
		var err error
		if x.answers, err = ev.askPlugins(ctx, topic.Name, calls, slices.Concat(groups...)); err != nil {
			return nil, err
		}
	}
	x.made = make([]core.Publication, 0, core.CountOf(groups))
	x.byGroup = make([][]core.Publication, 0, len(groups))
	return x, nil
}

// BeginDue is Begin for scheduled messages that are due. Each is a group of its own.
func (ev *Evaluator) BeginDue(ctx context.Context, ss *Subscriptions, topic *entity.View, partition uint16, ds []core.Delivery, trail *audit.Trail) (*Evaluation, error) {
	groups := make([][]*core.Message, len(ds))
	for i := range ds {
		groups[i] = []*core.Message{ds[i].Message}
	}
	x, err := ev.Begin(ctx, ss, topic, partition, groups, trail)
	if err == nil {
		x.due = ds
	}
	return x, err
}

// Next evaluates one group, and further ones as long as the copies need little memory.
func (x *Evaluation) Next(ctx context.Context) ([][]core.Publication, error) {
	first := len(x.byGroup)
	var copies []core.Copy
	for at := first; at < len(x.groups) && (at == first || x.room.held() < piece); at++ {
		begun := len(x.made)
		for _, m := range x.groups[at] {
			p := core.Publication{Message: m}
			if x.due != nil {
				p.Source = x.due[at].LockToken
			}
			from := len(copies)
			var events *[]core.Event
			if x.trail != nil {
				x.events, events = nil, &x.events
			}
			copies = x.subs.copies(copies, events, x.topic, x.partition, entity.WithoutMoveKey(m), x.factsOf(len(x.made)))
			if err := x.room.takeCopies(ctx, m, len(copies)-from); err != nil {
				x.made = x.made[:begun]
				if at > first {
					return x.byGroup[first:], nil // the next call evaluates this group again
				}
				x.Release()
				return nil, err
			}
			p.Copies = copies[from:len(copies):len(copies)]
			if x.trail != nil {
				x.trail.Match(m, x.events)
			}
			x.made = append(x.made, p)
		}
		x.byGroup = append(x.byGroup, x.made[begun:len(x.made):len(x.made)])
	}
	if x.undecoded != nil {
		x.Release()
		return nil, x.undecoded
	}
	return x.byGroup[first:], nil
}

func (x *Evaluation) factsOf(i int) rules.Facts {
	f := x.facts
	if x.due != nil {
		d := &x.due[i]
		f.EnqueuedTime, f.SequenceNumber, f.EnqueuedSequenceNumber = d.EnqueuedTime, d.SequenceNumber, d.EnqueuedSequenceNumber
	}
	if len(x.answers) > 0 {
		f.Ask = func(c rules.Call) (bool, error) {
			a := x.answers[c][i]
			return a.yes, a.err
		}
	}
	return f
}

func (x *Evaluation) decode(m *core.Message) (any, error) {
	v, err := x.room.ev.Body(m)
	if code, ok := errors.AsType[core.Code](err); ok && code.Retriable() && x.undecoded == nil {
		x.undecoded = err
	}
	return v, err
}

// Release gives back the memory of the last piece. x may be nil.
func (x *Evaluation) Release() {
	if x != nil {
		x.room.release()
	}
}
