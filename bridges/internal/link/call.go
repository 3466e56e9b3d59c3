package link

import (
	"fmt"
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
