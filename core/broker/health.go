package broker

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

// probeRun is one probe of the store, shared by all callers while it runs.
type probeRun struct {
	done  chan struct{}
	about core.About // this and err are set before done closes
	err   error
}

// Health implements core.Broker. Callers that ask at the same time share one probe.
func (b *Broker) Health(ctx context.Context) (core.About, error) {
	b.probe.mu.Lock()
	run := b.probe.now
	if run == nil {
		run = &probeRun{done: make(chan struct{})}
		if !b.goOpen(func() { b.runProbe(run) }) {
			b.probe.mu.Unlock()
			return core.About{}, entity.ErrStopping
		}
		b.probe.now = run
	}
	b.probe.mu.Unlock()
	select {
	case <-run.done:
		return run.about, run.err
	case <-ctx.Done():
		return core.About{}, context.Cause(ctx)
	}
}

func (b *Broker) runProbe(run *probeRun) {
	ctx, cancel := context.WithTimeout(b.base, probeTimeout)
	defer cancel()
	if run.err = b.store.Probe(ctx); run.err == nil {
		run.about = b.store.About(ctx)
	}
	b.probe.mu.Lock()
	b.probe.now = nil
	b.probe.mu.Unlock()
	close(run.done)
}
