package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
)

// basis is the revision and ID that a catalogue value begins with, so that
// scripts can compare them without reading the rest.
func basis(e *core.Entity) string { return strconv.FormatInt(e.Revision, 10) + ":" + e.ID + ":" }

// catalogueValue is how the catalogue keeps an entity: its basis, then JSON.
func catalogueValue(e *core.Entity) (string, error) {
	record, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("encode entity %s: %w", e, err)
	}
	return basis(e) + string(record), nil
}

// parseCatalogue reads a catalogue value and the time of last use beside it.
func parseCatalogue(text string, accessed any) (core.Entity, error) {
	var e core.Entity
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 {
		return e, fmt.Errorf("an entity in the catalogue is damaged: %w", core.Internal)
	}
	if err := json.Unmarshal([]byte(parts[2]), &e); err != nil {
		return e, fmt.Errorf("an entity in the catalogue is damaged: %w", err)
	}
	if at, ok := scoreMillis(accessed); ok && instant(at).After(e.AccessedAt) {
		e.AccessedAt = instant(at)
	}
	return e, nil
}

// scoreMillis reads a zset's score, which is text or a float by protocol version.
func scoreMillis(score any) (int64, bool) {
	switch v := score.(type) {
	case float64:
		return int64(v), true
	case string:
		f, err := strconv.ParseFloat(v, 64)
		return int64(f), err == nil
	default:
		return 0, false
	}
}

// manage is the frame of the catalogue's operations.
func (s *Store) manage(ctx context.Context, what, namespace, name string, f func(ctx context.Context, k catalogueKeys, folded string) error) error {
	subject := what + " " + namespace + "/" + name
	if err := s.enter(ctx); err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	defer s.calls.Done()
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	err := f(bounded, s.names.catalogue(namespace), core.FoldName(name))
	if err != nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	return explain(subject, err)
}

// change runs a script that changes the catalogue and tells about it.
func (s *Store) change(ctx context.Context, sc *script, keys []any, namespace, folded string, args ...any) ([]any, error) {
	all := append([]any{s.names.changes(), s.changes.payload(namespace, folded), folded}, args...)
	raw, err := s.eval(ctx, sc, keys, all...)
	if err != nil {
		return nil, err
	}
	reply, _ := raw.([]any)
	if len(reply) == 0 {
		return nil, errReply
	}
	if word, _ := reply[0].(string); word != "ok" {
		return nil, core.Code(word)
	}
	s.changes.tell(namespace, folded)
	return reply[1:], nil
}

// CreateEntity stores a new entity. Its partitions are made first: once it can
// be found, it can be sent to.
func (s *Store) CreateEntity(ctx context.Context, e core.Entity) (core.Entity, error) {
	e.Revision = 1
	err := s.manage(ctx, "create entity", e.Namespace, e.Name, func(ctx context.Context, k catalogueKeys, folded string) error {
		value, err := catalogueValue(&e)
		if err != nil {
			return err
		}
		taken, err := s.number(ctx, "HEXISTS", k.entities, folded)
		if err != nil {
			return err
		}
		if taken == 1 {
			return core.AlreadyExists
		}
		if err := s.makePartitions(ctx, &e); err != nil {
			return err
		}
		_, err = s.change(ctx, createScript, []any{k.entities, k.names, k.accessed}, e.Namespace, folded, value)
		if core.CodeOf(err) == core.AlreadyExists {
			s.unlinkPartitions(ctx, &e)
		}
		return err
	})
	if err != nil {
		return core.Entity{}, err
	}
	return e, nil
}

// makePartitions makes the streams of an entity, empty, so that numbering
// begins at 1 and a late send cannot bring back a deleted one.
func (s *Store) makePartitions(ctx context.Context, e *core.Entity) error {
	const group = "made"
	pipe := s.rdb.Pipeline()
	for i := range e.Partitions {
		for _, sub := range []core.SubQueue{core.Main, core.DeadLetter} {
			stream := s.names.stream(core.Ref{Entity: e.ID, Index: uint16(i), Sub: sub})
			pipe.XGroupCreateMkStream(ctx, stream, group, "$")
			pipe.XGroupDestroy(ctx, stream, group)
		}
	}
	_, err := pipe.Exec(ctx)
	return err
}

// unlinkPartitions removes all messages of an entity, a partition at a time.
func (s *Store) unlinkPartitions(ctx context.Context, e *core.Entity) {
	for i := range e.Partitions {
		if err := s.rdb.Unlink(ctx, s.names.all(e.ID, uint16(i))...).Err(); err != nil {
			s.log.Warn("keys of a deleted entity stay behind", "entity", e.ID, "partition", i, "err", err)
		}
	}
}

// Entity returns the entity of that name, or NotFound.
func (s *Store) Entity(ctx context.Context, namespace, name string) (e core.Entity, err error) {
	err = s.manage(ctx, "entity", namespace, name, func(ctx context.Context, k catalogueKeys, folded string) error {
		pipe := s.rdb.Pipeline()
		value := pipe.HGet(ctx, k.entities, folded)
		accessed := pipe.Do(ctx, "ZSCORE", k.accessed, folded)
		if _, err := pipe.Exec(ctx); err != nil && !isNil(err) {
			return err
		}
		if isNil(value.Err()) {
			return core.NotFound
		}
		e, err = parseCatalogue(value.Val(), accessed.Val())
		return err
	})
	return e, err
}

// Entities lists a namespace by folded name, skipping skip, at most top.
func (s *Store) Entities(ctx context.Context, namespace string, l core.Listing, skip, top int) (es []core.Entity, err error) {
	skip = max(skip, 0)
	if top <= 0 {
		return nil, nil
	}
	err = s.manage(ctx, "entities", namespace, "", func(ctx context.Context, k catalogueKeys, _ string) error {
		last := int64(skip) + int64(top) - 1
		names, err := s.rdb.ZRange(ctx, k.names, int64(skip), last).Result()
		if err != nil || len(names) == 0 {
			return err
		}
		pipe := s.rdb.Pipeline()
		values := pipe.HMGet(ctx, k.entities, names...)
		accessed := pipe.ZMScore(ctx, k.accessed, names...)
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for i, value := range values.Val() {
			text, ok := value.(string)
			if !ok {
				continue // deleted meanwhile
			}
			e, err := parseCatalogue(text, accessed.Val()[i])
			if err != nil {
				return err
			}
			es = append(es, e)
		}
		return nil
	})
	return es, err
}

// UpdateEntity replaces an entity if its ID and revision are still those of e.
func (s *Store) UpdateEntity(ctx context.Context, e core.Entity) (core.Entity, error) {
	err := s.manage(ctx, "update entity", e.Namespace, e.Name, func(ctx context.Context, k catalogueKeys, folded string) error {
		old := basis(&e)
		e.Revision++
		value, err := catalogueValue(&e)
		if err != nil {
			return err
		}
		if _, err = s.change(ctx, updateScript, []any{k.entities}, e.Namespace, folded, old, value); err != nil {
			return err
		}
		if at, err := s.rdb.ZScore(ctx, k.accessed, folded).Result(); err == nil && instant(int64(at)).After(e.AccessedAt) {
			e.AccessedAt = instant(int64(at))
		}
		return nil
	})
	if err != nil {
		return core.Entity{}, err
	}
	return e, nil
}

// DeleteEntity removes the entity and all its messages, or NotFound.
func (s *Store) DeleteEntity(ctx context.Context, namespace, name string) error {
	return s.manage(ctx, "delete entity", namespace, name, func(ctx context.Context, k catalogueKeys, folded string) error {
		reply, err := s.change(ctx, deleteScript, []any{k.entities, k.names, k.accessed}, namespace, folded)
		if err != nil {
			return err
		}
		text, _ := reply[0].(string)
		e, err := parseCatalogue(text, nil)
		if err != nil {
			return err
		}
		s.unlinkPartitions(ctx, &e)
		return nil
	})
}

// TouchEntities records when entities were last used. Unknown names and times
// earlier than those known are ignored; the revision stays.
func (s *Store) TouchEntities(ctx context.Context, namespace string, accessed map[string]time.Time) error {
	if len(accessed) == 0 {
		return nil
	}
	return s.manage(ctx, "touch entities of", namespace, "", func(ctx context.Context, k catalogueKeys, _ string) error {
		names := make([]string, 0, len(accessed))
		times := make([]time.Time, 0, len(accessed))
		for name, at := range accessed {
			names, times = append(names, core.FoldName(name)), append(times, at)
		}
		values, err := s.rdb.HMGet(ctx, k.entities, names...).Result()
		if err != nil {
			return err
		}
		members := make([]redis.Z, 0, len(names))
		for i, value := range values {
			if value != nil {
				members = append(members, redis.Z{Score: float64(times[i].UnixMilli()), Member: names[i]})
			}
		}
		if len(members) == 0 {
			return nil
		}
		return s.rdb.ZAddArgs(ctx, k.accessed, redis.ZAddArgs{GT: true, Members: members}).Err()
	})
}
