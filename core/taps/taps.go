// Package taps shows messages as clients send them, without a part in their delivery: what is received
// a moment later is seen all the same.
package taps

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// The bounds of taps.
const (
	MaxTaps = 20 // of a namespace at a gateway
	// A tap holds as many messages, and bytes, until they are taken; what comes then is missed.
	maxHeld, maxHeldBytes = 10_000, 8 << 20
)

// ErrEnded says that the namespace has ended.
var ErrEnded = errors.New("the namespace has ended")

// Taps are those of a namespace at this gateway. Methods are safe for concurrent use.
type Taps struct {
	now  func() time.Time
	open atomic.Int32 // how many

	mu    sync.Mutex
	all   map[string][]*Tap // by folded name of the entity
	ended bool
}

// New makes a set of taps. now is the broker's clock.
func New(now func() time.Time) *Taps { return &Taps{now: now, all: map[string][]*Tap{}} }

// Open opens a tap of a queue or topic, which must be closed.
func (s *Taps) Open(entity string) (*Tap, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, ErrEnded
	}
	if s.open.Load() >= MaxTaps {
		return nil, core.Refuse(core.QuotaExceeded, "There are %d taps, which is the limit: close one.", MaxTaps)
	}
	t := &Tap{set: s, name: core.FoldName(entity), woken: make(chan struct{}, 1)}
	s.all[t.name] = append(s.all[t.name], t)
	s.open.Add(1)
	return t, nil
}

// End ends all taps.
func (s *Taps) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, list := range s.all {
		for _, t := range list {
			t.change(func() { t.ended = true })
		}
	}
}

// sent shows messages that were stored. numbers may be nil.
func (s *Taps) sent(entity string, group []*core.Message, numbers []int64) {
	s.mu.Lock()
	list := slices.Clone(s.all[entity])
	s.mu.Unlock()
	if len(list) == 0 {
		return
	}
	now := s.now()
	for i, m := range group {
		d := core.Delivery{Message: m}
		d.EnqueuedTime = now
		if m.ScheduledEnqueueTime.After(now) {
			d.State = core.Scheduled
		}
		if i < len(numbers) {
			if d.SequenceNumber = numbers[i]; d.SequenceNumber == 0 {
				continue // it was dropped as a duplicate
			}
		}
		for _, t := range list {
			t.add(d)
		}
	}
}

// Tap is a view of what clients send to one queue or topic.
type Tap struct {
	set   *Taps
	name  string
	woken chan struct{}

	mu     sync.Mutex
	held   []core.Delivery
	bytes  int
	missed int
	ended  bool
}

func (t *Tap) change(f func()) {
	t.mu.Lock()
	f()
	t.mu.Unlock()
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

func (t *Tap) add(d core.Delivery) {
	size := d.Size()
	t.change(func() {
		if len(t.held) > 0 && (len(t.held) >= maxHeld || t.bytes+size > maxHeldBytes) {
			t.missed++
			return
		}
		t.held, t.bytes = append(t.held, d), t.bytes+size
	})
}

// Next waits for messages, and returns those that have come, and how many were missed since the last
// call. It may be called from one goroutine at a time. The error is that of ctx, or ErrEnded.
func (t *Tap) Next(ctx context.Context) (ds []core.Delivery, missed int, err error) {
	for {
		t.mu.Lock()
		ds, missed = t.held, t.missed
		t.held, t.bytes, t.missed = nil, 0, 0
		ended := t.ended
		t.mu.Unlock()
		switch {
		case len(ds) > 0 || missed > 0:
			return ds, missed, nil
		case ended:
			return nil, 0, ErrEnded
		}
		select {
		case <-t.woken:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// Close closes the tap.
func (t *Tap) Close() {
	s := t.set
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.all[t.name], t)
	if i < 0 {
		return
	}
	if s.all[t.name] = slices.Delete(s.all[t.name], i, i+1); len(s.all[t.name]) == 0 {
		delete(s.all, t.name)
	}
	s.open.Add(-1)
}
