package tracing

import (
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/crosstown-mq/crosstown/core"
)

// Beyond maxHeld, the oldest deliveries are forgotten: their settlements have no span.
const maxHeld = 20_000

type held struct {
	mu    sync.Mutex
	spans map[core.LockToken]trace.SpanContext
	order []core.LockToken // a ring: the newest overwrites the oldest
	next  int
}

func newHeld(most int) *held {
	return &held{spans: make(map[core.LockToken]trace.SpanContext), order: make([]core.LockToken, most)}
}

func (h *held) put(t core.LockToken, c trace.SpanContext) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.spans, h.order[h.next])
	h.order[h.next] = t
	h.next = (h.next + 1) % len(h.order)
	h.spans[t] = c
}

func (h *held) find(t core.LockToken) trace.SpanContext {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.spans[t]
}

func (h *held) forget(t core.LockToken) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.spans, t)
}
