package wal

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Wait waits until everything up to pos (a result of Append or End) is as durable as Options.Sync
// promises. The error is a *FailedError, ErrClosed, or the context's.
func (l *Log) Wait(ctx context.Context, pos Position) error {
	if err := l.Err(); err != nil {
		return err
	}
	if pos <= l.Durable() {
		return nil
	}
	w := l.waits.add(pos)
	defer l.waits.release(w)
	if l.o.Sync != Always { // with Always, lead would sync, which takes too long for a caller whose ctx may end
		l.lead()
	}
	if pos <= l.Durable() { // perhaps pos became durable before w was added
		return l.Err()
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.failed:
	case <-l.ended:
	}
	if err := l.Err(); err != nil {
		return err
	}
	if pos > l.Durable() {
		return ErrClosed
	}
	return nil
}

type waits struct {
	mu    sync.Mutex
	list  []*waiter
	spare []*waiter
}

type waiter struct {
	pos    Position
	done   chan struct{} // gets one value when pos is durable
	listed bool          // in waits.list
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
	x.pos, x.listed = pos, true
	w.list = append(w.list, x)
	return x
}

// release discards the signal that x.done may contain.
func (w *waits) release(x *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x.listed {
		w.list = slices.DeleteFunc(w.list, func(other *waiter) bool { return other == x })
	}
	select {
	case <-x.done:
	default:
	}
	w.spare = append(w.spare, x)
}

func (w *waits) signal(pos Position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.list[:0]
	for _, x := range w.list {
		if x.pos <= pos {
			x.listed = false
			x.done <- struct{}{}
		} else {
			left = append(left, x)
		}
	}
	clear(w.list[len(left):])
	w.list = left
}

type dirty struct {
	mu       sync.Mutex
	segments []*segment
	dir      bool
}

func (d *dirty) add(s *segment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.segments); n == 0 || d.segments[n-1] != s {
		d.segments = append(d.segments, s)
	}
}

func (d *dirty) addDir() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dir = true
}

func (d *dirty) take() (segments []*segment, dir bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	segments, dir = d.segments, d.dir
	d.segments, d.dir = nil, false
	return segments, dir
}

func (l *Log) sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	// A segment becomes dirty before l.written advances, so the dirty ones have all up to upto.
	upto := l.written.Load()
	segments, dir := l.dirty.take()
	var err error
	for _, s := range segments {
		if err = l.syncSegment(s); err != nil {
			break
		}
	}
	if err == nil && dir {
		err = l.fs.SyncDir(l.dir)
	}
	if err != nil {
		l.fail(err)
		return l.Err()
	}
	l.synced.Store(upto)
	for _, s := range segments {
		l.segments.idle(s)
	}
	return nil
}

// syncInBackground syncs some time after the first write (with Sync Interval), or when a segment is
// sealed (with Sync Never).
func (l *Log) syncInBackground() {
	timer := time.NewTimer(l.o.Interval)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-l.wakeSyncer:
		case <-l.closing:
			return
		}
		if l.o.Sync == Interval {
			timer.Reset(l.o.Interval)
			select {
			case <-timer.C:
			case <-l.closing:
				return
			}
		}
		if l.sync() != nil {
			return
		}
	}
}
