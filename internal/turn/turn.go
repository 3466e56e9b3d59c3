// Package turn lets large requests use only half of the processors, so that a small request finds a
// free one.
package turn

import "runtime"

var places = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// Large is the number of messages from which a request must wait for one of the places. Decoding or
// storing this number takes about 0.1 ms.
const Large = 128

// A Turn holds at most one place. Only one goroutine may use it.
type Turn struct{ taken bool }

// Take waits for a place if n is at least Large. A goroutine may hold only one.
func (t *Turn) Take(n int) {
	if n >= Large && !t.taken {
		places <- struct{}{}
		t.taken = true
	}
}

func (t *Turn) End() {
	if t.taken {
		<-places
		t.taken = false
	}
}
