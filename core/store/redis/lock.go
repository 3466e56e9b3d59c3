package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/record"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

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
		if ds = append(ds, fitting...); len(ds) > len(fitting) { // between two claims, another gateway may have unlocked older messages
			slices.SortStableFunc(ds, func(a, b core.Delivery) int { return cmp.Compare(a.SequenceNumber, b.SequenceNumber) })
		}
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
			s.lostLocks.add(sh.place, l)
		}
		return out, err
	}
	claims, entries, out, err := parseLock(reply, &l)
	out.rest = out.rest || limit > 0 && len(claims) == limit
	if err == nil {
		out.deliveries, err = s.deliver(ctx, sh, l, claims, entries, state)
	}
	if err != nil {
		s.lostLocks.add(sh.place, l)
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

// With r.Deferred, lockNumbers locks all of the messages or none; otherwise, those that are
// available. Deferred messages whose time to live has ended expire even if the call fails.
func (p *handle) lockNumbers(ctx context.Context, r core.LockRequest) (ds []core.Delivery, err error) {
	what, sc, state := "lock messages by number", script.LockNumbers, core.Active
	if r.Deferred {
		what, sc, state = "lock deferred messages", script.LockDeferred, core.Deferred
	}
	err = p.operate(context.WithoutCancel(ctx), what, func(ctx context.Context, sh *shard) error {
		if err := p.undoLostLocks(ctx, sh); err != nil {
			return err
		}
		now := p.millis()
		l, proof, key, ok := sh.leaseUnder(now, r.Session)
		if !ok {
			return cmp.Or(p.sweep(ctx, sh), error(core.SessionLockLost))
		}
		own, void := sh.positions(r.Numbers)
		args := []any{l.score(), proof, key}
		if r.Deferred {
			args = []any{l.score(), proof, sh.inline(), void, key}
		}
		out, err := p.lockWith(ctx, sh, now, l, sc, 0, state, append(args, server.Args(own)...)...)
		ds = out.deliveries
		return err
	})
	return ds, err
}

// positions returns sequence numbers without the partition. It leaves out repeated numbers and
// those of other partitions: then void is 1, otherwise 0.
func (sh *shard) positions(numbers []int64) (own []int64, void int) {
	given := make(map[int64]bool, len(numbers))
	for _, number := range numbers {
		index, n := core.SplitSequenceNumber(number)
		if index != sh.Index || given[n] {
			void = 1
			continue
		}
		given[n] = true
		own = append(own, n)
	}
	return own, void
}

// endLostLocks takes at most a second, because its caller must then register the gateway in time.
func (s *Store) endLostLocks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, p := range s.lostLocks.places() {
		sh, done := s.shard(p)
		err := s.undoLostLocks(ctx, sh)
		if done(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) undoLostLocks(ctx context.Context, sh *shard) error {
	for {
		l, ok := s.lostLocks.next(sh.place, s.millis())
		if !ok {
			return nil
		}
		sc, args := script.LockUndo, []any{secret(l.nonce), l.call}
		if sh.Sessions && l.call == "" { // the lock of a session, whose proof depends on its mode
			sc, args = script.EndLocksOf, []any{secret(l.nonce), secret(l.nonce) + "0"}
		}
		if _, err := s.transition(ctx, sh, s.millis(), sc, nil, args...); err != nil {
			return err
		}
		s.lostLocks.undone(sh.place, l)
	}
}

// endLocks ends the locks of ended gateways. It returns false if there are no such gateways.
func (p *handle) endLocks(ctx context.Context, sh *shard) (bool, error) {
	ids, done := p.server.Peers.Ended(sh.keys.Doorbell)
	if len(ids) == 0 {
		return false, nil
	}
	var marks []any
	for _, id := range ids {
		marks = append(marks, markOf(id))
	}
	if _, err := p.transition(ctx, sh, p.millis(), script.EndLocksOf, nil, marks...); err != nil {
		return false, err
	}
	done()
	return true, nil
}

// Watch also wakes w when it begins to listen, because w may have missed earlier messages.
func (p *handle) Watch(w core.Watcher) (stop func()) {
	return p.doorbells.Add(p.Ref, func(ctx context.Context) error {
		sh, done := p.shard(p.place)
		defer done()
		_, err := p.endLocks(ctx, sh)
		return err
	}, w)
}

func (sh *shard) lease(now int64) lease {
	l := lease{nonce: core.NewNonce(), until: now + sh.LockDuration.Milliseconds()}
	if sh.BrokerLocks {
		l.nonce = marked(sh.mark)
	}
	return l
}

// leaseUnder returns the lease for a lock call. In a queue with sessions, ok is false if session is
// nil or belongs to another partition.
func (sh *shard) leaseUnder(now int64, session *core.SessionLock) (l lease, proof, key string, ok bool) {
	if !sh.Sessions {
		l = sh.lease(now)
		return l, secret(l.nonce), "", true
	}
	if session == nil || session.Index != sh.Index {
		return l, "", "", false
	}
	return leaseIn(session), proofOf(session), string(session.Key()), true
}
