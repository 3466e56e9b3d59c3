package link

import (
	"sync"
	"testing"
	"unsafe"
)

// A stack that grows is copied, and a variable on it moves.
func TestAGoroutineHasRoomForACallToTheBroker(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	var before, after uintptr
	Go(&wg, func() {
		var x byte
		before = uintptr(unsafe.Pointer(&x))
		useStack(0)
		after = uintptr(unsafe.Pointer(&x))
	})
	wg.Wait()
	if before != after {
		t.Error("the stack has grown during a call")
	}
}

// useStack takes most of stackSize.
//
//go:noinline
func useStack(i int) byte {
	var room [stackSize - 1<<10]byte
	room[i] = 1
	return room[len(room)-1-i]
}
