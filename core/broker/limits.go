package broker

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// quotas are those of the namespace now; zeros bound nothing.
func (b *Broker) quotas() core.NamespaceQuotas {
	if b.options.Quotas == nil {
		return core.NamespaceQuotas{}
	}
	return b.options.Quotas()
}

// maxEntities is how many queues and topics there may be; 0 is any number.
func (b *Broker) maxEntities() int {
	quota, limit := b.quotas().MaxEntities, b.options.Limits.MaxEntities
	if quota <= 0 || limit > 0 && limit < quota {
		return limit
	}
	return quota
}

// roomForSize refuses an entity, new or with new settings, whose size would exceed
// what all together may have. Call it under sizeQuota until the entity is stored.
func (b *Broker) roomForSize(ctx context.Context, ent *core.Entity) error {
	quota, size := b.quotas().MaxSizeMegabytes, totalMegabytes(ent)
	if quota <= 0 || ent.Kind == core.Subscription {
		return nil
	}
	others := int64(0)
	for _, k := range [...]core.Kind{core.Queue, core.Topic} {
		for skip := 0; ; skip += maxTop {
			page, err := b.store.Entities(ctx, b.namespace, core.Listing{Kind: k}, skip, maxTop)
			if err != nil {
				return b.refusal(err, ent)
			}
			for i := range page {
				if page[i].ID != ent.ID {
					others += totalMegabytes(&page[i])
				}
			}
			if len(page) < maxTop {
				break
			}
		}
	}
	if others+size > quota {
		return core.Refuse(core.QuotaExceeded, "The queues and topics of the namespace '%s' may have %d MB together: others have %d, and %d more are wanted.", b.name, quota, others, size)
	}
	return nil
}

// sizeQuota has those who make entities, or change them, wait for each other where
// their sizes count.
func (b *Broker) sizeQuota() (unlock func()) {
	if b.quotas().MaxSizeMegabytes <= 0 {
		return func() {}
	}
	b.sizing.Lock()
	return b.sizing.Unlock
}

// checkSettings refuses settings that no entity, or none of the namespace, may have.
func (b *Broker) checkSettings(s *core.Settings) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return b.options.Limits.Check(s)
}

// residents is an estimate of how many queues and topics the namespace has:
// those counted last and those made here since. Only when it is old, or reaches
// the limit, they are counted.
type residents struct {
	mu sync.Mutex
	n  int
	at time.Time
}

// add notes one more.
func (r *residents) add() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
}

// roomForEntity refuses one more queue or topic where the namespace is full.
func (b *Broker) roomForEntity(ctx context.Context) error {
	limit, r := b.maxEntities(), &b.residents
	if limit <= 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n >= limit || time.Since(r.at) > censusAge {
		n := 0
		for _, k := range [...]core.Kind{core.Queue, core.Topic} {
			counted, err := b.countKind(ctx, k)
			if err != nil {
				return err
			}
			n += counted
		}
		r.n, r.at = n, time.Now()
	}
	if r.n >= limit {
		return core.Refuse(core.QuotaExceeded, "The namespace '%s' has %d queues and topics, and may have %d: delete some first.", b.name, r.n, limit)
	}
	return nil
}

func (b *Broker) countKind(ctx context.Context, k core.Kind) (n int, err error) {
	for {
		page, err := b.store.Entities(ctx, b.namespace, core.Listing{Kind: k}, n, maxTop)
		if err != nil {
			return 0, b.refusal(err, &core.Entity{Kind: k})
		}
		if n += len(page); len(page) < maxTop {
			return n, nil
		}
	}
}
