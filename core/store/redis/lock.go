package redis

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/record"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

const (
	maxLock       = 1000     // messages that one script call locks
	maxInline     = 8        // messages whose records the script returns, to save a round trip
	maxInlineBody = 16 << 10 // largest average record that the script returns: Lua is slow with large strings
	maxRead       = 200      // entries read by one XRANGE
	maxReadBytes  = 4 << 20  // approximate bytes read by one XRANGE
	leastBlock    = 16       // locks in a block (see lua/settle_plain.lua): a smaller block costs more than it saves
	muchGarbage   = 32 << 20 // if more bytes than this were read but not delivered, the garbage collector runs at once
)

type claim struct {
	n int64
	record.SideData
}

type lease struct {
	nonce uint64
	until int64  // ms; in a session, the end of its lock
	call  string // in a session, the score of the locks of this call, because all calls have the same nonce
}

// The script's answer sets until.
func leaseIn(session *core.SessionLock) lease {
	score := 1<<53 + core.NewNonce()>>12<<1 // later than any deadline; even, so that a float64 holds it exactly
	return lease{nonce: session.Nonce, call: strconv.FormatUint(score, 10)}
}

func (sh *shard) lease(now int64) lease {
	l := lease{nonce: core.NewNonce(), until: now + sh.LockDuration.Milliseconds()}
	if sh.BrokerLocks {
		l.nonce = marked(sh.mark)
	}
	return l
}

func (l lease) score() any {
	if l.call != "" {
		return l.call
	}
	return l.until
}

func secret(nonce uint64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], nonce)
	return string(b[:])
}

// Once begun, Lock ignores the end of ctx. Otherwise a message could stay locked for no receiver.
func (p *handle) Lock(ctx context.Context, r core.LockRequest) (ds []core.Delivery, next time.Time, err error) {
	if r.Deferred || r.Numbers != nil {
		ds, err = p.lockNumbers(ctx, r)
		return ds, time.Time{}, err
	}
	if err := p.server.Enter(ctx); err != nil {
		return nil, time.Time{}, fmt.Errorf("cannot lock messages: %w", err)
	}
	defer p.server.Calls.Done()
	sh, done := p.shard(p.place)
	defer done()
	switch {
	case p.Sessions && r.Session == nil:
		return nil, time.Time{}, p.refuseLock(ctx, sh)
	case !p.Sessions && r.Messages <= 0:
		return nil, time.Time{}, nil
	}
	ds, next, err = p.lockMost(sh, &r)
	if err != nil {
		err = fmt.Errorf("cannot lock messages in the keys '%s*': %w", sh.keys.Prefix, err)
	}
	return ds, next, err
}

// lockMost locks available messages. It knows their sizes only after it has read them. Then it
// unlocks those beyond the limits of r, before another call can lock later messages.
func (s *Store) lockMost(sh *shard, r *core.LockRequest) (ds []core.Delivery, next time.Time, err error) {
	room := cmp.Or(r.Bytes, math.MaxInt64)
	for {
		reply, err := s.claim(sh, r.Session, min(max(r.Messages-len(ds), 0), sh.affordable(room)))
		if err != nil && len(ds) > 0 { // return them, because they are locked
			return ds, s.Now(), nil
		}
		if err != nil {
			return nil, time.Time{}, err
		}
		fitting := s.fit(sh, reply.deliveries, &room, len(ds) > 0)
		ds = append(ds, fitting...)
		switch {
		case len(fitting) < len(reply.deliveries):
			return ds, s.Now(), nil
		case len(ds) >= r.Messages || !reply.rest:
			return ds, reply.next, nil
		case len(ds) > 0 && room < sh.average.Load():
			return ds, s.Now(), nil
		}
	}
}

// fit returns the first messages of ds that fit into room, subtracts their sizes, and unlocks the
// rest. before means that the caller has messages already; otherwise ds[0] always fits. If the rest
// cannot be unlocked, fit returns all of ds: receivers must not get later messages before those.
func (s *Store) fit(sh *shard, ds []core.Delivery, room *int64, before bool) []core.Delivery {
	for i := range ds {
		size := int64(ds[i].Size())
		if size <= *room || i == 0 && !before {
			*room -= size
			continue
		}
		if s.unlock(sh, ds[i:]) {
			garbage := core.SizeOf(ds[i:])
			if clear(ds[i:]); garbage > muchGarbage {
				runtime.GC()
			}
			return ds[:i]
		}
		*room = 0
		break
	}
	return ds
}

func (s *Store) unlock(sh *shard, ds []core.Delivery) bool {
	settlements := make([]core.Settlement, len(ds))
	for i := range ds {
		settlements[i] = core.Settlement{Token: ds[i].LockToken, Outcome: core.Release}
	}
	return !slices.ContainsFunc((&handle{s, sh.place}).Settle(context.Background(), settlements), func(err error) bool {
		return err != nil && !errors.Is(err, core.LockLost) && !errors.Is(err, core.SessionLockLost)
	})
}

func (s *Store) refuseLock(ctx context.Context, sh *shard) error {
	bounded, cancel := s.server.Bounded(ctx)
	defer cancel()
	err := s.sweep(bounded, sh)
	var there any
	if err == nil {
		there, err = s.server.Do(bounded, "EXISTS", sh.keys.Stream)
	}
	switch {
	case err != nil:
		return s.server.WrapError("lock messages in "+sh.keys.Prefix, err)
	case there == int64(0):
		return nil
	}
	return core.Refuse(core.NotAllowed, "The entity requires sessions: accept a session and receive from it.")
}

// weigh adds a record to the average size, which is 0 before the first record.
func (sh *shard) weigh(size int64) {
	if average := sh.average.Load(); average > 0 {
		size = (7*average + size + 7) / 8
	}
	sh.average.Store(size)
}

// affordable estimates how many messages fit into bytes. It returns 1 if no size is known.
func (sh *shard) affordable(bytes int64) int {
	average := sh.average.Load()
	if average == 0 {
		return 1
	}
	return int(max(1, min(maxLock, bytes/average)))
}

type locked struct {
	deliveries []core.Delivery
	next       time.Time
	rest       bool // more messages may be available
}

// claim locks up to limit messages. In a queue with sessions, under is the lock of their session.
func (s *Store) claim(sh *shard, under *core.SessionLock, limit int) (locked, error) {
	ctx, cancel := s.server.Bounded(context.Background())
	defer cancel()
	if err := s.undoLostLocks(ctx, sh); err != nil {
		return locked{}, s.server.WrapError("end lost locks", err)
	}
	now := s.millis()
	l, proof, key, ok := sh.leaseUnder(now, under)
	if !ok {
		return locked{}, s.server.WrapError("lock messages", cmp.Or(s.sweep(ctx, sh), error(core.SessionLockLost)))
	}
	sc, args := script.Lock, []any{l.until, proof, limit, sh.inline(), s.server.ID, 0, s.blocksFrom(sh)}
	if sh.Sessions {
		sc, args = script.SessionLockMessages, []any{proof, key, limit, sh.inline(), l.call}
	}
	out, err := s.lockWith(ctx, sh, now, l, sc, limit, core.Active, args...)
	return out, s.server.WrapError("lock messages", err)
}

// blocksFrom returns the least number of locks in a block, or 0 for no blocks. Only
// settle_plain.lua gains from blocks, and gateways of older versions may not know them.
func (s *Store) blocksFrom(sh *shard) int {
	if sh.features != 0 || s.server.Stamp.Mark.Load() < server.FormatWithBlocks {
		return 0
	}
	return s.least
}

func (sh *shard) inline() int {
	if sh.average.Load() > maxInlineBody {
		return 0
	}
	return maxInline
}

// parseLock parses the answer of lock.lua without its first element, 'ok'. In answers of other
// scripts that lock messages, the end of the locks comes first.
func parseLock(reply []any, l *lease) (claims []claim, entries []any, out locked, err error) {
	if len(reply) == 8 {
		l.until, _ = server.ScoreMillis(reply[0])
		reply = reply[1:]
	}
	if len(reply) != 7 {
		return nil, nil, out, server.ErrReply
	}
	rest, _ := reply[0].(int64)
	next, _ := reply[1].(int64)
	numbers, _ := reply[2].([]any)
	counts, _ := reply[3].([]any)
	overrides, _ := reply[4].([]any)
	runs, _ := reply[5].([]any)
	entries, _ = reply[6].([]any)
	if len(counts) != len(numbers) || len(overrides) != len(numbers) || len(runs)%2 != 0 {
		return nil, nil, out, server.ErrReply
	}
	for i, raw := range numbers {
		text, _ := raw.(string)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, nil, out, server.ErrReply
		}
		a, err := record.ParseSideData(counts[i], overrides[i])
		if err != nil {
			return nil, nil, out, server.ErrReply
		}
		claims = append(claims, claim{n, a})
	}
	for i := 0; i < len(runs); i += 2 {
		first, _ := runs[i].(int64)
		last, _ := runs[i+1].(int64)
		if last < first || last-first >= maxLock {
			return nil, nil, out, server.ErrReply
		}
		for n := first; n <= last; n++ {
			claims = append(claims, claim{n: n})
		}
	}
	return claims, entries, locked{next: core.Instant(next), rest: rest == 1}, nil
}

// lockWith runs a script that locks messages under l, and returns these messages. limit is their
// largest number, or 0. If lockWith fails and messages may be locked, it adds l to lostLocks.
func (s *Store) lockWith(ctx context.Context, sh *shard, now int64, l lease, sc *script.Script, limit int, state core.State, args ...any) (out locked, err error) {
	reply, err := s.transition(ctx, sh, now, sc, nil, args...)
	if err != nil {
		if conn.MayHaveRun(err) {
			sh.lostLocks.add(l)
		}
		return out, err
	}
	claims, entries, out, err := parseLock(reply, &l)
	out.rest = out.rest || limit > 0 && len(claims) == limit
	if err == nil {
		out.deliveries, err = s.deliver(ctx, sh, l, claims, entries, state)
	}
	if err != nil {
		sh.lostLocks.add(l)
	}
	return out, err
}

// deliver returns the claimed messages, and reads those that are not in returned. If it fails, the
// caller adds l to lostLocks.
func (s *Store) deliver(ctx context.Context, sh *shard, l lease, claims []claim, returned []any, state core.State) ([]core.Delivery, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	entries, err := record.ParseEntries(returned)
	if len(returned) == 0 {
		entries, err = s.entriesOf(ctx, sh, claims)
	} else {
		s.recents.take(sh, claims)
	}
	if err != nil {
		return nil, s.server.WrapError("read messages", err)
	}
	return s.deliverEntries(ctx, sh, l, claims, entries, state)
}

// A claim without an entry is skipped: its lock has ended, and others have completed the message.
func (s *Store) deliverEntries(ctx context.Context, sh *shard, l lease, claims []claim, entries []record.Entry, state core.State) ([]core.Delivery, error) {
	ds := make([]core.Delivery, 0, len(claims))
	var missing []missingBody
	for _, c := range claims {
		if len(entries) == 0 {
			break
		}
		e := &entries[0]
		if e.N != c.n {
			continue
		}
		entries = entries[1:]
		d, bodiless, err := sh.delivery(e, c.SideData, state)
		if err != nil {
			// The lock will expire, and count as a failed delivery. After the last allowed
			// delivery, the message is dead-lettered.
			s.server.Log.Error("cannot read a message: receivers do not get it, and after the maximum number of deliveries it is dead-lettered", "entity", sh.Entity, "partition", sh.Index, "seq", sh.sequenceNumber(c.n), "err", err)
			continue
		}
		d.LockToken = core.NewLockToken(sh.Index, c.n, l.nonce)
		d.LockedUntil = core.Instant(l.until)
		if bodiless {
			missing = append(missing, missingBody{len(ds), e.Origin})
		}
		ds = append(ds, d)
	}
	ds, err := s.attachBodies(ctx, sh, ds, missing)
	if err != nil {
		return nil, s.server.WrapError("read bodies", err)
	}
	return ds, nil
}

// read sends one XRANGE for each run of consecutive numbers.
func (s *Store) read(ctx context.Context, sh *shard, claims []claim) ([]record.Entry, error) {
	limit := max(1, min(maxRead, maxReadBytes/max(1, sh.average.Load())))
	type span struct{ first, last int64 }
	var spans []span
	for _, c := range claims {
		if k := len(spans) - 1; k >= 0 && spans[k].last+1 == c.n && c.n-spans[k].first < limit {
			spans[k].last = c.n
		} else {
			spans = append(spans, span{c.n, c.n})
		}
	}
	commands := make([]*redis.Cmd, len(spans))
	for i, sp := range spans {
		commands[i] = redis.NewCmd(ctx, "XRANGE", sh.keys.Stream, keyspace.EntryID(sp.first), keyspace.EntryID(sp.last))
	}
	runs, err := s.server.Lists(ctx, commands...)
	if err != nil {
		return nil, err
	}
	if len(runs) == 1 {
		return record.ParseEntries(runs[0])
	}
	return record.ParseEntries(slices.Concat(runs...))
}
