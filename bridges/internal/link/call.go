package link

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
)

// Call runs work in a goroutine of its own, and then done with what work has returned as a job of the
// owner. err is not nil if work has panicked.
func Call(tasks *sync.WaitGroup, o *Owner, work func() (then func()), done func(then func(), err error)) {
	Go(tasks, func() {
		then, err := attempt(work)
		o.Do(func() { done(then, err) })
	})
}

// attempt is work, and an error where it panics.
func attempt(work func() (then func())) (then func(), err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return work(), nil
}

// End ends what a connection that is over holds, by letGo, and waits for its calls. What those that outlived the
// connection have opened is let go as well.
func End(tasks *sync.WaitGroup, o *Owner, log *slog.Logger, letGo func()) {
	defer func() {
		if r := recover(); r != nil { // a panic may be why the connection ended
			log.Error("connection", "err", r, "stack", string(debug.Stack()))
		}
	}()
	letGo()
	for tasks.Wait(); o.Finish(); tasks.Wait() {
		letGo()
	}
}
