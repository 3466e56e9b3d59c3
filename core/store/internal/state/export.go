package state

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

var _ core.Backups = (*Store)(nil)

// NamespaceIDs lists the namespaces that have entities.
func (s *Store) NamespaceIDs(context.Context) ([]string, error) {
	s.catalogue.mu.RLock()
	defer s.catalogue.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.spaces)), s.stopped()
}

// Export passes on what a partition holds. It holds the partition's mutex until it ends: nothing
// changes meanwhile, and no record of a message is moved or removed.
func (s *Store) Export(ctx context.Context, r core.Ref, take func(*core.Stored) error) error {
	r.Subscription, r.Sub = "", core.Main
	p := s.lockPartition(r)
	if p == nil {
		return fmt.Errorf("export %s/%d: %w", r.Entity, r.Index, core.NotFound)
	}
	defer p.mu.Unlock()
	t := txn{partition: p, handle: &handle{Store: s, Ref: r}}
	for _, home := range p.homes() {
		if err := t.export(ctx, home, take); err != nil {
			return fmt.Errorf("export %s/%d: %w", r.Entity, r.Index, err)
		}
	}
	return s.stopped()
}

func (t *txn) export(ctx context.Context, home *entityState, take func(*core.Stored) error) error {
	for sub, q := range home.queues {
		if q == nil {
			continue
		}
		at := core.Stored{Subscription: home.ref.Subscription, Sub: core.SubQueue(sub)}
		last := at
		last.Kind, last.Last = core.StoredLast, q.last
		if q.last > 0 {
			if err := take(&last); err != nil {
				return err
			}
		}
		for _, key := range slices.Sorted(maps.Keys(q.sessions)) {
			x := q.sessions[key]
			if x.state == nil {
				continue
			}
			state := at
			state.Kind, state.Session, state.SessionState, state.Time = core.StoredState, x.stater, x.state, instant(x.stated)
			if err := take(&state); err != nil {
				return err
			}
		}
		for e := range q.log.from(0) {
			if e.state == reserved {
				continue
			}
			message := at
			message.Kind, message.InSession = core.StoredMessage, e.sessionful
			var err error
			if message.Delivery, err = t.exported(e); err == nil {
				err = take(&message)
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
		}
	}
	for _, ids := range []struct {
		kind core.StoredKind
		of   *seenIDs
	}{{core.StoredSeen, &home.seen}, {core.StoredMove, &home.moves}} {
		var at int64
		given := make(map[string]bool) // of that instant: what was forgotten and seen again is twice in the order
		for _, id := range ids.of.order {
			if id.at != at {
				at = id.at
				clear(given)
			}
			if ids.of.known[id.key] != id.at || given[id.key] {
				continue
			}
			given[id.key] = true
			if err := take(&core.Stored{Kind: ids.kind, Subscription: home.ref.Subscription, Key: id.key, Time: instant(id.at)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// exported describes e, with its message.
func (t *txn) exported(e *entry) (core.Delivery, error) {
	m := e.message
	if m == nil {
		var err error
		if m, err = t.Store.read(e.ref, e.more); err != nil {
			return core.Delivery{}, fmt.Errorf("message %d: %w", e.n, err)
		}
	}
	return core.Delivery{Message: m, BrokerProperties: core.BrokerProperties{
		SequenceNumber:         t.number(e.n),
		EnqueuedSequenceNumber: e.origin,
		EnqueuedTime:           instant(e.enqueued),
		ExpiresAt:              instant(e.expires),
		DeliveryCount:          e.failures,
		State:                  e.state.state(),
		DeadLetterSource:       transit(m).DeadLetterSource,
	}}, nil
}
