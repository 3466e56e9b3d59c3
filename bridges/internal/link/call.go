package link

import (
	"context"
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

// Ask runs f(i) as a job of the i-th owner, for all of them, until ctx ends. It returns the answers of
// those that have not ended before.
func Ask[T any](ctx context.Context, owners []*Owner, f func(i int) T) []T {
	answers := make([]chan T, len(owners))
	for i, o := range owners {
		answers[i] = make(chan T, 1) // so that no owner waits
		o.Post(func() { answers[i] <- f(i) })
	}
	var all []T
	for i, o := range owners {
		select {
		case told := <-answers[i]:
			all = append(all, told)
			continue
		case <-o.Ended():
		case <-ctx.Done():
		}
		select { // it may have answered all the same
		case told := <-answers[i]:
			all = append(all, told)
		default:
		}
	}
	return all
}
