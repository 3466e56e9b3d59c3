// Package catalogue keeps namespaces, entities and rules in Redis, and tells watchers of changes.
package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

type Catalogue struct {
	changes
	server   *server.Server
	removals wake.Signal // set when there may be a deleted namespace whose contents must be removed
}

// Open returns a catalogue that already listens to changes, so that it misses none.
func Open(ctx context.Context, s *server.Server) (*Catalogue, error) {
	c := &Catalogue{server: s, removals: wake.New()}
	return c, c.changes.open(ctx, s)
}

func Run(ctx context.Context, c *Catalogue) {
	var remover sync.WaitGroup
	remover.Go(func() { c.removeDeleted(ctx) })
	c.changes.run(ctx)
	remover.Wait()
}

// revisionPrefix begins the stored value of an entity or namespace. Scripts compare it without
// decoding the rest.
func revisionPrefix(revision int64, id string) string {
	return strconv.FormatInt(revision, 10) + ":" + id + ":"
}

func encode(revision int64, id string, v any) (string, error) {
	text, err := json.Marshal(v)
	return revisionPrefix(revision, id) + string(text), err
}

func decode(kind, value string, v any) error {
	parts, err := strings.SplitN(value, ":", 3), error(core.Internal)
	if len(parts) == 3 {
		err = json.Unmarshal([]byte(parts[2]), v)
	}
	if err != nil {
		return fmt.Errorf("the stored %s %.80q is damaged (restore Redis from a backup): %w", kind, value, err)
	}
	return nil
}

// encodeEntity leaves out the rules, which have a separate key.
func encodeEntity(e core.Entity) (string, error) {
	e.Rules = nil
	return encode(e.Revision, e.ID, e)
}

// decodeEntity gets the time of the entity's last use from a separate key.
func decodeEntity(value string, accessed any) (e core.Entity, err error) {
	if err = decode("entity", value, &e); err != nil {
		return e, err
	}
	if at, ok := server.ScoreMillis(accessed); ok && core.Instant(at).After(e.AccessedAt) {
		e.AccessedAt = core.Instant(at)
	}
	return e, nil
}

func (s *Catalogue) withCatalogue(ctx context.Context, what, namespace, name string, f func(ctx context.Context, k keyspace.Catalogue, folded string) error) error {
	return s.server.Call(ctx, what+" "+namespace+"/"+name, func(ctx context.Context) error {
		return f(ctx, s.server.Names.Catalogue(namespace), core.FoldName(name))
	})
}

func (s *Catalogue) change(ctx context.Context, sc *script.Script, keys []any, namespace string, names []string, args ...any) ([]any, error) {
	all := append([]any{s.server.Names.Changes(), s.changes.payload(namespace, names...), names[0]}, args...)
	reply, err := s.server.Eval(ctx, sc, keys, all...)
	if conn.MayHaveRun(err) { // the change may have happened, or may still happen
		s.changes.uncertainUntil.Store(time.Now().Add(uncertainFor).UnixNano())
		s.changes.notify(namespace, names...)
	}
	return reply, err
}

// changedNames returns e's lower-case name and, for a subscription, its topic's.
func changedNames(e *core.Entity) []string {
	names := []string{core.FoldName(e.Name)}
	if topic := topicOf(e); topic != "" {
		names = append(names, topic)
	}
	return names
}

func topicOf(e *core.Entity) string {
	if e.Kind != core.Subscription {
		return ""
	}
	topic, _, _ := core.SplitSubscription(e.Name)
	return core.FoldName(topic)
}

// errNoSchedules refuses to create a schedule while a gateway of an older version might read it.
var errNoSchedules = core.Refuse(core.Busy, "A gateway of an older version, which does not support schedules, uses this Redis or did so a moment ago: update all gateways, wait 20 seconds, and try again.")

// CreateEntity creates the partitions before it stores the entity, because clients can send to an
// entity as soon as it is stored.
func (s *Catalogue) CreateEntity(ctx context.Context, e core.Entity, q core.NamespaceQuotas) (core.Entity, error) {
	e.Revision = 1
	err := s.withCatalogue(ctx, "create entity", e.Namespace, e.Name, func(ctx context.Context, k keyspace.Catalogue, folded string) error {
		if e.Kind == core.Schedule && s.server.Stamp.Mark.Load() < server.FormatWithSchedules {
			return core.CertainlyNotDone(errNoSchedules)
		}
		value, err := encodeEntity(e)
		if err != nil {
			return err
		}
		taken, err := s.server.Ask(ctx, conn.Replicated, "HEXISTS", k.Entities, folded)
		if err != nil {
			return err
		}
		if taken == int64(1) {
			return core.AlreadyExists
		}
		if err := s.makePartitions(ctx, &e); err != nil {
			return err
		}
		args := []any{uint8(e.Kind), topicOf(&e), e.TopicID, value, q.MaxEntities, q.MaxSizeMegabytes}
		for i := range e.Rules {
			member, err := ruleMember(&e.Rules[i])
			if err != nil {
				return err
			}
			args = append(args, member)
		}
		names := changedNames(&e)
		reply, err := s.change(ctx, script.EntityCreate, append(k.All(), k.Seal, k.RulesOf(&e)), e.Namespace, names, args...)
		switch core.CodeOf(err) {
		case core.AlreadyExists, core.NotFound, core.QuotaExceeded:
			s.tryUnlink(ctx, &k, &e, e.Kind == core.Subscription)
		}
		if err != nil {
			return err
		}
		defer s.changes.notify(e.Namespace, names...)
		return s.fence(ctx, k, e.TopicID, e.Partitions, reply[0])
	})
	e.Rules = nil
	return e, err
}

// fence makes the topic's partitions refuse publications for an older version of the subscriptions.
// If fence fails, or this gateway crashes, the next call of Topic calls fence again.
func (s *Catalogue) fence(ctx context.Context, k keyspace.Catalogue, topicID string, partitions int, version any) error {
	v, _ := version.(int64)
	if v == 0 {
		return nil
	}
	cmds := make([]*redis.Cmd, partitions)
	for i := range cmds {
		r := core.Ref{Entity: topicID, Index: uint16(i)}
		cmds[i] = redis.NewCmd(ctx, script.TopicSetVersion.Command([]any{s.server.Names.Stream(r), s.server.Names.Head(r)}, v)...)
	}
	if err := s.server.Exchange(ctx, conn.Replicated, cmds...); err != nil {
		return fmt.Errorf("cannot update the partitions of the topic %s: %w", topicID, err)
	}
	_, err := s.server.Eval(ctx, script.TopicClearFence, []any{k.Fences}, topicID, v)
	return err
}

// makePartitions creates the streams of an entity. Sends add only to existing streams, so a late
// send cannot recreate a deleted entity.
func (s *Catalogue) makePartitions(ctx context.Context, e *core.Entity) error {
	const group = "made"
	var cmds []*redis.Cmd
	for i := range e.Partitions {
		for sub := range core.SubQueues {
			stream := s.server.Names.Stream(e.Ref(uint16(i), sub))
			cmds = append(cmds, redis.NewCmd(ctx, "XGROUP", "CREATE", stream, group, "$", "MKSTREAM"), redis.NewCmd(ctx, "XGROUP", "DESTROY", stream, group))
		}
		if e.Kind == core.Subscription {
			cmds = append(cmds, redis.NewCmd(ctx, "SADD", s.server.Names.Subscriptions(e.Ref(uint16(i), core.Main)), e.ID))
		}
	}
	return s.server.Exchange(ctx, conn.Replicated, cmds...)
}

// unlink removes the keys of e. topicStays is true if e is a subscription whose topic is not being
// deleted; otherwise, unlink also removes the keys that e shares with its topic.
func (s *Catalogue) unlink(ctx context.Context, k *keyspace.Catalogue, e *core.Entity, topicStays bool) (err error) {
	pipe := s.server.RDB.Pipeline()
	for i := range e.Partitions {
		r := e.Ref(uint16(i), core.Main)
		if topicStays {
			if failed := s.leaveTopic(ctx, e, r); failed != nil {
				err = errors.Join(err, failed)
				continue
			}
		}
		pipe.Unlink(ctx, s.server.Names.All(r)...)
	}
	pipe.Unlink(ctx, k.RulesOf(e))
	_, failed := pipe.Exec(ctx)
	return errors.Join(err, failed)
}

// tryUnlink is unlink for an entity that is already deleted: it only logs an error.
func (s *Catalogue) tryUnlink(ctx context.Context, k *keyspace.Catalogue, e *core.Entity, topicStays bool) {
	if err := s.unlink(ctx, k, e, topicStays); err != nil {
		s.server.Log.Warn("cannot remove all keys of a deleted entity: they may stay in Redis and use memory", "entity", e.ID, "err", err)
	}
}

func (s *Catalogue) leaveTopic(ctx context.Context, e *core.Entity, r core.Ref) error {
	// The streams are removed first, because scripts do not change a queue without a stream.
	var streams []string
	for sub := range core.SubQueues {
		streams = append(streams, s.server.Names.Stream(e.Ref(r.Index, sub)))
	}
	if err := s.server.RDB.Unlink(ctx, streams...).Err(); err != nil {
		return err
	}
	if err := s.releaseSharedBodies(ctx, r); err != nil {
		return err
	}
	return s.server.RDB.SRem(ctx, s.server.Names.Subscriptions(r), e.ID).Err()
}

func (s *Catalogue) Entity(ctx context.Context, namespace, name string) (e core.Entity, err error) {
	err = s.withCatalogue(ctx, "read entity", namespace, name, func(ctx context.Context, k keyspace.Catalogue, folded string) error {
		es, err := s.read(ctx, &k, folded)
		if err == nil && len(es) == 0 {
			err = core.NotFound
		}
		if err == nil {
			e = es[0]
		}
		return err
	})
	return e, err
}

// read leaves out unknown names.
func (s *Catalogue) read(ctx context.Context, k *keyspace.Catalogue, names ...any) ([]core.Entity, error) {
	lists, err := s.server.Lists(ctx, redis.NewCmd(ctx, append([]any{"HMGET", k.Entities}, names...)...), redis.NewCmd(ctx, append([]any{"ZMSCORE", k.Accessed}, names...)...))
	if err != nil {
		return nil, err
	}
	return parseAll(lists[0], lists[1])
}

func (s *Catalogue) Topic(ctx context.Context, namespace, name string) (view core.TopicView, err error) {
	err = s.withCatalogue(ctx, "read topic", namespace, name, func(ctx context.Context, k keyspace.Catalogue, folded string) error {
		reply, err := s.server.Eval(ctx, script.TopicGet, k.All(), folded)
		if err != nil {
			return err
		}
		if len(reply) != 4 {
			return server.ErrReply
		}
		view.Version, _ = reply[0].(int64)
		values, _ := reply[2].([]any)
		accessed, _ := reply[3].([]any)
		es, err := parseAll(values, accessed)
		if err != nil || len(es) == 0 {
			return err
		}
		view.Entity, view.Subscriptions = es[0], es[1:]
		if err := s.readRules(ctx, &k, view.Subscriptions); err != nil {
			return err
		}
		return s.fence(ctx, k, view.ID, view.Partitions, reply[1])
	})
	return view, err
}

func parseAll(values, accessed []any) (es []core.Entity, err error) {
	if len(values) != len(accessed) {
		return nil, server.ErrReply
	}
	for i, value := range values {
		text, ok := value.(string)
		if !ok {
			continue
		}
		e, err := decodeEntity(text, accessed[i])
		if err != nil {
			return nil, err
		}
		es = append(es, e)
	}
	return es, nil
}

func (s *Catalogue) Entities(ctx context.Context, namespace string, l core.Listing, skip, top int) (es []core.Entity, err error) {
	skip = max(skip, 0)
	if top <= 0 {
		return nil, nil
	}
	prefix := strconv.Itoa(int(l.Kind)) + ":"
	if l.Kind == core.Subscription {
		prefix += core.FoldName(core.SubscriptionPath(l.Topic, ""))
	}
	err = s.withCatalogue(ctx, "list entities of", namespace, "", func(ctx context.Context, k keyspace.Catalogue, _ string) error {
		from, offset := "["+prefix, int64(skip)
		for len(es) < top {
			want := top - len(es)
			members, err := s.server.RDB.ZRangeByLex(ctx, k.Names, &redis.ZRangeBy{
				Min: from, Max: "(" + prefix + "\xff", Offset: offset, Count: int64(want),
			}).Result()
			if err == nil && len(members) == 0 {
				err = s.server.Intact()
			}
			if err != nil || len(members) == 0 {
				return err
			}
			names := make([]any, len(members))
			for i, member := range members {
				_, names[i], _ = strings.Cut(member, ":")
			}
			page, err := s.read(ctx, &k, names...) // without those that were deleted meanwhile: others are read instead
			if err != nil {
				return err
			}
			if es = append(es, page...); len(members) < want {
				return nil
			}
			from, offset = "("+members[len(members)-1], 0
		}
		return nil
	})
	return es, err
}

func (s *Catalogue) UpdateEntity(ctx context.Context, e core.Entity, q core.NamespaceQuotas) (core.Entity, error) {
	e, _, err := s.update(ctx, "update entity", e, q)
	return e, err
}

// update stores e. rules are pairs for lua/entity_update.lua. The int64 is the new version of e's
// topic.
func (s *Catalogue) update(ctx context.Context, what string, e core.Entity, q core.NamespaceQuotas, rules ...any) (core.Entity, int64, error) {
	var version int64
	err := s.withCatalogue(ctx, what, e.Namespace, e.Name, func(ctx context.Context, k keyspace.Catalogue, folded string) error {
		old := revisionPrefix(e.Revision, e.ID)
		e.Revision++
		value, err := encodeEntity(e)
		if err != nil {
			return err
		}
		names := changedNames(&e)
		reply, err := s.change(ctx, script.EntityUpdate, []any{k.Entities, k.Versions, k.Fences, k.Names, k.RulesOf(&e)}, e.Namespace, names,
			append([]any{e.TopicID, old, value, q.MaxSizeMegabytes}, rules...)...)
		if err != nil {
			return err
		}
		version, _ = reply[0].(int64)
		defer s.changes.notify(e.Namespace, names...)
		if at, err := s.server.RDB.ZScore(ctx, k.Accessed, folded).Result(); err == nil && core.Instant(int64(at)).After(e.AccessedAt) {
			e.AccessedAt = core.Instant(int64(at))
		}
		return s.fence(ctx, k, e.TopicID, e.Partitions, reply[0])
	})
	e.Rules = nil
	return e, version, err
}

func (s *Catalogue) DeleteEntity(ctx context.Context, namespace, name string) error {
	return s.withCatalogue(ctx, "delete entity", namespace, name, func(ctx context.Context, k keyspace.Catalogue, folded string) error {
		for {
			err := s.deleteOnce(ctx, namespace, k, folded)
			if core.CodeOf(err) != core.Conflict { // Conflict: the entity has changed since it was read
				return err
			}
		}
	})
}

func (s *Catalogue) deleteOnce(ctx context.Context, namespace string, k keyspace.Catalogue, folded string) error {
	raw, err := s.server.Ask(ctx, conn.Replicated, "HGET", k.Entities, folded)
	if conn.IsNil(err) {
		return core.NotFound
	}
	if err != nil {
		return err
	}
	value, _ := raw.(string)
	e, err := decodeEntity(value, nil)
	if err != nil {
		return err
	}
	topicID := e.TopicID
	if e.Kind == core.Topic {
		topicID = e.ID
	}
	names := changedNames(&e)
	reply, err := s.change(ctx, script.EntityDelete, k.All(), namespace, names, revisionPrefix(e.Revision, e.ID), uint8(e.Kind), topicID)
	if err != nil {
		return err
	}
	values := reply[1:]
	for i := 2; i+1 < len(values); i += 2 { // the entity's own two values come first
		subscription, _ := values[i].(string)
		names = append(names, subscription)
	}
	defer s.changes.notify(namespace, names...)
	if err := s.fence(ctx, k, topicID, e.Partitions, reply[0]); err != nil {
		return err
	}
	for i := 1; i < len(values); i += 2 {
		text, _ := values[i].(string)
		gone, err := decodeEntity(text, nil)
		if err != nil {
			return err
		}
		s.tryUnlink(ctx, &k, &gone, e.Kind == core.Subscription)
	}
	if e.Kind == core.Topic { // only now, because the subscriptions used the topic's shared keys
		s.tryUnlink(ctx, &k, &e, false)
	}
	return nil
}

// TouchEntities does not change revisions, and ignores unknown names and earlier times.
func (s *Catalogue) TouchEntities(ctx context.Context, namespace string, accessed map[string]time.Time) error {
	if len(accessed) == 0 {
		return nil
	}
	return s.withCatalogue(ctx, "touch entities of", namespace, "", func(ctx context.Context, k keyspace.Catalogue, _ string) error {
		args := make([]any, 0, 2*len(accessed))
		for name, at := range accessed {
			args = append(args, core.FoldName(name), at.UnixMilli())
		}
		_, err := s.server.Eval(ctx, script.EntityTouch, []any{k.Entities, k.Accessed}, args...)
		return err
	})
}

func (s *Catalogue) releaseSharedBodies(ctx context.Context, r core.Ref) error {
	for r.Sub = range core.SubQueues {
		keys := []any{s.server.Names.Prefix(r) + keyspace.SharedSuffix, s.server.Names.Bodies(r), s.server.Names.Refs(r)}
		for left := int64(1); left > 0; {
			reply, err := s.server.Eval(ctx, script.SharedBodiesRelease, keys, server.Flag(r.Sub.IsDeadLetter()))
			if err != nil {
				return err
			}
			left, _ = server.First(reply).(int64)
		}
	}
	return nil
}
