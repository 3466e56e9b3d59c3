package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

const (
	countSuffixes      = "mhlfqL" // keys of each queue and sub-queue, for lua/counts.lua
	queueCountSuffixes = "xtb"    // keys that only the main queue has
	countedAtOnce      = 16
)

// errDue means that something is due, so the queue must be swept before it is counted.
var errDue = errors.New("something is due")

func (p *handle) PeekDamaged(context.Context, int64, int) ([]core.DamagedMessage, error) {
	return nil, nil
}

// StatsOf sends one script for each queue with its sub-queues, all in one pipeline. If something
// is due in a queue, StatsOf sweeps and counts that queue separately.
func (s *Store) StatsOf(ctx context.Context, ps []core.Partition) []core.Counted {
	counted := make([]core.Counted, len(ps))
	if err := s.server.Enter(ctx); err != nil {
		for i := range counted {
			counted[i].Err = fmt.Errorf("cannot count messages: %w", err)
		}
		return counted
	}
	defer s.server.Calls.Done()
	queues := make(map[core.Ref][]int, len(ps)) // indexes in ps of each queue and its sub-queues
	for i := range ps {
		if sh := s.shards.known(place{ps[i].Ref, ps[i].Policy}); sh != nil {
			sh.settles.Hurry()
		}
		r := ps[i].Ref
		r.Sub = core.Main
		queues[r] = append(queues[r], i)
	}
	s.count(ctx, queues, ps, counted)
	s.measureCounted(ctx, ps, counted)
	var due errgroup.Group
	due.SetLimit(countedAtOnce)
	for queue, at := range queues {
		if !errors.Is(counted[at[0]].Err, errDue) {
			for _, i := range at {
				counted[i].Err = s.server.WrapError("count messages in "+s.server.Names.Prefix(queue), counted[i].Err)
			}
			continue
		}
		due.Go(func() error {
			for _, i := range at { // in this order: the first has the policy of the queue that is swept
				counted[i].Stats, counted[i].Err = (&handle{s, place{ps[i].Ref, ps[i].Policy}}).stats(ctx)
			}
			return nil
		})
	}
	_ = due.Wait() // no function fails
	return counted
}

func (s *Store) count(ctx context.Context, queues map[core.Ref][]int, ps []core.Partition, counted []core.Counted) {
	now, order := s.millis(), slices.Collect(maps.Keys(queues))
	replies := s.server.Piped(ctx, len(order), func(i int) []any {
		r := order[i]
		keys := keyspace.WithSuffixes(s.server.Names.Prefix(r), queueCountSuffixes)
		for r.Sub = range core.SubQueues {
			keys = append(keys, keyspace.WithSuffixes(s.server.Names.Prefix(r), countSuffixes)...)
		}
		return script.Counts.Command(keys, now)
	})
	for i, queue := range order {
		numbers, err := parseCounts(replies[i])
		for _, k := range queues[queue] {
			if counted[k].Err = err; err != nil {
				continue
			}
			sub := numbers[2+5*int(ps[k].Sub):]
			counted[k].Stats = core.Stats{Ready: sub[0], Locked: sub[1], Deferred: sub[2], Scheduled: sub[3], Enqueued: sub[4]}
			if ps[k].Sessions && ps[k].Sub == core.Main {
				counted[k].Stats.SessionsHeld, counted[k].Stats.SessionsWaiting = numbers[0], numbers[1]
			}
		}
	}
}

func parseCounts(reply *redis.Cmd) ([]int64, error) {
	all, err := reply.Slice()
	if err != nil {
		return nil, err
	}
	switch word, _ := server.First(all).(string); {
	case word == "due":
		return nil, errDue
	case word != "ok" || len(all) != 3+5*int(core.SubQueues):
		return nil, server.ErrReply
	}
	numbers := make([]int64, len(all)-1)
	for i := range numbers {
		numbers[i], _ = all[1+i].(int64)
	}
	return numbers, nil
}

// measureCounted leaves out empty sub-queues.
func (s *Store) measureCounted(ctx context.Context, ps []core.Partition, counted []core.Counted) {
	var asked []place
	var places []int
	for i := range ps {
		x := &counted[i].Stats
		if counted[i].Err == nil && (ps[i].Sub == core.Main || x.Ready+x.Locked+x.Deferred+x.Scheduled > 0) {
			asked, places = append(asked, place{ps[i].Ref, ps[i].Policy}), append(places, i)
		}
	}
	sizes, errs := s.sizes(ctx, asked)
	for k, i := range places {
		counted[i].Stats.Bytes, counted[i].Err = sizes[k], errs[k]
	}
}

func (p *handle) stats(ctx context.Context) (stats core.Stats, err error) {
	err = p.operate(ctx, "count", func(ctx context.Context, sh *shard) error {
		reply, err := p.transition(ctx, sh, p.millis(), script.Stats, nil)
		if err != nil {
			return err
		}
		fields := []*int64{
			&stats.Ready, &stats.Locked, &stats.Deferred, &stats.Scheduled, &stats.Enqueued, &stats.SessionsHeld, &stats.SessionsWaiting,
		}
		if len(reply) != len(fields) {
			return server.ErrReply
		}
		for i, field := range fields {
			*field, _ = reply[i].(int64)
		}
		sizes, errs := p.sizes(ctx, []place{p.place})
		stats.Bytes = sizes[0]
		return errs[0]
	})
	return stats, err
}

// sizeBudget returns what the partition may still store, measured anew if the estimate is too old.
func (s *Store) sizeBudget(ctx context.Context, sh *shard) sizeBudget {
	r := sizeBudget{quota: &sh.quota, max: sh.MaxBytes}
	if r.max <= 0 {
		return r
	}
	whole := sh.place
	whole.Subscription, whole.Sub = "", core.Main
	err := sh.quota.refresh(ctx, r.max, func() (measured, error) {
		bounded, cancel := s.server.Bounded(ctx)
		defer cancel()
		found, errs := s.measure(bounded, []place{whole})
		return found[0], errs[0]
	})
	switch {
	case err != nil && conn.HasEnded(ctx):
		r.failure = core.CertainlyNotDone(fmt.Errorf("cannot measure the keys '%s*': %w", sh.keys.Prefix, server.Ended(ctx)))
	case err != nil:
		r.failure = core.CertainlyNotDone(s.server.WrapError("measure "+sh.keys.Prefix, err))
	}
	return r
}

// takeRoom reserves size bytes in the partition. full is QuotaExceeded if there is no room. The
// caller calls ended with the result of its call. What takes no room does not measure the partition.
func (s *Store) takeRoom(ctx context.Context, sh *shard, size int) (full error, ended func(error), err error) {
	if size == 0 {
		return nil, func(error) {}, nil
	}
	budget := s.sizeBudget(ctx, sh)
	if full = budget.take(size); full != nil {
		if core.CodeOf(full) != core.QuotaExceeded {
			return nil, nil, full
		}
		return full, func(error) {}, nil
	}
	return nil, func(err error) {
		if err != nil {
			budget.give(size)
		} else {
			sh.quota.stored(size)
		}
	}, nil
}

const (
	workPerCommand = time.Microsecond
	workPerEntry   = 100 * time.Nanosecond
	seenSamples    = 100 // ids that are read to estimate the average length of all ids
	forgetCalls    = 20  // calls of duplicates_trim.lua in one measurement
	forgetMost     = 5000
)

// sizes returns the partitions' bytes, only estimated if measuring would cost Redis too much.
func (s *Store) sizes(ctx context.Context, ps []place) (sizes []int64, errs []error) {
	sizes, errs = make([]int64, len(ps)), make([]error, len(ps))
	var asked []place
	var places []int
	for i, p := range ps {
		if sh := s.shards.known(p); sh != nil {
			var lately bool
			if sizes[i], lately = sh.quota.lately(); lately {
				continue
			}
		}
		asked, places = append(asked, p), append(places, i)
	}
	found, failures := s.measure(ctx, asked)
	for i, at := range places {
		sizes[at], errs[at] = found[i].bytes, failures[i]
		if failures[i] == nil && found[i].work > muchWork {
			sh, done := s.shard(asked[i])
			sh.quota.mu.Lock()
			sh.quota.note(found[i])
			sh.quota.mu.Unlock()
			done()
		}
	}
	return sizes, errs
}

type measuring struct {
	*Store
	found []measured
	errs  []error
	asked []question
}

type question struct {
	of      int // index in found
	command []any
	answer  func(reply *redis.Cmd) // handles the reply, and may ask further questions
}

func (m *measuring) ask(of int, answer func(reply *redis.Cmd), command ...any) {
	m.asked = append(m.asked, question{of, command, answer})
}

// usage asks for the memory of key, for found[of]. Redis looks at samples values, or at all for 0.
func (m *measuring) usage(of int, key string, samples ...any) {
	command := []any{"MEMORY", "USAGE", key}
	if len(samples) > 0 {
		command = append(command, "SAMPLES", samples[0])
	}
	m.ask(of, func(reply *redis.Cmd) {
		n, _ := reply.Int64() // 0 if the key does not exist
		m.found[of].bytes += n
	}, command...)
}

// run sends the questions, and those that the answers ask.
func (m *measuring) run(ctx context.Context) {
	for len(m.asked) > 0 {
		asked := m.asked
		m.asked = nil
		for i, r := range m.server.Piped(ctx, len(asked), func(i int) []any { return asked[i].command }) {
			q := &asked[i]
			m.found[q.of].work += workPerCommand
			if err := r.Err(); err != nil && !conn.IsNil(err) {
				m.errs[q.of] = err
			}
			q.answer(r)
		}
	}
}

// measure asks Redis for the memory of queues: for a main queue with its sub-queues, and for a
// topic's own queue with the queues of its subscriptions. Streams are measured completely, because
// their first nodes say little about the others. An empty stream counts as 0 bytes.
func (s *Store) measure(ctx context.Context, ps []place) ([]measured, []error) {
	m := &measuring{Store: s, found: make([]measured, len(ps)), errs: make([]error, len(ps))}
	names := s.server.Names
	for i, p := range ps {
		if p.Sub == core.Main && p.DuplicateWindow.Milliseconds() > 0 {
			m.forgetIDs(i, p, forgetCalls)
		}
	}
	m.run(ctx)
	for i, p := range ps {
		m.queue(i, p.Ref)
		if p.Sub != core.Main || p.Subscription != "" {
			continue
		}
		m.ask(i, func(reply *redis.Cmd) {
			ids, _ := reply.StringSlice()
			for _, id := range ids {
				m.queue(i, core.Ref{Entity: p.Entity, Subscription: id, Index: p.Index})
			}
			if len(ids) > 0 {
				m.usage(i, names.Refs(p.Ref))
				m.entries(i, "HLEN", names.Bodies(p.Ref), func() { m.usage(i, names.Bodies(p.Ref), 0) })
			}
		}, "SMEMBERS", names.Subscriptions(p.Ref))
	}
	m.run(ctx)
	return m.found, m.errs
}

// queue asks for the memory of r and, if r is a main queue, of its sub-queues.
func (m *measuring) queue(of int, r core.Ref) {
	names, prefix, beside := m.server.Names, m.server.Names.Prefix(r), keyspace.MessageDataSuffixes
	if r.Sub == core.Main {
		for sub := core.Main + 1; sub < core.SubQueues; sub++ {
			m.queue(of, core.Ref{Entity: r.Entity, Subscription: r.Subscription, Index: r.Index, Sub: sub})
		}
		beside += keyspace.SessionSuffixes
		seen := names.Base(r) + keyspace.SeenSuffix
		m.ask(of, func(reply *redis.Cmd) {
			if n, _ := reply.Int64(); n == 0 {
				return
			}
			m.usage(of, seen, seenSamples)
			for _, suffix := range keyspace.StateSuffixes {
				m.usage(of, prefix+string(suffix), 0)
			}
		}, append([]any{"EXISTS", seen}, keyspace.WithSuffixes(prefix, keyspace.StateSuffixes)...)...)
	}
	m.entries(of, "XLEN", names.Stream(r), func() {
		m.usage(of, names.Stream(r), 0)
		for _, suffix := range beside {
			m.usage(of, prefix+string(suffix))
		}
	})
}

// entries calls some if key has entries; command returns their number. It also adds the time for
// measuring the key to m.found[of].work.
func (m *measuring) entries(of int, command, key string, some func()) {
	m.ask(of, func(reply *redis.Cmd) {
		n, _ := reply.Int64()
		if m.found[of].work += time.Duration(n) * workPerEntry; n > 0 {
			some()
		}
	}, command, key)
}

// forgetIDs makes Redis drop outdated ids of duplicate detection, in up to the given number of
// calls. Other scripts drop ids only when a message arrives, so without new messages they would be
// counted for ever.
func (m *measuring) forgetIDs(of int, p place, calls int) {
	key := m.server.Names.Base(p.Ref) + keyspace.SeenSuffix
	m.ask(of, func(reply *redis.Cmd) {
		if n, err := reply.Int64(); err == nil && n == forgetMost && calls > 1 {
			m.forgetIDs(of, p, calls-1)
		}
	}, script.DuplicatesTrim.Command([]any{key}, m.millis()-p.DuplicateWindow.Milliseconds())...)
}
