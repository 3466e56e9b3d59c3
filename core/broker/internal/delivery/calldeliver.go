package delivery

import (
	"reflect"
	"runtime"

	"github.com/crosstown-mq/crosstown/core"
)

// callDeliver is the only caller of a receiver's Deliver. isInDeliver finds it on the stack.
func callDeliver(deliver func([]core.Delivery), ds []core.Delivery) { deliver(ds) }

var callDeliverName = runtime.FuncForPC(reflect.ValueOf(callDeliver).Pointer()).Name()

// isInDeliver reports whether the current goroutine is within a Deliver. A receiver that is closed
// there cannot wait for the Deliver to end.
func isInDeliver() bool {
	pcs := make([]uintptr, 64)
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs)
		for frames, more := runtime.CallersFrames(pcs[:n]), n > 0; more; {
			var f runtime.Frame
			if f, more = frames.Next(); f.Function == callDeliverName {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}
