package redisstore

import (
	"context"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
)

// handOver is the part of a call that brings messages to a queue which locks some of them for a
// receiver of this gateway. The receiver then needs neither the doorbell nor a lock call of its own,
// and messages that this call has brought are not read back. lock.lua hands over only while no other
// gateway waits for the queue's messages; else it wakes all of them.
type handOver struct {
	store   *Store
	shard   *shard
	watcher core.Watcher
	limit   int
	lease   lease
	args    []any
	answer  *redis.Cmd
}

// reserve begins to hand over, if a receiver of this gateway takes messages; else it returns nil.
func (s *Store) reserve(sh *shard, now int64) *handOver {
	if sh.Sessions {
		return nil
	}
	if _, lost := sh.lostLocks.next(now); lost {
		return nil
	}
	for _, w := range s.doorbells.watchersOf(sh.keys.doorbell) {
		n := w.Reserve()
		if n == 0 {
			continue
		}
		h := &handOver{store: s, shard: sh, watcher: w, limit: min(n, sh.affordable(maxLockBytes)), lease: sh.lease(now)}
		h.args = append(sh.stateArgs(now), h.lease.until, secret(h.lease.nonce), h.limit, 0, s.id, 1)
		return h
	}
	return nil
}

// add adds the lock call to those that bring messages.
func (h *handOver) add(ctx context.Context, pipe redis.Pipeliner) {
	h.answer = pipe.Do(ctx, lockScript.variants[h.shard.features].command(false, h.shard.state, h.args...)...)
}

// fail ends the hand-over of a call that failed.
func (h *handOver) fail(err error) {
	if mayHaveRun(err) {
		h.shard.lostLocks.add(h.lease)
	}
	h.watcher.HandOver(nil, time.Time{}, true, nil) // the receiver asks by itself
}

// finish hands over what was locked. The call has stored the records under the numbers, which rise.
func (h *handOver) finish(ctx context.Context, numbers []int64, messages []stored) {
	reply, err := h.answer.Slice()
	word := ""
	if len(reply) > 0 {
		word, _ = reply[0].(string)
	}
	if err != nil || word != "ok" { // not loaded, or there is more to sweep
		h.fail(err)
		return
	}
	claims, _, out, err := parseLock(reply[1:])
	if err != nil {
		h.fail(err)
		return
	}
	ds, err := h.deliver(ctx, claims, numbers, messages)
	h.watcher.HandOver(ds, out.next, out.rest, err)
}

// deliver makes deliveries of claims. Of messages that the call has stored the records are at hand.
func (h *handOver) deliver(ctx context.Context, claims []claim, numbers []int64, messages []stored) ([]core.Delivery, error) {
	at := func(c claim) (i int64, own bool) {
		i = c.n - numbers[0]
		return i, i >= 0 && i < int64(len(numbers)) && numbers[i] == c.n
	}
	var others []claim
	for _, c := range claims {
		if _, own := at(c); !own {
			others = append(others, c)
		}
	}
	var read []entry
	if len(others) > 0 {
		var err error
		if read, err = h.store.read(ctx, h.shard, others); err != nil {
			h.store.release(h.shard, h.lease, claims)
			return nil, h.store.wrapError("read messages", err)
		}
	}
	entries := make([]entry, 0, len(claims))
	for _, c := range claims {
		if i, own := at(c); own {
			record := messages[i].record
			entries = append(entries, entry{n: c.n, record: unsafe.String(unsafe.SliceData(record), len(record))})
		} else if len(read) > 0 && read[0].n == c.n {
			entries, read = append(entries, read[0]), read[1:]
		}
	}
	return h.store.deliverEntries(ctx, h.shard, h.lease, claims, entries, core.Active)
}
