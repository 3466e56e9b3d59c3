package topics

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/fair"
)

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
