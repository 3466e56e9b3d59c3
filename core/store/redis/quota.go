package redis

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/crosstown-mq/crosstown/core"
)

// quota estimates the bytes of a partition: the last measurement, plus what this gateway has stored
// since. Other gateways store messages too, so the closer the estimate is to the limit, the sooner
// the partition is measured again.
type quota struct {
	mu        sync.Mutex
	measured  int64
	at        time.Time // time of the last measurement; zero: none
	pause     time.Duration
	since     int64 // bytes stored since the time at, including pending
	pending   int64
	measuring singleflight.Group // has its own mutex; returns whether the context of the measuring call has ended
}

// quotaFresh is how long a measured size stays valid while the partition is more than half full.
const quotaFresh = time.Second

type sizeBudget struct {
	quota   *quota
	max     int64 // 0: no limit
	failure error
}

// refresh measures the partition if the estimate is too old. One call measures, without holding mu.
// Concurrent calls wait for its result, so they all wait equally long if Redis does not answer.
func (q *quota) refresh(ctx context.Context, max int64, measure func() (measured, error)) error {
	for q.isStale(max) {
		result := q.measuring.DoChan("", func() (any, error) {
			found, err := measure()
			q.mu.Lock()
			defer q.mu.Unlock()
			if err == nil {
				q.note(found)
			}
			return ctx.Err() != nil, err
		})
		select {
		case r := <-result:
			if gaveUp, _ := r.Val.(bool); r.Err == nil || !gaveUp || ctx.Err() != nil {
				return r.Err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (q *quota) isStale(max int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.recent() {
		return false
	}
	estimate := q.measured + q.since
	return q.at.IsZero() || estimate >= max ||
		estimate >= max/2 && time.Since(q.at) > quotaFresh ||
		q.since > (max-q.measured)/4+1<<20
}

func (q *quota) recent() bool { return time.Since(q.at) < q.pause }

// A measurement that takes longer than muchWork is repeated so rarely that Redis spends at most
// 1/measureShare of its time on it.
const (
	muchWork     = 2 * time.Millisecond
	measureShare = 100
)

func (q *quota) note(m measured) {
	q.measured, q.at, q.since, q.pause = m.bytes, time.Now(), q.pending, 0
	if m.work > muchWork {
		q.pause = measureShare * m.work
	}
}

func (r sizeBudget) take(size int) error {
	if r.max <= 0 {
		return nil
	}
	if r.failure != nil {
		return r.failure
	}
	q := r.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := core.CheckSize(q.measured+q.since, r.max); err != nil {
		return err
	}
	q.since += int64(size)
	q.pending += int64(size)
	return nil
}

func (r sizeBudget) give(size int) {
	if r.max <= 0 {
		return
	}
	r.quota.mu.Lock()
	defer r.quota.mu.Unlock()
	r.quota.since -= int64(size)
	r.quota.pending -= int64(size)
}

func (q *quota) stored(size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = max(0, q.pending-int64(size))
}

// lately returns the estimate. ok is true if it is too early to measure again.
func (q *quota) lately() (bytes int64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.measured + q.since, q.recent()
}

type measured struct {
	bytes int64
	work  time.Duration // approximate time that Redis needed
}
