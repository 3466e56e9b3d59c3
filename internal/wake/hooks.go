package wake

import (
	"slices"
	"sync"
)

// Hooks has functions to call, by key. The zero value is ready for use.
type Hooks[K comparable, F any] struct {
	mu    sync.RWMutex
	byKey map[K][]*F // by copy-on-write: callers iterate over a slice without the mutex
}

func (h *Hooks[K, F]) Add(key K, f F) (remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byKey == nil {
		h.byKey = make(map[K][]*F)
	}
	own := &f
	h.byKey[key] = append(slices.Clip(h.byKey[key]), own)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		rest := slices.DeleteFunc(slices.Clone(h.byKey[key]), func(f *F) bool { return f == own })
		if h.byKey[key] = rest; len(rest) == 0 {
			delete(h.byKey, key)
		}
	}
}

func (h *Hooks[K, F]) Of(key K) []*F {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.byKey[key]
}
