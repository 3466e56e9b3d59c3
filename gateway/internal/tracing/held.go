package tracing

import (
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/crosstown-mq/crosstown/core"
)

// maxHeld is how many deliveries are remembered until they are settled. Beyond that the oldest are
// forgotten, and their settlements have no span.
const maxHeld = 20_000

// held remembers the spans of messages that were delivered here and are locked.
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

// find returns the span of a delivery, or an invalid one if no span is known.
func (h *held) find(t core.LockToken) trace.SpanContext {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.spans[t]
}

// forget forgets a delivery whose lock has ended.
func (h *held) forget(t core.LockToken) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.spans, t)
}
