package state

import (
	"slices"
	"sync"
)

// hooks are functions to call, kept by what they want to hear of. The zero
// hooks are empty.
type hooks[K comparable, F any] struct {
	mu    sync.RWMutex
	byKey map[K][]*F // the slices are replaced, never changed: callers range over them without the mutex
}

// add registers f for key until stop is called. stop may be called repeatedly.
func (h *hooks[K, F]) add(key K, f F) (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byKey == nil {
		h.byKey = make(map[K][]*F)
	}
	own := &f
	h.byKey[key] = append(slices.Clip(h.byKey[key]), own)
	return func() { h.remove(key, own) }
}

func (h *hooks[K, F]) remove(key K, own *F) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := make([]*F, 0, len(h.byKey[key]))
	for _, f := range h.byKey[key] {
		if f != own {
			rest = append(rest, f)
		}
	}
	h.byKey[key] = rest
	if len(rest) == 0 {
		delete(h.byKey, key)
	}
}

// of returns the functions registered for key.
func (h *hooks[K, F]) of(key K) []*F {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.byKey[key]
}
