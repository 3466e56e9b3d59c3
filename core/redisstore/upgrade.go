package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
)

// format is the format of this version's data; the registry has that of a store. Format 1 is not
// marked: there the keys of sessions are their ids, escaped. From format 2 on they are
// core.SessionKeys. From format 3 on the rules of subscriptions have a key of their own.
const format = 3

// maxMisplaced is how many sessions a refused upgrade names.
const maxMisplaced = 5

// upgrade converts an earlier version's store to this version's format. Each step can be repeated,
// after a crash or by two gateways at a time.
func (s *Store) upgrade(ctx context.Context) error {
	key := s.names.registry().format
	given, err := s.rdb.Get(ctx, key).Int()
	switch {
	case err != nil && !isNil(err):
		return fmt.Errorf("read the store's format: %w", err)
	case given > format:
		return fmt.Errorf("a later version wrote the store (format %d; this one knows %d): start that version", given, format)
	case given == format:
		return nil
	}
	// Ending a lock sweeps: what becomes due then is found in the next round.
	for n := 1; n > 0 && given < 2; {
		if n, err = (&upgrading{Store: s}).run(ctx); err != nil {
			return fmt.Errorf("upgrade what an earlier version wrote: %w", err)
		}
	}
	if err := s.moveRules(ctx); err != nil {
		return fmt.Errorf("upgrade the rules that an earlier version wrote: %w", err)
	}
	return s.rdb.Set(ctx, key, format, 0).Err()
}

// moveRules gives subscriptions' rules keys of their own. It starts again when an entity has
// changed meanwhile: another gateway may be doing the same.
func (s *Store) moveRules(ctx context.Context) error {
	u := &upgrading{Store: s}
	catalogues, err := u.catalogues(ctx)
	if err != nil {
		return err
	}
	for _, key := range catalogues {
		for again := true; again; {
			again = false
			entities, err := u.entities(ctx, key)
			if err != nil {
				return err
			}
			for i := range entities {
				err := u.moveRulesOf(ctx, &entities[i])
				if code := core.CodeOf(err); code == core.Conflict || code == core.NotFound {
					again = true
				} else if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (u *upgrading) moveRulesOf(ctx context.Context, e *core.Entity) error {
	if len(e.Rules) == 0 {
		return nil
	}
	changes := make([]any, 0, 2*len(e.Rules))
	for i := range e.Rules {
		member, err := ruleMember(&e.Rules[i])
		if err != nil {
			return err
		}
		changes = append(changes, core.FoldName(e.Rules[i].Name), member)
	}
	_, _, err := u.update(ctx, "move the rules of", *e, core.NamespaceQuotas{}, changes...)
	return err
}

// upgrading is an upgrade under way.
type upgrading struct {
	*Store
	sessions  []renamed
	misplaced []string // sessions that lie in another partition than their new keys say
}

// renamed is a session that gets a new name.
type renamed struct {
	sh      *shard
	from    string // its key in format 1
	name    string
	numbers []any  // of its messages
	nonce   string // of its lock; "" if it is free
}

// run renames sessions, and returns how many. It checks all entities before it changes anything.
func (u *upgrading) run(ctx context.Context) (int, error) {
	catalogues, err := u.catalogues(ctx)
	if err != nil {
		return 0, err
	}
	for _, key := range catalogues {
		entities, err := u.entities(ctx, key)
		if err != nil {
			return 0, err
		}
		for i := range entities {
			if err := u.inspect(ctx, &entities[i], entities); err != nil {
				return 0, fmt.Errorf("%s: %w", &entities[i], err)
			}
		}
	}
	if n := len(u.misplaced); n > 0 {
		return 0, fmt.Errorf("session ids are now compared without regard to case, so some sessions belong to another partition, and %d of these still have messages or state: %s. With the earlier version receive their messages and clear their states, or delete these entities; then start this version again",
			n, strings.Join(u.misplaced[:min(n, maxMisplaced)], ", "))
	}
	for i := range u.sessions {
		if err := u.rekey(ctx, &u.sessions[i]); err != nil {
			return 0, err
		}
	}
	if n := len(u.sessions); n > 0 {
		u.log.Info("sessions of an earlier version have new keys: do not start that version with this store again", "sessions", n)
	}
	return len(u.sessions), nil
}

// globs escapes the special characters of SCAN's patterns.
var globs = strings.NewReplacer("*", "\\*", "?", "\\?", "[", "\\[", "]", "\\]", "\\", "\\\\")

// catalogues finds the keys of all namespaces' entities.
func (s *Store) catalogues(ctx context.Context) (keys []string, err error) {
	pattern := globs.Replace(string(s.names)) + "{ct:*}e"
	var mu sync.Mutex
	err = s.eachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
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

// entities returns the entities of a catalogue.
func (u *upgrading) entities(ctx context.Context, key string) ([]core.Entity, error) {
	values, err := u.rdb.HVals(ctx, key).Result()
	if err != nil {
		return nil, err
	}
	entities := make([]core.Entity, len(values))
	for i, value := range values {
		if entities[i], err = parseCatalogue(value, nil); err != nil {
			return nil, err
		}
	}
	return entities, nil
}

// inspect finds what is to change in an entity. others are the entities of its namespace.
func (u *upgrading) inspect(ctx context.Context, e *core.Entity, others []core.Entity) error {
	fills := func(o core.Entity) bool { return o.Settings.RequiresSession && topicOf(&o) == core.FoldName(e.Name) }
	for i := range e.Partitions {
		p := e.Partition(uint16(i), core.Main)
		p.MaxDeliveryCount = 0 // the sweep at the end of a lock must not dead-letter: the next failure does
		sh := u.newShard(p, e.Settings.RequiresSession)
		switch {
		case e.Settings.RequiresSession:
			if err := u.findSessions(ctx, e, sh); err != nil {
				return err
			}
		case e.Kind == core.Topic && e.Partitions > 1 && slices.ContainsFunc(others, fills):
			if err := u.checkTopic(ctx, e, sh); err != nil {
				return err
			}
		}
	}
	return nil
}

// findSessions finds the sessions of a partition that get a new name.
func (u *upgrading) findSessions(ctx context.Context, e *core.Entity, sh *shard) error {
	sessions := map[string]*renamed{}
	session := func(from string) *renamed {
		r := sessions[from]
		if r == nil {
			r = &renamed{sh: sh, from: from, name: sessionName(formerID(from))}
			sessions[from] = r
		}
		return r
	}
	prefix := sh.keys.prefix
	err := u.pairs(ctx, prefix+sessionOfSuffix, func(n, from string) {
		if !strings.Contains(from, "\x00") && sessionName(formerID(from)) != from {
			r := session(from)
			r.numbers = append(r.numbers, n)
		}
	})
	if err != nil {
		return err
	}
	err = u.pairs(ctx, sh.stateKey(1), func(from, set string) {
		if !strings.Contains(set, "\x00") && sessionName(formerID(from)) != from {
			session(from)
		}
	})
	if err != nil {
		return err
	}
	err = u.pairs(ctx, prefix+holdersSuffix, func(from, nonce string) {
		if core.KeyOfSession(formerID(from)) != core.SessionKey(from) {
			session(from).nonce = nonce
		}
	})
	if err != nil {
		return err
	}
	for from, r := range sessions {
		u.notePlace(e, sh, formerID(from))
		u.sessions = append(u.sessions, *r)
	}
	return nil
}

// notePlace notes a session whose new key belongs to another partition, where no receiver would
// find it.
func (u *upgrading) notePlace(e *core.Entity, sh *shard, id string) {
	if core.PartitionOf(string(core.KeyOfSession(id)), e.Partitions) != sh.Index {
		u.misplaced = append(u.misplaced, fmt.Sprintf("%q of %s", id, e))
	}
}

// checkTopic checks messages that wait in a topic for sessions of its subscriptions whose new keys
// belong to another partition.
func (u *upgrading) checkTopic(ctx context.Context, e *core.Entity, sh *shard) error {
	const page = 100
	for from := "-"; ; {
		entries, err := u.rdb.XRangeN(ctx, sh.keys.stream, from, "+", page).Result()
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, entry := range entries {
			record, _ := entry.Values["d"].(string)
			m, _, _, err := decodeRecord(record)
			if err != nil {
				return err
			}
			if m.HasSession() {
				u.notePlace(e, sh, m.SessionID)
			}
			from = "(" + entry.ID
		}
	}
}

// pairs iterates over a hash.
func (u *upgrading) pairs(ctx context.Context, key string, each func(field, value string)) error {
	const page = 1000
	pairs := u.rdb.HScan(ctx, key, 0, "", page).Iterator()
	for pairs.Next(ctx) {
		field := pairs.Val()
		if !pairs.Next(ctx) {
			break
		}
		each(field, pairs.Val())
	}
	return pairs.Err()
}

// formerEscapes undoes format 1's escapes for zero bytes, which a key must not contain.
var formerEscapes = strings.NewReplacer("\x01\x01", "\x00", "\x01\x02", "\x01")

// formerID is the id of a key in format 1. A key in format 2 results in an id with the same key.
func formerID(key string) string {
	if key == string(core.KeyOfSession("")) {
		return ""
	}
	return formerEscapes.Replace(key)
}

// rekey renames a session. If another session of the same new name is locked, too, this one's lock
// ends: its holder has gone with the earlier version.
func (u *upgrading) rekey(ctx context.Context, r *renamed) error {
	key, _, _ := strings.Cut(r.name, "\x00")
	keys := []any{r.sh.stateKey(0), r.sh.stateKey(1), r.sh.stateKey(2)}
	held, err := u.rdb.HExists(ctx, r.sh.keys.prefix+holdersSuffix, key).Result()
	if err != nil {
		return err
	}
	if held && r.nonce != "" {
		if _, _, err := u.transition(ctx, r.sh, u.millis(), sessionReleaseScript, nil, r.nonce, r.from); err != nil {
			return err
		}
	}
	const page = 1000
	for rest := r.numbers; ; {
		n := min(len(rest), page)
		if _, _, err := u.transition(ctx, r.sh, u.millis(), sessionRekeyScript, keys, append([]any{r.from, r.name}, rest[:n]...)...); err != nil {
			return err
		}
		if rest = rest[n:]; len(rest) == 0 {
			return nil
		}
	}
}
