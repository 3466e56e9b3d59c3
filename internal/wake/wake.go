// Package wake has the signal with which goroutines tell another one that it has something to do.
package wake

// Signal is what the other goroutine receives from. It holds at most one signal.
type Signal chan struct{}

// New returns a signal that is not set.
func New() Signal { return make(Signal, 1) }

// Set wakes the goroutine that receives from s, now or next. It does not block.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}
