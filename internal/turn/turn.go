// Package turn lets large requests use only half of the processors, so that a small request finds one
// that is free.
package turn

import "runtime"

// places has a place for each large request that may be decoded or stored at the same time.
var places = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// Large is the number of messages from which on a request is large. To decode or store them takes
// about 0.1 ms.
const Large = 128

// Turn is one request's right to use a processor for long. The zero Turn does not have it yet. Only
// one goroutine uses a Turn.
type Turn struct{ taken bool }

// Take waits for a place if a request with n messages is large. It must not be called by a goroutine
// that has taken another Turn.
func (t *Turn) Take(n int) {
	if n >= Large && !t.taken {
		places <- struct{}{}
		t.taken = true
	}
}

// End gives the place back if t has one.
func (t *Turn) End() {
	if t.taken {
		<-places
		t.taken = false
	}
}
