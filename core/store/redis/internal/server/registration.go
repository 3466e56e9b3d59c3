package server

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	gatewayLife = 10 * time.Second // how long a gateway counts as present after it has registered
	// Agreement is how long all present gateways must have been able to read a newer format before
	// a gateway writes it. By then, calls of older versions have ended.
	Agreement = 10 * time.Second
	// LookLife is how long the gateway trusts a check that the server still holds this store.
	LookLife = 5 * time.Second
)

// Register returns, by gateway, the highest format that each present gateway reads. It removes the
// registrations of ended gateways.
func (s *Server) Register(ctx context.Context) (there map[string]int, err error) {
	key, now := s.Names.Registry().Gateways, s.Clock.server().UnixMilli()
	pipe := s.RDB.Pipeline()
	pipe.HSet(ctx, key, s.ID, fmt.Sprint(now, " ", s.Reads))
	all := pipe.HGetAll(ctx, key)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("cannot register the gateway in Redis: %w", err)
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

// If unregister fails, other gateways notice the end of this one after gatewayLife.
func (s *Server) unregister() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.RDB.HDel(ctx, s.Names.Registry().Gateways, s.ID).Err()
}

// RaiseFormat raises the store's format to s.Reads after all gateways have been able to read that
// format for the duration Agreement. A gateway that does not register, such as one of version
// 8fcb296, prevents this, because more gateways then subscribe to changes than are registered. The
// format is also added to the stamp, so that gateways that cannot read it soon stop.
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

func (s *Server) listening(ctx context.Context) (int, error) {
	var n atomic.Int64
	each := s.EachMaster
	if s.Cluster != nil {
		each = s.Cluster.ForEachShard
	}
	err := each(ctx, func(ctx context.Context, node *redis.Client) error {
		all, err := node.PubSubNumSub(ctx, s.Names.Changes()).Result()
		n.Add(all[s.Names.Changes()])
		return err
	})
	return int(n.Load()), err
}

// Every second, KeepPresent reads the server's clock, checks that the server still has the store's
// data, and registers the gateway.
func (s *Server) KeepPresent(ctx context.Context) {
	tell := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			s.Log.Debug(what, "err", err)
		}
	}
	var present map[string]int
	for {
		bounded, cancel := context.WithTimeout(ctx, clockTimeout)
		tell("cannot read the store's clock; using the last reading", s.ReadClock(bounded))
		cancel()
		_ = s.Intact() // on a loss, Intact closes Stamp.Lost
		bounded, cancel = s.Bounded(ctx)
		there, err := s.Register(bounded)
		if err == nil {
			for id := range present {
				if _, ok := there[id]; !ok {
					s.Left()
				}
			}
			present = there
			err = cmp.Or(s.RaiseFormat(bounded, there, time.Now()), s.EndLocks(bounded))
		}
		cancel()
		tell("cannot register the gateway; trying again soon", err)
		if !wake.After(ctx, ClockRefresh) {
			s.unregister()
			return
		}
	}
}

// IsKnown checks that the server still holds this store, if the last check is older than LookLife.
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
