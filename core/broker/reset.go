package broker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/delivery"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

// Reset pauses receiving and forwarding at this gateway, waits for calls in flight, and drops
// messages locked here but not delivered. Then this gateway has no message from before the reset.
func (b *Broker) Reset(ctx context.Context, id core.Identity) error {
	if err := authorize(id, ""); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.base, func() { cancel(entity.ErrStopping) })()
	ents, err := b.queuesAndTopics(ctx)
	if err != nil {
		return b.ns.Refusal(err, &core.Entity{})
	}
	if err := b.barrier.Pause(ctx); err != nil {
		return b.ns.Refusal(err, &core.Entity{})
	}
	defer b.barrier.Resume()
	b.audit.Flush(ctx) // so that no event from before the reset is written after it
	entries := b.known()
	var sessions []*delivery.Session
	for _, e := range entries {
		sessions = append(sessions, e.receivers.Sessions()...)
	}
	errs := make([]error, len(ents))
	entity.InParallel(len(ents), func(i int) { errs[i] = b.clear(ctx, &ents[i]) })
	cleared := make(map[string]bool, len(ents))
	for i := range ents {
		cleared[ents[i].ID] = errs[i] == nil
	}
	for _, e := range entries {
		if cleared[e.View().Root()] {
			e.receivers.DropUndelivered()
		}
	}
	for _, s := range sessions {
		if cleared[s.EntityID()] {
			s.End(entity.ErrSessionLost)
		}
	}
	b.forwarders.DropHeld()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	b.log.Info("namespace reset", "namespace", b.ns.Name, "entities", len(ents))
	return nil
}

// queuesAndTopics leaves out subscriptions, which are cleared with their topics.
func (b *Broker) queuesAndTopics(ctx context.Context) (all []core.Entity, err error) {
	err = b.eachQueueAndTopic(ctx, func(ent *core.Entity) { all = append(all, *ent) })
	return all, err
}

// clear clears all partitions that answer, and returns the first error.
func (b *Broker) clear(ctx context.Context, ent *core.Entity) (err error) {
	for i := range ent.Partitions {
		err = cmp.Or(err, b.ns.Partition(ent, uint16(i), core.Main).In(b.store).Clear(ctx))
	}
	return b.ns.Refusal(err, ent)
}

func (b *Broker) known() []*entry {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.AppendSeq(make([]*entry, 0, len(b.entries)), maps.Values(b.entries))
}
