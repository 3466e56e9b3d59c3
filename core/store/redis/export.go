package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/record"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
)

var _ core.Backups = (*Store)(nil)

// Temporary keys expire after copyLife, in case the gateway cannot remove them. Each step of an
// export or import extends this, so no step may take longer.
const copyLife = 10 * time.Minute

// errIdle ends an export or import after a pause in which the temporary keys may have expired.
var errIdle = core.Refuse(core.Timeout, "the export or import was cancelled, because nothing was read or written for %v: start it again", copyLife-time.Minute)

const copyPage = 500

// exportSuffixes are copied: stream, head, delivery counts, changed
// properties, deferred, scheduled, names of sessions.
const exportSuffixes = "mhdpfqn"

// twin names temporary keys in the slot of a partition's keys.
type twin struct {
	tag string
	id  string
}

func (s *Store) twin(r core.Ref) twin { return twin{s.server.Names.Tag(r), "~" + rand.Text() + "~"} }

func (a twin) of(key string) string { return a.tag + a.id + strings.TrimPrefix(key, a.tag) }

// homes returns r and the partitions of a topic's subscriptions with the same index. ids are the
// subscriptions' IDs, as arguments for scripts.
func (s *Store) homes(ctx context.Context, r core.Ref) (homes []core.Ref, ids []any, err error) {
	homes = []core.Ref{{Entity: r.Entity, Index: r.Index}}
	own, err := s.server.RDB.SMembers(ctx, s.server.Names.Subscriptions(r)).Result()
	slices.Sort(own)
	for _, id := range own {
		homes = append(homes, core.Ref{Entity: r.Entity, Subscription: id, Index: r.Index})
		ids = append(ids, id)
	}
	return homes, ids, err
}

func (s *Store) NamespaceIDs(ctx context.Context) (ids []string, err error) {
	if err := s.server.Enter(ctx); err != nil {
		return nil, fmt.Errorf("cannot list namespaces: %w", err)
	}
	defer s.server.Calls.Done()
	prefix, suffix, _ := strings.Cut(s.server.Names.Catalogue("*").Entities, "*")
	keys, err := s.catalogues(ctx)
	for _, key := range keys {
		ids = append(ids, strings.TrimSuffix(strings.TrimPrefix(key, prefix), suffix))
	}
	return ids, s.server.WrapError("list namespaces", err)
}

func (s *Store) Export(ctx context.Context, r core.Ref, take func(*core.Stored) error) error {
	r.Subscription, r.Sub = "", core.Main
	if err := s.server.Enter(ctx); err != nil {
		return fmt.Errorf("cannot export: %w", err)
	}
	defer s.server.Calls.Done()
	x := &export{store: s, twin: s.twin(r), take: take}
	x.err = x.copy(ctx, r)
	defer func() { s.unlink(ctx, x.keys) }()
	for _, home := range x.homes {
		x.home(ctx, home)
	}
	what := "export " + s.server.Names.Tag(r)
	if x.refused {
		return fmt.Errorf("%s: %w", what, x.err)
	}
	return s.server.WrapError(what, x.err)
}

// After the first error, an export gives nothing more.
type export struct {
	store   *Store
	twin    twin
	take    func(*core.Stored) error
	err     error
	refused bool // take has returned err
	homes   []core.Ref
	keys    []string
	beat    time.Time
}

// copy copies all keys with one script, so that they show the partition at one time.
func (x *export) copy(ctx context.Context, r core.Ref) error {
	names := x.store.server.Names
	for {
		homes, ids, err := x.store.homes(ctx, r)
		if err != nil {
			return err
		}
		x.homes, x.keys = homes, nil
		keys := []any{names.Stream(r), names.Subscriptions(r)}
		add := func(key string) {
			x.keys = append(x.keys, x.twin.of(key))
			keys = append(keys, key, x.twin.of(key))
		}
		for _, home := range homes {
			for _, key := range names.Some(home, exportSuffixes) {
				add(key)
			}
		}
		add(names.Bodies(r))
		_, err = x.store.server.Eval(ctx, script.PartitionCopy, keys, append([]any{copyLife.Milliseconds()}, ids...)...)
		x.beat = time.Now()
		if core.CodeOf(err) != core.Conflict { // Conflict: subscriptions were created or deleted meanwhile
			return err
		}
	}
}

// If unlink fails, the keys expire after copyLife.
func (s *Store) unlink(ctx context.Context, keys []string) {
	if len(keys) == 0 {
		return
	}
	ctx, cancel := s.server.Bounded(context.WithoutCancel(ctx))
	defer cancel()
	if err := s.server.RDB.Unlink(ctx, keys...).Err(); err != nil {
		s.server.Log.Warn("cannot remove the temporary keys of an export or import: they expire later", "err", err)
	}
}

func (x *export) extend(ctx context.Context) error {
	switch idle := time.Since(x.beat); {
	case idle < copyLife/4:
		return ctx.Err()
	case idle > copyLife-time.Minute:
		return errIdle
	}
	x.beat = time.Now()
	pipe := x.store.server.RDB.Pipeline()
	for _, key := range x.keys {
		pipe.PExpire(ctx, key, copyLife)
	}
	_, err := pipe.Exec(ctx)
	return err
}

// ok reports whether the export may continue after err.
func (x *export) ok(err error) bool {
	x.err = cmp.Or(x.err, err)
	return x.err == nil
}

func (x *export) give(t core.Stored) {
	if x.err == nil {
		x.err = x.take(&t)
		x.refused = x.err != nil
	}
}

func (x *export) home(ctx context.Context, home core.Ref) {
	s := x.store
	for home.Sub = range core.SubQueues {
		at := core.Stored{Subscription: home.Subscription, Sub: home.Sub}
		prefix := x.twin.of(s.server.Names.Prefix(home))
		last, err := s.server.RDB.HGet(ctx, prefix+"h", "s").Int64()
		if err != nil && !conn.IsNil(err) {
			x.ok(err)
		}
		if last > 0 {
			at.Kind, at.Last = core.StoredLast, last
			x.give(at)
			at.Last = 0
		}
		if home.Sub == core.Main {
			x.states(ctx, prefix, at)
		}
		x.messages(ctx, home, prefix)
	}
	home.Sub = core.Main
	base := x.twin.of(s.server.Names.Base(home))
	x.ids(ctx, base+keyspace.SeenSuffix, core.Stored{Kind: core.StoredSeen, Subscription: home.Subscription})
	x.ids(ctx, base+keyspace.MovedSuffix, core.Stored{Kind: core.StoredMove, Subscription: home.Subscription})
}

func (x *export) states(ctx context.Context, prefix string, at core.Stored) {
	at.Kind = core.StoredState
	for from := int64(0); x.ok(x.extend(ctx)); from += copyPage {
		keys, err := x.store.server.RDB.ZRange(ctx, prefix+"s", from, from+copyPage-1).Result()
		if !x.ok(err) || len(keys) == 0 {
			return
		}
		for _, key := range keys {
			state, err := x.store.server.RDB.HGet(ctx, prefix+"c", key).Bytes()
			set, failed := x.store.server.RDB.HGet(ctx, prefix+"e", key).Result()
			if !x.ok(cmp.Or(err, failed)) {
				return
			}
			millis, id, different := strings.Cut(set, "\x00")
			if !different {
				id = key
			}
			n, err := strconv.ParseInt(millis, 10, 64)
			if err != nil {
				x.ok(record.ErrEntry)
			}
			at.Session, at.SessionState, at.Time = id, append([]byte{}, state...), core.Instant(n)
			x.give(at)
		}
	}
}

// ids exports a sorted set of ids (duplicate detection) or of Transit.Keys of messages moved here.
func (x *export) ids(ctx context.Context, key string, at core.Stored) {
	for from := int64(0); x.ok(x.extend(ctx)); from += copyPage {
		ids, err := x.store.server.RDB.ZRangeWithScores(ctx, key, from, from+copyPage-1).Result()
		if !x.ok(err) || len(ids) == 0 {
			return
		}
		for _, id := range ids {
			at.Key, _ = id.Member.(string)
			at.Time = core.Instant(int64(id.Score))
			x.give(at)
		}
	}
}

func (x *export) messages(ctx context.Context, r core.Ref, prefix string) {
	sh := x.store.newShard(place{Ref: r}, false)
	var repeated, count int64 // of the messages that the next sweep removes: see field u in lua/state.lua
	text, err := x.store.server.RDB.HGet(ctx, prefix+"h", "u").Result()
	if err == nil {
		_, err = fmt.Sscan(text, &repeated, &count)
	}
	if err != nil && !conn.IsNil(err) {
		x.ok(err)
	}
	gone := func(n int64) bool { return n >= repeated && n < repeated+count }
	for from, limit := int64(0), 16; x.ok(x.extend(ctx)); {
		raw, err := x.store.server.RDB.Do(ctx, "XRANGE", prefix+"m", keyspace.EntryID(from), "+", "COUNT", limit).Slice()
		if !x.ok(err) || len(raw) == 0 {
			return
		}
		entries, err := record.ParseEntries(raw)
		if !x.ok(err) || !x.ok(x.page(ctx, sh, prefix, entries, gone)) {
			return
		}
		from, limit = entries[len(entries)-1].N+1, sh.page() // the page size follows from the sizes read so far
	}
}

// page gives entries, but leaves out those that are gone or reserved for a transaction.
func (x *export) page(ctx context.Context, sh *shard, prefix string, entries []record.Entry, gone func(n int64) bool) error {
	states, err := x.store.messageStates(ctx, prefix, entries)
	if err != nil {
		return err
	}
	for i := range entries {
		if states[i].reserved || gone(entries[i].N) {
			continue
		}
		thing := core.Stored{Kind: core.StoredMessage, Subscription: sh.Subscription, Sub: sh.Sub, InSession: states[i].inSession}
		var bodiless bool
		if thing.Delivery, bodiless, err = sh.delivery(&entries[i], states[i].SideData, states[i].state); err != nil {
			return err
		}
		thing.SetDue(states[i].due)
		if bodiless {
			body, err := x.store.server.RDB.HGet(ctx, x.twin.of(x.store.server.Names.Bodies(sh.Ref)), strconv.FormatInt(entries[i].Origin, 10)).Bytes()
			if err != nil {
				return fmt.Errorf("cannot read the body of message %d: %w", entries[i].N, err)
			}
			if body == nil {
				body = []byte{}
			}
			thing.Body.Bytes = body
		}
		x.give(thing)
	}
	return nil
}

var globs = strings.NewReplacer("*", "\\*", "?", "\\?", "[", "\\[", "]", "\\]", "\\", "\\\\")

func (s *Store) catalogues(ctx context.Context) (keys []string, err error) {
	pattern := globs.Replace(string(s.server.Names)) + "{ct:*}e"
	var mu sync.Mutex
	err = s.server.EachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		const page = 10_000
		found := node.Scan(ctx, 0, pattern, page).Iterator()
		for found.Next(ctx) {
			mu.Lock()
			keys = append(keys, found.Val())
			mu.Unlock()
		}
		return found.Err()
	})
	slices.Sort(keys)
	return slices.Compact(keys), err
}
