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
	mu       sync.Mutex
	measured int64
	at       time.Time // of the measurement; zero: none
	since    int64     // bytes added since, including those pending
	pending  int64     // bytes on their way
}

// quotaFresh is how long a measurement holds while the partition is more than half full.
const quotaFresh = time.Second

// room is one call's view of a quota.
type room struct {
	quota   *quota
	max     int64 // 0: no limit
	failure error
}

// open begins a call that appends, and measures if the answer may depend on it.
func (q *quota) open(ctx context.Context, s *Store, sh *shard) room {
	r := room{quota: q, max: sh.MaxBytes}
	if r.max <= 0 {
		return r
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	estimate := q.measured + q.since
	stale := q.at.IsZero() || estimate >= r.max ||
		estimate >= r.max/2 && time.Since(q.at) > quotaFresh ||
		q.since > (r.max-q.measured)/4+1<<20
	if !stale {
		return r
	}
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	bytes, err := s.measureAll(bounded, sh)
	switch {
	case err != nil && ctx.Err() != nil:
		r.failure = fmt.Errorf("measure %s: %w", sh.keys.prefix, ended(ctx))
		return r
	case err != nil:
		r.failure = explain("measure "+sh.keys.prefix, err)
		return r
	}
	q.measured, q.at, q.since = bytes, time.Now(), q.pending
	return r
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

// measure asks how many bytes the messages take. An empty stream counts as nothing.
func (s *Store) measure(ctx context.Context, sh *shard) (int64, error) {
	n, err := s.number(ctx, "XLEN", sh.keys.stream)
	if err != nil || n == 0 {
		return 0, err
	}
	return s.number(ctx, "MEMORY", "usage", sh.keys.stream) // in lower case go-redis knows where its key stands
}

// measureAll is measure for what counts against a partition's quota: of a topic
// the messages of its subscriptions too, without dead letters.
func (s *Store) measureAll(ctx context.Context, sh *shard) (int64, error) {
	sum, err := s.measure(ctx, sh)
	if err != nil || sh.Subscription != "" {
		return sum, err
	}
	subscriptions, err := s.rdb.SMembers(ctx, s.names.subscriptions(sh.Ref)).Result()
	if err != nil || len(subscriptions) == 0 {
		return sum, err
	}
	streams := make([]string, len(subscriptions))
	lengths := make([]*redis.IntCmd, len(subscriptions))
	pipe := s.rdb.Pipeline()
	for i, id := range subscriptions {
		streams[i] = s.names.stream(core.Ref{Entity: sh.Entity, Subscription: id, Index: sh.Index})
		lengths[i] = pipe.XLen(ctx, streams[i])
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, err
	}
	pipe = s.rdb.Pipeline()
	bodies := pipe.HGet(ctx, s.names.refs(sh.Ref), "bytes")
	var sizes []*redis.IntCmd
	for i, stream := range streams {
		if lengths[i].Val() > 0 {
			sizes = append(sizes, pipe.MemoryUsage(ctx, stream))
		}
	}
	if _, err := pipe.Exec(ctx); err != nil && !isNil(err) {
		return 0, err
	}
	shared, _ := bodies.Int64() // nil: there are none
	sum += shared
	for _, size := range sizes {
		sum += size.Val() // 0 if it went meanwhile
	}
	return sum, nil
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
