// Package taps shows messages as clients send them, whatever happens to them next: even those that
// are received at once.
package taps

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/intercept"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	maxTaps = 20 // taps open at the same time, per namespace and gateway
	// A tap holds up to maxHeld messages, of maxHeldBytes together, and misses further ones.
	maxHeld, maxHeldBytes = 10_000, 8 << 20
)

var ErrEnded = errors.New("the namespace was deleted")

// Taps are the taps of a namespace at this gateway. They are safe for concurrent use.
type Taps struct {
	now    func() time.Time
	open   atomic.Int32
	places *fair.Pool
	memory *fair.Pool

	mu    sync.Mutex
	all   map[string][]*Tap
	ended bool
}

// New returns Taps. memory bounds the messages that they hold; now returns the broker's time.
func New(now func() time.Time, memory *fair.Pool) *Taps {
	return &Taps{now: now, memory: memory, places: fair.NewPlaces(maxTaps, "recordings of the namespace", memory.Gauge()), all: map[string][]*Tap{}}
}

func (s *Taps) Open(entity string, by fair.Who) (*Tap, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, ErrEnded
	}
	vacate, err := s.places.Open(by, 1)
	if err != nil {
		return nil, err
	}
	t := &Tap{set: s, name: core.FoldName(entity), woken: wake.New(), vacate: vacate, share: s.memory.Share(nil)}
	t.share.Join(by)
	s.all[t.name] = append(s.all[t.name], t)
	s.open.Add(1)
	return t, nil
}

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

// sent passes a group, with its sequence numbers (nil: unknown), to the entity's taps.
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
				continue // dropped as a duplicate
			}
		}
		for _, t := range list {
			t.add(d)
		}
	}
}

type Tap struct {
	set    *Taps
	name   string
	woken  wake.Signal
	vacate func()
	share  *fair.Share // memory of held messages, and of those that Next has returned last

	mu     sync.Mutex
	held   []core.Delivery
	bytes  int
	taken  int // bytes of the messages that Next has returned last
	missed int
	ended  bool
}

func (t *Tap) change(f func()) {
	t.mu.Lock()
	f()
	t.mu.Unlock()
	t.woken.Set()
}

func (t *Tap) add(d core.Delivery) {
	size := d.Size() + fair.Message
	t.change(func() {
		if len(t.held) > 0 && (len(t.held) >= maxHeld || t.bytes+size > maxHeldBytes) || !t.share.Take(int64(size)) {
			t.missed++
			return
		}
		t.held, t.bytes = append(t.held, d), t.bytes+size
	})
}

// Next waits for messages, and returns them with the number of messages that were missed since the
// last call. Calls must not overlap. The error is that of ctx, or ErrEnded.
func (t *Tap) Next(ctx context.Context) (ds []core.Delivery, missed int, err error) {
	for {
		t.mu.Lock()
		ds, missed = t.held, t.missed
		t.share.Add(-int64(t.taken))
		t.held, t.bytes, t.missed, t.taken = nil, 0, 0, t.bytes
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
	t.vacate()
	t.share.Close()
}

type sending struct {
	entity string
	group  []*core.Message
}

// Intercept shows the messages that a call has sent or, after a commit, those of the transaction.
func (s *Taps) Intercept(ctx context.Context, c *intercept.Call) {
	c.Next(ctx)
	if s.open.Load() == 0 || c.Err != nil {
		return
	}
	switch {
	case c.Op == intercept.Commit:
		all, _ := c.Link.Kept(s).([]sending)
		for _, each := range all {
			s.sent(each.entity, each.group, nil)
		}
	case c.InTransaction() && len(c.Groups) > 0:
		all, _ := c.Link.Kept(s).([]sending)
		c.Link.Keep(s, append(all, sending{core.FoldName(c.Address.Entity), c.Groups[0]}))
	case c.Op == intercept.Send:
		for i, answer := range c.Appended {
			if answer.Err == nil {
				s.sent(core.FoldName(c.Address.Entity), c.Groups[i], answer.Numbers)
			}
		}
	}
}
