package redis

import (
	"context"
	"slices"
	"strconv"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

// Clear runs one script. Redis frees the memory in the background.
func (p *handle) Clear(ctx context.Context) error {
	return p.operate(ctx, "clear", func(ctx context.Context, sh *shard) error {
		if p.Subscription != "" {
			return core.NotAllowed
		}
		own := core.Ref{Entity: p.Ref.Entity, Index: p.Index}
		for {
			subscriptions, err := p.server.RDB.SMembers(ctx, p.server.Names.Subscriptions(own)).Result()
			if err != nil {
				return err
			}
			err = p.clearWith(ctx, own, subscriptions)
			if core.CodeOf(err) != core.Conflict { // Conflict: subscriptions were created or deleted meanwhile
				return err
			}
		}
	})
}

// clearWith clears own and subscriptions. It returns Conflict unless the topic has exactly these.
func (s *Store) clearWith(ctx context.Context, own core.Ref, subscriptions []string) error {
	branches := []core.Ref{own}
	args := []any{(1 + len(subscriptions)) * int(core.SubQueues)}
	for _, id := range subscriptions {
		branches = append(branches, core.Ref{Entity: own.Entity, Subscription: id, Index: own.Index})
		args = append(args, id)
	}
	keys := []any{s.server.Names.Subscriptions(own)}
	rest := []any{s.server.Names.Bodies(own), s.server.Names.Refs(own)}
	for _, r := range branches {
		for r.Sub = range core.SubQueues {
			keys = append(keys, s.server.Names.Stream(r), s.server.Names.Head(r), s.server.Names.Doorbell(r), s.server.Names.Prefix(r)+keyspace.HoldersSuffix)
		}
		rest = append(append(rest, server.Args(s.server.Names.Some(r, keyspace.MessageDataSuffixes+keyspace.SessionSuffixes))...), s.server.Names.History(r))
	}
	_, err := s.server.Eval(ctx, script.Clear, slices.Concat(keys, rest), args...)
	return err
}

func (p *handle) Purge(ctx context.Context, limit int) (removed int, err error) {
	err = p.operate(context.WithoutCancel(ctx), "purge", func(_ context.Context, sh *shard) error {
		if sh.Sessions {
			return p.refuseLock(ctx, sh)
		}
		for upto := ""; removed < limit && (ctx.Err() == nil || removed == 0); {
			bounded, cancel := p.server.Bounded(context.WithoutCancel(ctx))
			reply, err := p.transition(bounded, sh, p.millis(), script.Purge, nil, limit-removed, upto)
			cancel()
			if err != nil {
				return err
			}
			if len(reply) != 3 {
				return server.ErrReply
			}
			n, _ := reply[0].(int64)
			removed += int(n)
			if rest, _ := reply[2].(int64); rest == 0 {
				return nil
			}
			last, _ := reply[1].(int64)
			upto = strconv.FormatInt(last, 10)
		}
		return nil
	})
	return removed, err
}
