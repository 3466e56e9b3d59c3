package redis

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/record"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

// handOver lets a call that stores messages also lock some for a receiver of this gateway. The
// receiver then needs no wake-up and no lock call, and the gateway need not read the messages.
// lock.lua locks for that receiver only while no other gateway waits for messages of the queue;
// otherwise it wakes all gateways.
type handOver struct {
	store   *Store
	shard   *shard
	watcher core.Watcher
	lease   lease
	bytes   int64
	args    []any // arguments of lock.lua that follow those of the state
}

// reserve reserves a receiver's credit for a lock call, or returns nil if no receiver has credit.
// The call also returns the messages' records, if it locks at most inline messages.
func (s *Store) reserve(sh *shard, now int64, inline int) *handOver {
	if sh.Sessions {
		return nil
	}
	if _, lost := s.lostLocks.next(sh.place, now); lost {
		return nil
	}
	for _, w := range s.doorbells.WatchersOf(sh.keys.Doorbell) {
		most := w.Reserve()
		if most.Messages == 0 {
			continue
		}
		h := &handOver{store: s, shard: sh, watcher: w, lease: sh.lease(now), bytes: cmp.Or(most.Bytes, math.MaxInt64)}
		h.args = []any{h.lease.until, secret(h.lease.nonce), min(most.Messages, sh.affordable(h.bytes)), inline, s.server.ID, 1, s.blocksFrom(sh)}
		return h
	}
	return nil
}

// command returns the lock call, which must be sent after the commands that store messages.
func (h *handOver) command(ctx context.Context, now int64) *redis.Cmd {
	return redis.NewCmd(ctx, script.Lock.With(h.shard.features).Command(h.shard.state, append(h.shard.stateArgs(now), h.args...)...)...)
}

// fail makes the receiver call Lock itself. If the lock call may have run in spite of err, its
// locks are ended later. h may be nil.
func (h *handOver) fail(err error) {
	if h == nil {
		return
	}
	if conn.MayHaveRun(err) {
		h.store.lostLocks.add(h.shard.place, h.lease)
	}
	h.watcher.HandOver(nil, time.Time{}, true, nil) // without a delivery, the receiver calls Lock itself
}

// finish gives the watcher the messages that lock.lua has locked. reply and err are the answer of
// lock.lua. numbers is ascending, with 0 for each message that was not stored.
func (h *handOver) finish(ctx context.Context, reply []any, err error, numbers []int64, messages []stored) {
	if word := server.First(reply); err != nil || word != "ok" { // the script is not loaded, or more is due than one call sweeps
		h.fail(err)
		return
	}
	claims, entries, out, err := parseLock(reply[1:], &h.lease)
	if err != nil {
		h.fail(err)
		return
	}
	var ds []core.Delivery
	if len(entries) > 0 {
		ds, err = h.store.deliver(ctx, h.shard, h.lease, claims, entries, core.Active)
	} else {
		ds, err = h.deliver(ctx, claims, numbers, messages)
	}
	if err != nil {
		h.store.lostLocks.add(h.shard.place, h.lease)
	}
	fitting := h.store.fit(h.shard, ds, &h.bytes, false)
	h.watcher.HandOver(fitting, out.next, out.rest || len(fitting) < len(ds), err)
}

func (h *handOver) deliver(ctx context.Context, claims []claim, numbers []int64, messages []stored) ([]core.Delivery, error) {
	own := make([]record.Entry, 0, len(messages))
	for i, n := range numbers {
		if n != 0 {
			own = append(own, record.Entry{N: n, Record: asString(messages[i].record)})
		}
	}
	entries, err := h.entries(ctx, claims, own)
	if err != nil {
		return nil, h.store.server.WrapError("read messages", err)
	}
	return h.store.deliverEntries(ctx, h.shard, h.lease, claims, entries, core.Active)
}

func (h *handOver) entries(ctx context.Context, claims []claim, own []record.Entry) ([]record.Entry, error) {
	var found []record.Entry
	var ours, others []claim
	for _, c := range claims {
		i, ok := slices.BinarySearchFunc(own, c.n, func(e record.Entry, n int64) int { return cmp.Compare(e.N, n) })
		if ok {
			found, ours = append(found, own[i]), append(ours, c)
		} else {
			others = append(others, c)
		}
	}
	h.store.recents.take(h.shard, ours)
	if len(others) == 0 {
		return found, nil
	}
	rest, err := h.store.entriesOf(ctx, h.shard, others)
	if err != nil {
		return nil, err
	}
	return inOrder(claims, found, rest), nil
}
