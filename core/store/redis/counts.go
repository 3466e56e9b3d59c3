package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/crosstown-mq/crosstown/core"
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
