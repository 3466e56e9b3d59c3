package link

import "sync"

// stackSize is about how many bytes of stack a call to the broker, or the work
// of a connection, takes.
const stackSize = 8 << 10

// growStack gives a new goroutine its stack at once. Else the stack grows in
// several steps, each of which copies what is there: that took 20 % of the time
// of a gateway that few clients use. The array is indexed by an argument, or the
// compiler would leave it out.
//
//go:noinline
func growStack(i int) byte {
	var room [stackSize]byte
	room[i] = 1
	return room[stackSize-1-i]
}

// Go runs f in a goroutine that has a stack large enough for calls to the broker.
func Go(wg *sync.WaitGroup, f func()) {
	wg.Go(func() {
		growStack(0)
		f()
	})
}
