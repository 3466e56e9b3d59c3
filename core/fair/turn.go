package fair

import "runtime"

// turns has a place for each large request that may be decoded at the same time: for half of the
// processors, so that small requests find one free.
var turns = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// longWork is the memory in bytes from which on a request takes a turn. Decoding it takes 0.1 to 1 ms.
const longWork = 256 << 10

// Turn is the right to decode a large request. The zero Turn is not held. One goroutine uses it.
type Turn struct{ held bool }

// Take waits for the turn of a request that takes n bytes of memory. It does nothing for a small
// request, or if the turn is held.
func (t *Turn) Take(n int64) {
	if n >= longWork && !t.held {
		turns <- struct{}{}
		t.held = true
	}
}

// End ends the turn if it is held.
func (t *Turn) End() {
	if t.held {
		<-turns
		t.held = false
	}
}
