// Package turn lets large requests use only half of the processors, so that a small request finds a
// free one.
package turn

import "runtime"

// places limits the number of large requests that are decoded or stored at the same time.
var places = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// Large is the number of messages from which on a request is large. Decoding or storing them takes
// about 0.1 ms.
const Large = 128

// Turn is one request's right to use a processor for long. The zero Turn is not taken. Only one
// goroutine may use a Turn.
type Turn struct{ taken bool }

// Take waits for a turn if a request with n messages is large. It must not be called by a goroutine
// that has taken another Turn.
func (t *Turn) Take(n int) {
	if n >= Large && !t.taken {
		places <- struct{}{}
		t.taken = true
	}
}

// End does nothing if t is not taken.
func (t *Turn) End() {
	if t.taken {
		<-places
		t.taken = false
	}
}
