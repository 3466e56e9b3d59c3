package wal

import (
	"context"
	"slices"
	"sync"
)

// Wait waits until everything up to a position, the end that Append returned or End, is as durable
// as Options.Sync promises. The error is a *FailedError, ErrClosed, or the context's.
func (l *Log) Wait(ctx context.Context, pos Position) error {
	if err := l.Err(); err != nil {
		return err
	}
	if pos <= l.Durable() {
		return nil
	}
	w := l.waits.add(pos)
	defer l.waits.release(w)
	if l.o.Sync != Always { // a sync takes too long for a caller whose context may end
		l.lead()
	}
	if pos <= l.Durable() { // since the first look, perhaps before add
		l.waits.remove(w)
		return l.Err()
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		l.waits.remove(w)
		return context.Cause(ctx)
	case <-l.failed:
		l.waits.remove(w)
	case <-l.ended:
		l.waits.remove(w)
	}
	if err := l.Err(); err != nil {
		return err
	}
	if pos > l.Durable() {
		return ErrClosed
	}
	return nil
}

// waits are the callers of Wait.
type waits struct {
	mu    sync.Mutex
	list  []*waiter
	spare []*waiter
}

type waiter struct {
	pos  Position
	done chan struct{} // one value when the position is reached
}

func (w *waits) add(pos Position) *waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	var x *waiter
	if n := len(w.spare); n > 0 {
		x, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		x = &waiter{done: make(chan struct{}, 1)}
	}
	x.pos = pos
	w.list = append(w.list, x)
	return x
}

// remove takes a waiter off the list, if it is still there, and its signal.
func (w *waits) remove(x *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.list, x); i >= 0 {
		w.list = slices.Delete(w.list, i, i+1)
	}
	select {
	case <-x.done:
	default:
	}
}

func (w *waits) release(x *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spare = append(w.spare, x)
}

// signal ends the waits for positions up to pos.
func (w *waits) signal(pos Position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.list[:0]
	for _, x := range w.list {
		if x.pos <= pos {
			x.done <- struct{}{}
		} else {
			left = append(left, x)
		}
	}
	clear(w.list[len(left):])
	w.list = left
}
