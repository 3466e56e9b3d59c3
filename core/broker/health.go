package broker

import "context"

// probeRun is one probe of the store, shared by all who ask while it runs.
type probeRun struct {
	done chan struct{}
	err  error // set before done closes
}

// Health implements core.Broker. Callers that ask at the same time share one probe.
func (b *Broker) Health(ctx context.Context) error {
	b.probe.mu.Lock()
	run := b.probe.now
	if run == nil {
		run = &probeRun{done: make(chan struct{})}
		if !b.goOpen(func() { b.runProbe(run) }) {
			b.probe.mu.Unlock()
			return errStopping
		}
		b.probe.now = run
	}
	b.probe.mu.Unlock()
	select {
	case <-run.done:
		return run.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *Broker) runProbe(run *probeRun) {
	ctx, cancel := context.WithTimeout(b.base, probeTimeout)
	defer cancel()
	run.err = b.store.Probe(ctx)
	b.probe.mu.Lock()
	b.probe.now = nil
	b.probe.mu.Unlock()
	close(run.done)
}
