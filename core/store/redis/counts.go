package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

const (
	countSuffixes      = "mhlfqL" // of each queue and sub-queue, for lua/counts.lua
	queueCountSuffixes = "xtb"    // of the main queue only
	countedAtOnce      = 16
)

// errDue means that something is due, so the queue must be swept before it is counted.
var errDue = errors.New("something is due")

type countGroup struct {
	queue core.Ref
	at    []int // indexes of the queue and its sub-queues in the arguments of StatsOf
	err   error
}

func (p *handle) PeekDamaged(context.Context, int64, int) ([]core.DamagedMessage, error) {
	return nil, nil
}

// StatsOf sends one script for each queue with its sub-queues, all in one pipeline. If something
// is due in a queue, StatsOf sweeps and counts that queue separately.
func (s *Store) StatsOf(ctx context.Context, ps []core.Partition) []core.Counted {
	counted := make([]core.Counted, len(ps))
	groups := groupByQueue(ps)
	if err := s.server.Enter(ctx); err != nil {
		for i := range counted {
			counted[i].Err = fmt.Errorf("count: %w", err)
		}
		return counted
	}
	defer s.server.Calls.Done()
	s.count(ctx, groups, ps, counted)
	s.measureCounted(ctx, groups, ps, counted)
	slots := make(chan struct{}, countedAtOnce)
	var wg sync.WaitGroup
	for _, g := range groups {
		if !errors.Is(g.err, errDue) {
			for _, at := range g.at {
				counted[at].Err = s.server.WrapError("count in "+s.server.Names.Prefix(g.queue), g.err)
			}
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for _, at := range g.at {
				counted[at].Stats, counted[at].Err = (&handle{s, place{ps[at].Ref, ps[at].Policy}}).stats(ctx)
			}
		})
	}
	wg.Wait()
	return counted
}

func groupByQueue(ps []core.Partition) (groups []*countGroup) {
	known := make(map[core.Ref]*countGroup, len(ps))
	for i := range ps {
		r := ps[i].Ref
		r.Sub = core.Main
		g := known[r]
		if g == nil {
			g = &countGroup{queue: r}
			known[r] = g
			groups = append(groups, g)
		}
		g.at = append(g.at, i)
	}
	return groups
}

func (s *Store) count(ctx context.Context, groups []*countGroup, ps []core.Partition, counted []core.Counted) {
	now := s.millis()
	keys := make([][]any, len(groups))
	for i, g := range groups {
		r := g.queue
		keys[i] = append(keys[i], keyspace.WithSuffixes(s.server.Names.Prefix(r), queueCountSuffixes)...)
		for r.Sub = range core.SubQueues {
			keys[i] = append(keys[i], keyspace.WithSuffixes(s.server.Names.Prefix(r), countSuffixes)...)
		}
	}
	replies := s.server.Piped(ctx, len(groups), func(i int) []any { return script.Counts.Command(keys[i], now) })
	for i, g := range groups {
		g.err = g.read(replies[i], ps, counted)
	}
}

func (g *countGroup) read(reply *redis.Cmd, ps []core.Partition, counted []core.Counted) error {
	all, err := reply.Slice()
	if err != nil {
		return err
	}
	switch word, _ := server.First(all).(string); {
	case word == "due":
		return errDue
	case word != "ok" || len(all) != 3+5*int(core.SubQueues):
		return server.ErrReply
	}
	numbers := make([]int64, len(all))
	for i := range all[1:] {
		numbers[1+i], _ = all[1+i].(int64)
	}
	for _, at := range g.at {
		sub := numbers[3+5*int(ps[at].Sub):]
		counted[at].Stats = core.Stats{Ready: sub[0], Locked: sub[1], Deferred: sub[2], Scheduled: sub[3], Enqueued: sub[4]}
		if ps[at].Sessions && ps[at].Sub == core.Main {
			counted[at].Stats.SessionsHeld, counted[at].Stats.SessionsWaiting = numbers[1], numbers[2]
		}
	}
	return nil
}

func (s *Store) measureCounted(ctx context.Context, groups []*countGroup, ps []core.Partition, counted []core.Counted) {
	var asked []place
	var places []int
	var of []*countGroup
	for _, g := range groups {
		for _, at := range g.at {
			x := &counted[at].Stats
			if g.err == nil && (ps[at].Sub == core.Main || x.Ready+x.Locked+x.Deferred+x.Scheduled > 0) {
				asked, places, of = append(asked, place{ps[at].Ref, ps[at].Policy}), append(places, at), append(of, g)
			}
		}
	}
	sizes, errs := s.sizes(ctx, asked)
	for i, at := range places {
		counted[at].Stats.Bytes = sizes[i]
		if errs[i] != nil {
			of[i].err = errs[i]
		}
	}
}
