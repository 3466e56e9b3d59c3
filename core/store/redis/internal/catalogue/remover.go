package catalogue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

const (
	// removalInterval is how often a gateway looks for removals that crashed gateways have left.
	removalInterval = 15 * time.Second
	// removalLease is how long a gateway may work on a removal. Each page of entities extends it.
	removalLease = time.Minute
	removalPage  = 100
	// sealLife is how long the key Seal prevents the creation of entities in a deleted namespace.
	// By then, all calls that began before the deletion have ended.
	sealLife = time.Hour
)

// removeDeleted removes the contents of deleted namespaces. Every gateway does so: a key of the
// registry lists the namespaces that still have entities, with the ends of the gateways' leases.
func (s *Catalogue) removeDeleted(ctx context.Context) {
	ticker := time.NewTicker(removalInterval)
	defer ticker.Stop()
	for {
		if err := s.removeAll(ctx); err != nil && ctx.Err() == nil {
			s.server.Log.Warn("cannot remove the entities of a deleted namespace; trying again later", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.removals:
		}
	}
}

func (s *Catalogue) removeAll(ctx context.Context) error {
	for {
		id, err := s.claimRemoval(ctx)
		if err != nil || id == "" {
			return err
		}
		if err := s.remove(ctx, id); err != nil {
			return fmt.Errorf("cannot remove namespace %s: %w", id, err)
		}
		s.server.Log.Info("removed the contents of a deleted namespace", "namespace", id)
	}
}

func (s *Catalogue) claimRemoval(ctx context.Context) (string, error) {
	bounded, cancel := s.server.Bounded(ctx)
	defer cancel()
	now := s.server.Millis()
	reply, err := s.server.Eval(bounded, script.NamespaceClaimRemoval, []any{s.server.Names.Registry().Remains}, now, now+removalLease.Milliseconds())
	id, _ := server.First(reply).(string)
	return id, err
}

// remove calls no watchers, because the deletion has called them. An entity stays in the catalogue
// until its keys are removed, so that another gateway can continue.
func (s *Catalogue) remove(ctx context.Context, namespace string) error {
	k, remains := s.server.Names.Catalogue(namespace), s.server.Names.Registry().Remains
	if err := s.server.RDB.Set(ctx, k.Seal, 1, sealLife).Err(); err != nil {
		return err
	}
	for {
		members, err := s.server.RDB.ZRange(ctx, k.Names, 0, removalPage-1).Result()
		if err != nil {
			return err
		}
		if len(members) == 0 {
			break
		}
		if err := s.removePage(ctx, &k, members); err != nil {
			return err
		}
		lease := redis.Z{Score: float64(s.server.Millis() + removalLease.Milliseconds()), Member: namespace}
		if err := s.server.RDB.ZAddXX(ctx, remains, lease).Err(); err != nil {
			return err
		}
	}
	if err := s.server.RDB.Unlink(ctx, k.Entities, k.Names, k.Accessed, k.Versions, k.Fences).Err(); err != nil {
		return err
	}
	return s.server.RDB.ZRem(ctx, remains, namespace).Err()
}

func (s *Catalogue) removePage(ctx context.Context, k *keyspace.Catalogue, members []string) error {
	names := make([]string, len(members))
	for i, member := range members {
		_, names[i], _ = strings.Cut(member, ":")
	}
	values, err := s.server.RDB.HMGet(ctx, k.Entities, names...).Result()
	if err != nil {
		return err
	}
	for i, value := range values {
		text, _ := value.(string)
		e, err := decodeEntity(text, nil)
		if err != nil {
			s.server.Log.Warn("the keys of an entity in a deleted namespace stay in Redis, because the entity's record is damaged: they use memory, but affect nothing else", "entity", names[i], "err", errors.Unwrap(err)) // without the advice to restore Redis
			continue
		}
		if err := s.unlink(ctx, k, &e, false); err != nil { // topics are deleted too
			return err
		}
	}
	pipe := s.server.RDB.Pipeline()
	pipe.HDel(ctx, k.Entities, names...)
	pipe.ZRem(ctx, k.Names, members)
	_, err = pipe.Exec(ctx)
	return err
}
