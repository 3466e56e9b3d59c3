package wal

import (
	"sync"
	"time"
)

// dirty is what a sync has to sync.
type dirty struct {
	mu       sync.Mutex
	segments []*segment // by position
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

// sync makes everything written durable. An error is final.
func (l *Log) sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	// What is written is marked before l.written moves, so what is taken covers it.
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

// syncInBackground is the goroutine that syncs what is written under Sync Interval, some time
// after the first write, and under Sync Never when a segment is sealed.
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
