package wake

import (
	"maps"
	"slices"
	"sync"
)

// Names collects the names of things that may have changed, for a goroutine that reads them again.
type Names struct {
	Woken Signal // set by Note
	mu    sync.Mutex
	names map[string]struct{}
}

func NewNames() *Names { return &Names{Woken: New(), names: map[string]struct{}{}} }

// Note adds a name, or all names for "", and wakes the goroutine that reads. It does not block.
func (n *Names) Note(name string) {
	n.Keep(name)
	n.Woken.Set()
}

// Keep adds names without waking the goroutine that reads.
func (n *Names) Keep(names ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range names {
		n.names[name] = struct{}{}
	}
}

// Take removes and returns the names. all reports whether "" is one of them.
func (n *Names) Take() (names []string, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	names = slices.Collect(maps.Keys(n.names))
	_, all = n.names[""]
	clear(n.names)
	return names, all
}
