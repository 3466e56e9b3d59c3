package broker

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	duePause = 2 * time.Millisecond
	// duePatience is how long RunDue waits while no message moves: the rest may wait for a full
	// destination, or for a remote that is not connected.
	duePatience = 250 * time.Millisecond
)

// RunDue does everything that has become due when the store's time was moved: locks end, messages
// expire or become active, idle entities and old dead letters are removed, schedules send, and
// receivers look for messages. It returns when forwarders have moved all messages that they can.
func (b *Broker) RunDue(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.base, cancel)()
	b.touch(ctx)
	b.deleteIdle(ctx)
	b.removeDeadLetters(ctx)
	b.scheduler.runDue(ctx)
	b.scheduler.changed.Woken.Set()
	moved, left := time.Now(), int64(-1)
	for {
		for _, e := range b.known() {
			e.receivers.Wake()
		}
		b.forwarders.Wake()
		now, err := b.onTheMove(ctx)
		switch {
		case err != nil || now == 0:
			return err
		case now != left:
			moved, left = time.Now(), now
		case time.Since(moved) > duePatience:
			return nil
		}
		if !wake.After(ctx, duePause) {
			return ctx.Err()
		}
	}
}

func (b *Broker) onTheMove(ctx context.Context) (n int64, err error) {
	var all []core.Entity
	if err := b.walk(ctx, func(ent *core.Entity) {
		all = append(all, *ent)
	}); err != nil {
		return 0, err
	}
	for i, t := range b.countEntities(ctx, all...) {
		if t.err != nil {
			return 0, t.err
		}
		s := &all[i].Settings
		for sub, moves := range map[core.SubQueue]bool{
			core.Main: all[i].Kind == core.Topic || s.ForwardTo != "", core.DeadLetter: s.ForwardDeadLetteredMessagesTo != "", core.Transfer: true,
		} {
			if moves {
				n += t.sums[sub].Ready + t.sums[sub].Locked
			}
		}
	}
	return n, nil
}
