package redis

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/record"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
)

// fillSuffixes name keys that, like stream and head, must not exist before an import.
const fillSuffixes = keyspace.MessageDataSuffixes + keyspace.SessionSuffixes

const (
	importMost  = 500
	importBytes = 1 << 20
)

// Import writes temporary keys, and renames them all with one script. If it fails, nothing changes.
func (s *Store) Import(ctx context.Context, r core.Ref, things iter.Seq2[*core.Stored, error]) error {
	r.Subscription, r.Sub = "", core.Main
	if err := s.server.Enter(ctx); err != nil {
		return fmt.Errorf("cannot import: %w", err)
	}
	defer s.server.Calls.Done()
	homes, ids, err := s.homes(ctx, r)
	x := &intake{store: s, twin: s.twin(r), homes: homes, ids: ids, lasts: make(map[core.Ref]int64), keys: make(map[string]bool)}
	what := "import into " + s.server.Names.Tag(r)
	if err == nil {
		err = x.fill(ctx, r, 0)
	}
	if err != nil {
		return s.server.WrapError(what, err)
	}
	defer x.remove(ctx)
	for thing, failed := range things {
		if failed != nil {
			return fmt.Errorf("%s: %w", what, failed)
		}
		if err := x.add(ctx, r, thing); err != nil {
			return s.server.WrapError(what, err)
		}
	}
	if err = x.flush(ctx); err == nil {
		err = x.fill(ctx, r, 1)
	}
	return s.server.WrapError(what, err)
}

type intake struct {
	store *Store
	twin  twin
	homes []core.Ref
	ids   []any
	cmds  []*redis.Cmd
	size  int
	beat  time.Time          // time of the last flush
	lasts map[core.Ref]int64 // highest position in each queue
	keys  map[string]bool    // temporary keys; true: written since the last flush
}

// fill gives the temporary keys their final names or, if do is 0, checks that these are unused.
func (x *intake) fill(ctx context.Context, r core.Ref, do int) error {
	names := x.store.server.Names
	keys := []any{names.Stream(r), names.Subscriptions(r)}
	var rest, lasts []any
	for _, home := range x.homes {
		for home.Sub = range core.SubQueues {
			keys = append(keys, names.Stream(home), names.Head(home), names.Doorbell(home), x.twin.of(names.Stream(home)))
			lasts = append(lasts, x.lasts[home])
		}
		for _, key := range names.Some(home, fillSuffixes) {
			rest = append(rest, key, x.twin.of(key))
		}
	}
	args := slices.Concat([]any{do, len(lasts)}, lasts, x.ids)
	_, err := x.store.server.Eval(ctx, script.PartitionFill, append(keys, rest...), args...)
	switch code := core.CodeOf(err); code {
	case core.AlreadyExists:
		return core.Refuse(code, "the partition is not empty: import into an entity that was never used")
	case core.Conflict:
		return core.Refuse(code, "a subscription of the topic was created or deleted during the import: import again while no client creates or deletes subscriptions")
	default:
		return err
	}
}

func (x *intake) remove(ctx context.Context) {
	x.store.unlink(ctx, slices.Collect(maps.Keys(x.keys)))
}

// do adds a command on the temporary key that the end of the import renames to key.
func (x *intake) do(ctx context.Context, command, key string, args ...any) {
	key = x.twin.of(key)
	x.keys[key] = true
	x.cmds = append(x.cmds, redis.NewCmd(ctx, append([]any{command, key}, args...)...))
}

func (x *intake) flush(ctx context.Context) error {
	if len(x.keys) > 0 && !x.beat.IsZero() && time.Since(x.beat) > copyLife-time.Minute {
		return errIdle
	}
	x.beat = time.Now()
	for key, written := range x.keys {
		if written || x.size > 0 { // extend all keys, because none may expire before the last one is written
			x.cmds = append(x.cmds, redis.NewCmd(ctx, "PEXPIRE", key, copyLife.Milliseconds()))
			x.keys[key] = false
		}
	}
	x.size = 0
	cmds := x.cmds
	x.cmds = nil
	return x.store.server.Exchange(ctx, conn.Replicated, cmds...)
}

func (x *intake) add(ctx context.Context, r core.Ref, t *core.Stored) error {
	home := core.Ref{Entity: r.Entity, Subscription: t.Subscription, Index: r.Index, Sub: t.Sub}
	if !slices.ContainsFunc(x.homes, func(h core.Ref) bool { return h.Subscription == t.Subscription }) {
		return core.Refuse(core.NotFound, "subscription %s does not exist", t.Subscription)
	}
	prefix, base := x.store.server.Names.Prefix(home), x.store.server.Names.Base(home)
	x.size++
	switch t.Kind {
	case core.StoredLast:
		x.lasts[home] = max(x.lasts[home], t.Last)
	case core.StoredState:
		name := sessionName(t.Session)
		key := string(core.KeyOfSession(t.Session))
		x.do(ctx, "HSET", prefix+"c", key, t.SessionState)
		x.do(ctx, "HSET", prefix+"e", key, fmt.Sprint(t.Time.UnixMilli())+name[len(key):])
		x.do(ctx, "ZADD", prefix+"s", 0, key)
		x.size += len(t.SessionState) * importMost / importBytes
	case core.StoredMessage:
		if err := x.message(ctx, home, prefix, t); err != nil {
			return err
		}
		x.size += t.Size() * importMost / importBytes
	case core.StoredSeen:
		x.do(ctx, "ZADD", base+keyspace.SeenSuffix, t.Time.UnixMilli(), t.Key)
	case core.StoredMove:
		x.do(ctx, "ZADD", base+keyspace.MovedSuffix, t.Time.UnixMilli(), t.Key)
	}
	if x.size < importMost {
		return nil
	}
	return x.flush(ctx)
}

// message stores an available message as one that was delivered before, because lock.lua finds
// these by number. lock.lua scans for undelivered messages from its cursor on, so their numbers
// must have no wide gaps; the cursor is set behind the last message.
func (x *intake) message(ctx context.Context, home core.Ref, prefix string, t *core.Stored) error {
	_, n := core.SplitSequenceNumber(t.SequenceNumber)
	x.lasts[home] = max(x.lasts[home], n)
	encoded, err := record.Encode(t.Message, t.EnqueuedTime.UnixMilli())
	if err != nil {
		return err
	}
	pad := keyspace.Padded(n)
	entry := []any{keyspace.EntryID(n), "d", encoded}
	if t.TimeToLive > 0 {
		entry = append(entry, "t", t.TimeToLive.Milliseconds())
	}
	if _, origin := core.SplitSequenceNumber(t.EnqueuedSequenceNumber); origin != n && (t.Transit == nil || t.Transit.EnqueuedSequenceNumber == 0) {
		entry = append(entry, "o", origin)
	}
	if !t.DeadLetteredTime.IsZero() {
		entry = append(entry, "z", t.DeadLetteredTime.UnixMilli())
	}
	x.do(ctx, "XADD", prefix+"m", entry...)
	if t.DeliveryCount > 0 {
		x.do(ctx, "HSET", prefix+"d", n, t.DeliveryCount)
	}
	var session string
	if t.InSession {
		session = string(t.SessionKey())
		x.do(ctx, "HSET", prefix+keyspace.SessionOfSuffix, n, sessionOf(t.Message))
	}
	switch {
	case t.State == core.Scheduled:
		x.do(ctx, "ZADD", prefix+"q", t.ScheduledEnqueueTime.UnixMilli(), pad)
		return nil
	case t.State == core.Deferred:
		x.do(ctx, "ZADD", prefix+"f", 0, n)
		if session != "" {
			x.do(ctx, "ZADD", prefix+"a", 0, session+"\x00"+pad)
		}
	case session != "":
		x.do(ctx, "ZADD", prefix+"o", 0, session+"\x00"+pad)
		x.do(ctx, "ZADD", prefix+"b", "LT", n, session)
	default:
		x.do(ctx, "ZADD", prefix+"r", n, n)
	}
	if home.Sub == core.Main && !t.ExpiresAt.IsZero() {
		x.do(ctx, "ZADD", prefix+keyspace.ExpirySuffix, t.ExpiresAt.UnixMilli(), pad)
	}
	return nil
}
