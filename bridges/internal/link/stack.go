package link

import "sync"

// stackSize is about how many bytes of stack a call to the broker, or the work
// of a connection, takes.
const stackSize = 8 << 10

// growStack gives a new goroutine its stack at once. Else the stack grows in
// several steps, each of which copies what is there: that took 7 % of the time
// of a gateway that few clients use.
//
//go:noinline
func growStack() byte {
	var room [stackSize]byte
	return room[len(room)/2]
}

// Go runs f in a goroutine that has a stack large enough for calls to the broker.
func Go(wg *sync.WaitGroup, f func()) {
	wg.Go(func() {
		growStack()
		f()
	})
}
