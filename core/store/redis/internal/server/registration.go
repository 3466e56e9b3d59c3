package server

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
	// Agreement is how long all present gateways must be able to read a newer format before it is
	// written. By then, whatever a gateway of an older version had in flight has ended.
	Agreement = 10 * time.Second
	// LookLife is how long the store is used after a check of the stamp and the format before the
	// next check.
	LookLife = 5 * time.Second
)

// Register tells other gateways that this one runs, and the highest format that it reads. It
// returns the gateways that are present with their formats, and forgets those that are gone.
func (s *Server) Register(ctx context.Context) (there map[string]int, err error) {
	key, now := s.Names.Registry().Gateways, s.Clock.server().UnixMilli()
	pipe := s.RDB.Pipeline()
	pipe.HSet(ctx, key, s.ID, fmt.Sprint(now, " ", s.Reads))
	all := pipe.HGetAll(ctx, key)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("register the gateway: %w", err)
	}
	ids, forgotten := s.Peers.Note(all.Val(), time.Now())
	there = make(map[string]int)
	for _, id := range ids {
		_, reads, _ := strings.Cut(all.Val()[id], " ")
		there[id] = conn.Atoi(reads)
	}
	if len(forgotten) > 0 {
		err = s.RDB.HDel(ctx, key, forgotten...).Err()
	}
	return there, err
}

// unregister removes an ending gateway's registration. If it fails, others notice the end later.
func (s *Server) unregister() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.RDB.HDel(ctx, s.Names.Registry().Gateways, s.ID).Err()
}

// RaiseFormat sets the store's format to the one that this gateway reads, once all gateways have
// been able to read it for a while. Gateways that do not register, such as version 8fcb296, are
// found by their subscription to changes. The stamp changes with the mark: gateways that do not
// know the format take the store for another one within a second.
func (s *Server) RaiseFormat(ctx context.Context, there map[string]int, now time.Time) error {
	if int64(s.Reads) <= s.Stamp.Mark.Load() {
		return nil
	}
	listening, err := s.listening(ctx)
	if err != nil {
		return err
	}
	agreed := listening == len(there)
	for _, reads := range there {
		agreed = agreed && reads >= s.Reads
	}
	switch {
	case !agreed:
		s.agreedSince = time.Time{}
		return nil
	case s.agreedSince.IsZero():
		s.agreedSince = now
	}
	if now.Sub(s.agreedSince) < Agreement {
		return nil
	}
	k := s.Names.Registry()
	return s.Exchange(ctx, conn.InTransaction|conn.Replicated, redis.NewCmd(ctx, "SET", k.Format, s.Reads),
		redis.NewCmd(ctx, "SET", k.Stamp, fmt.Sprintf("%s/%d", s.Stamp.Text, s.Reads)))
}

// listening returns the number of gateways that listen to changes, at all nodes.
func (s *Server) listening(ctx context.Context) (n int, err error) {
	counts := make(chan int64)
	count := func(ctx context.Context, node *redis.Client) error {
		all, err := node.PubSubNumSub(ctx, s.Names.Changes()).Result()
		if err == nil {
			counts <- all[s.Names.Changes()]
		}
		return err
	}
	go func() {
		defer close(counts)
		if s.Cluster != nil {
			err = s.Cluster.ForEachShard(ctx, count)
		} else {
			err = s.EachMaster(ctx, count)
		}
	}()
	for each := range counts {
		n += int(each)
	}
	return n, err
}

// KeepPresent, until ctx ends, reads the server's clock each second, checks that the server still
// holds its data, and registers the gateway.
func (s *Server) KeepPresent(ctx context.Context) {
	tell := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			s.Log.Debug(what, "err", err)
		}
	}
	for {
		bounded, cancel := context.WithTimeout(ctx, clockTimeout)
		tell("cannot read the store's clock; using the last reading", s.ReadClock(bounded))
		cancel()
		_ = s.Intact() // Intact closes Lost after a loss
		bounded, cancel = s.Bounded(ctx)
		there, err := s.Register(bounded)
		if err == nil {
			err = cmp.Or(s.RaiseFormat(bounded, there, time.Now()), s.EndLocks(bounded))
		}
		cancel()
		tell("cannot register the gateway; trying again soon", err)
		if !conn.Pause(ctx, ClockRefresh) {
			s.unregister()
			return
		}
	}
}

// IsKnown returns an error if the gateway cannot be sure that the store is still the same: its last
// successful check of the stamp and the format is old, and another check fails.
func (s *Server) IsKnown() error {
	last := s.Stamp.Seen.Load()
	if last == nil || time.Since(*last) < LookLife {
		return nil
	}
	if err := s.Intact(); err != nil {
		return core.CertainlyNotDone(err)
	}
	return nil
}
