package redis

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
)

const (
	// gatewayLife is how long a gateway counts as present after its last registration.
	gatewayLife = 10 * time.Second
	// agreement is how long all present gateways must be able to read a newer format before it is
	// written. By then, whatever a gateway of an older version had in flight has ended.
	agreement = 10 * time.Second
	// lookLife is how long the store is used after a check of the stamp and the format before the
	// next check.
	lookLife = 5 * time.Second
)

// register tells other gateways that this one runs, and the highest format that it reads. It
// returns the gateways that are present with their formats, and forgets those that are gone.
func (s *Store) register(ctx context.Context) (there map[string]int, err error) {
	key, now := s.names.Registry().Gateways, s.clock.server().UnixMilli()
	pipe := s.client.RDB.Pipeline()
	pipe.HSet(ctx, key, s.id, fmt.Sprint(now, " ", s.reads))
	all := pipe.HGetAll(ctx, key)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("register the gateway: %w", err)
	}
	ids, forgotten := s.peers.note(all.Val(), time.Now())
	there = make(map[string]int)
	for _, id := range ids {
		_, reads, _ := strings.Cut(all.Val()[id], " ")
		there[id] = conn.Atoi(reads)
	}
	if len(forgotten) > 0 {
		err = s.client.RDB.HDel(ctx, key, forgotten...).Err()
	}
	return there, err
}

// unregister removes the registration of a gateway that ends. If it fails, the others notice by themselves.
func (s *Store) unregister() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.client.RDB.HDel(ctx, s.names.Registry().Gateways, s.id).Err()
}

// raiseFormat sets the store's format to the one that this gateway reads, once all gateways have
// been able to read it for a while. Gateways that do not register, such as version 8fcb296, are
// found by their subscription to changes. The stamp changes with the mark: gateways that do not
// know the format take the store for another one within a second.
func (s *Store) raiseFormat(ctx context.Context, there map[string]int, now time.Time) error {
	if int64(s.reads) <= s.stamp.mark.Load() {
		return nil
	}
	listening, err := s.listening(ctx)
	if err != nil {
		return err
	}
	agreed := listening == len(there)
	for _, reads := range there {
		agreed = agreed && reads >= s.reads
	}
	switch {
	case !agreed:
		s.agreedSince = time.Time{}
		return nil
	case s.agreedSince.IsZero():
		s.agreedSince = now
	}
	if now.Sub(s.agreedSince) < agreement {
		return nil
	}
	k := s.names.Registry()
	return s.client.Exchange(ctx, conn.InTransaction|conn.Replicated, redis.NewCmd(ctx, "SET", k.Format, s.reads),
		redis.NewCmd(ctx, "SET", k.Stamp, fmt.Sprintf("%s/%d", s.stamp.text, s.reads)))
}

// listening returns the number of gateways that listen to changes, at all nodes.
func (s *Store) listening(ctx context.Context) (n int, err error) {
	counts := make(chan int64)
	count := func(ctx context.Context, node *redis.Client) error {
		all, err := node.PubSubNumSub(ctx, s.names.Changes()).Result()
		if err == nil {
			counts <- all[s.names.Changes()]
		}
		return err
	}
	go func() {
		defer close(counts)
		if s.client.Cluster != nil {
			err = s.client.Cluster.ForEachShard(ctx, count)
		} else {
			err = s.client.EachMaster(ctx, count)
		}
	}()
	for each := range counts {
		n += int(each)
	}
	return n, err
}

// keepPresent, until ctx ends, reads the server's clock each second, checks that the server still
// holds its data, and registers the gateway.
func (s *Store) keepPresent(ctx context.Context) {
	tell := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			s.client.Log.Debug(what, "err", err)
		}
	}
	for {
		bounded, cancel := context.WithTimeout(ctx, clockTimeout)
		tell("cannot read the store's clock; using the last reading", s.readClock(bounded))
		cancel()
		_ = s.intact() // it closes Lost after a loss
		bounded, cancel = s.client.Bounded(ctx)
		there, err := s.register(bounded)
		if err == nil {
			err = cmp.Or(s.raiseFormat(bounded, there, time.Now()), s.endLocks(bounded))
		}
		cancel()
		tell("cannot register the gateway; trying again soon", err)
		if !conn.Pause(ctx, clockRefresh) {
			s.unregister()
			return
		}
	}
}

// isKnown returns an error if the gateway cannot be sure that it still knows the store: its last
// successful look at the stamp and the mark is old, and another one fails.
func (s *Store) isKnown() error {
	last := s.stamp.seen.Load()
	if last == nil || time.Since(*last) < lookLife {
		return nil
	}
	if err := s.intact(); err != nil {
		return core.CertainlyNotDone(err)
	}
	return nil
}
