package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
)

// quota estimates how many bytes a partition takes: what Redis said last, and
// what this gateway has added since. Other gateways add too, so the nearer the
// estimate is to the limit, the sooner it is measured again.
type quota struct {
	mu        sync.Mutex
	measured  int64
	at        time.Time    // of the measurement; zero: none
	since     int64        // bytes added since, including those pending
	pending   int64        // bytes on their way
	measuring *measurement // under way; nil: none
}

// measurement is a question to Redis whose answer all calls share that need it.
type measurement struct {
	done chan struct{}
	// Set before done closes.
	gaveUp bool  // the call that asked ended before the answer came
	err    error // why Redis did not answer
}

// quotaFresh is how long a measurement holds while the partition is more than half full.
const quotaFresh = time.Second

// room is one call's view of a quota.
type room struct {
	quota   *quota
	max     int64 // 0: no limit
	failure error
}

// room begins a call that appends, and measures if the answer may depend on it.
func (s *Store) room(ctx context.Context, sh *shard) room {
	r := room{quota: &sh.quota, max: sh.MaxBytes}
	if r.max <= 0 {
		return r
	}
	err := sh.quota.refresh(ctx, r.max, func() (int64, error) {
		bounded, cancel := s.bounded(ctx)
		defer cancel()
		return s.measure(bounded, sh)
	})
	switch {
	case err != nil && ctx.Err() != nil:
		r.failure = core.CertainlyNotDone(fmt.Errorf("measure %s: %w", sh.keys.prefix, ended(ctx)))
	case err != nil:
		r.failure = core.CertainlyNotDone(explain("measure "+sh.keys.prefix, err))
	}
	return r
}

// refresh measures if the estimate is stale for a limit of max bytes. One call
// measures at a time, without the mutex; the others wait for what it finds, so that
// a Redis that does not answer costs all of them the same wait.
func (q *quota) refresh(ctx context.Context, max int64, measure func() (int64, error)) error {
	for {
		q.mu.Lock()
		if !q.stale(max) {
			q.mu.Unlock()
			return nil
		}
		m := q.measuring
		if m == nil {
			m = &measurement{done: make(chan struct{})}
			q.measuring = m
			q.mu.Unlock()
			return q.finish(ctx, m, measure)
		}
		q.mu.Unlock()
		select {
		case <-m.done:
			if !m.gaveUp {
				return m.err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stale reports whether a limit of max bytes asks for another measurement.
func (q *quota) stale(max int64) bool {
	estimate := q.measured + q.since
	return q.at.IsZero() || estimate >= max ||
		estimate >= max/2 && time.Since(q.at) > quotaFresh ||
		q.since > (max-q.measured)/4+1<<20
}

// finish measures, and tells those that wait.
func (q *quota) finish(ctx context.Context, m *measurement, measure func() (int64, error)) error {
	bytes, err := measure()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.measuring = nil
	defer close(m.done)
	if err == nil {
		q.measured, q.at, q.since = bytes, time.Now(), q.pending
	}
	m.err, m.gaveUp = err, err != nil && ctx.Err() != nil
	return err
}

// take admits a group of so many bytes, or refuses it because the partition is
// full already.
func (r room) take(size int) error {
	if r.max <= 0 {
		return nil
	}
	if r.failure != nil {
		return r.failure
	}
	q := r.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	if bytes := q.measured + q.since; bytes >= r.max {
		return core.Refuse(core.QuotaExceeded,
			"The maximum entity size has been reached or exceeded. Size of entity in bytes: %d, max entity size in bytes: %d.",
			bytes, r.max)
	}
	q.since += int64(size)
	q.pending += int64(size)
	return nil
}

// give takes back a group that was not sent.
func (r room) give(size int) {
	if r.max <= 0 {
		return
	}
	r.quota.mu.Lock()
	defer r.quota.mu.Unlock()
	r.quota.since -= int64(size)
	r.quota.pending -= int64(size)
}

// landed notes that so many bytes are on their way no longer.
func (q *quota) landed(size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = max(0, q.pending-int64(size))
}

// measure is the memory that a queue takes, and with a topic's own that of its
// subscriptions', without dead letters: what counts against a partition's quota.
func (s *Store) measure(ctx context.Context, sh *shard) (size int64, err error) {
	own := sh.Subscription == "" && sh.Sub == core.Main
	pipe := s.rdb.Pipeline()
	length, usage := pipe.XLen(ctx, sh.keys.stream), pipe.MemoryUsage(ctx, sh.keys.stream)
	var subscriptions *redis.IntCmd
	if own {
		subscriptions = pipe.Exists(ctx, s.names.subscriptions(sh.Ref))
	}
	if err := failed(pipe.Exec(ctx)); err != nil {
		return 0, err
	}
	if length.Val() > 0 { // an empty stream takes memory, too, but what it has held is gone
		size = usage.Val()
	}
	if own && subscriptions.Val() > 0 {
		sizes, errs := s.measureSubscriptions(ctx, []core.Ref{sh.Ref})
		return size + sizes[0], errs[0]
	}
	return size, nil
}

// number runs a command that answers an integer, 0 for nil.
func (s *Store) number(ctx context.Context, args ...any) (int64, error) {
	reply, err := s.do(ctx, args...)
	if err != nil && !isNil(err) {
		return 0, err
	}
	n, _ := reply.(int64)
	return n, nil
}
