package topics

import (
	"context"
	"errors"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/audit"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/fair"
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

const (
	// piece is the size of copies after which Next evaluates no further group.
	piece = 1 << 20
	// step is the smallest size of copies for which memory is taken. Smaller copies need not be
	// counted: the memory taken for the arrived message is enough for them.
	step = 16 << 10
)

// room accounts for the memory of copies that are not stored yet. All messages of a topic share one
// part of the memory for messages in progress.
type room struct {
	ev    *Evaluator
	topic string
	share *fair.Share // nil before memory is first taken
	taken int64
	owed  int64 // bytes of copies for which no memory was taken yet
	full  error
}

func (r *room) held() int64 { return r.taken + r.owed }

// takeChanged takes memory for a message that an action has changed, and reports whether there was
// enough. It does not wait, because the rules are locked meanwhile.
func (r *room) takeChanged(m *core.Message) bool {
	r.owed += fair.Message + int64(m.HeaderSize())
	return r.take(context.Background(), false)
}

// takeCopies takes memory for n copies of m. It waits for memory only if r has none yet.
func (r *room) takeCopies(ctx context.Context, m *core.Message, n int) error {
	if r.full == nil {
		r.owed += int64(n) * (fair.Copy + int64(m.HeaderSize()))
		r.take(ctx, r.taken == 0)
	}
	return r.full
}

func (r *room) take(ctx context.Context, waits bool) bool {
	if r.ev.Memory == nil || r.owed < step || r.full != nil {
		return r.full == nil
	}
	if r.share == nil {
		r.share = r.ev.Memory.Share(nil)
		r.share.Join(fair.Who{Namespace: "/" + r.ev.ID, Policy: "copies for subscriptions of " + r.topic})
	}
	most := r.ev.Memory.Stats().Limit / 8 * 3 // about what is free in an idle gateway that has taken memory only for the messages themselves
	switch {
	case r.held() > most:
		r.full = core.Refuse(core.QuotaExceeded, "The copies for the subscriptions of '%s' take more than %d bytes of memory, which is three eighths of message-memory: send fewer messages in a batch, or increase message-memory.",
			r.topic, most)
	case waits:
		if r.full = r.share.Await(ctx, r.owed); r.full != nil && ctx.Err() != nil {
			r.full = entity.ErrTimeout
		}
	case !r.share.Take(r.owed):
		r.full = r.share.Refuse(r.owed)
	}
	if r.full == nil {
		r.taken, r.owed = r.held(), 0
	}
	return r.full == nil
}

func (r *room) release() {
	if r.share != nil {
		r.share.Close()
	}
	*r = room{ev: r.ev, topic: r.topic}
}
