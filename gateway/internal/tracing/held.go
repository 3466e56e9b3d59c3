package tracing

import (
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/crosstown-mq/crosstown/core"
)

// maxHeld is the number of deliveries that are remembered until they are settled: beyond
// that the oldest are forgotten, and their settlements have no span.
const maxHeld = 20_000

// held knows the spans of messages that were delivered here and are locked.
type held struct {
	mu    sync.Mutex
	spans map[core.LockToken]trace.SpanContext
	order []core.LockToken // a ring: what was added last overwrites what was first
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

// find returns the span of a delivery; it is not valid where none is known.
func (h *held) find(t core.LockToken) trace.SpanContext {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.spans[t]
}

// forget is for deliveries whose locks have ended.
func (h *held) forget(t core.LockToken) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.spans, t)
}
