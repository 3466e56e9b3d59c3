package broker

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

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
	limit, r := b.options.Limits.MaxEntities, &b.residents
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
		return core.Refuse(core.QuotaExceeded, "The namespace '%s' has %d queues and topics, and may have %d: delete some first.", b.namespace, r.n, limit)
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
