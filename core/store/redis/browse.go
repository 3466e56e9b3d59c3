package redis

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/record"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

func (p *handle) Cancel(ctx context.Context, numbers []int64) error {
	return p.operate(ctx, "cancel", func(ctx context.Context, sh *shard) error {
		own, void := sh.positions(numbers)
		sc, args := script.Cancel, server.Args(own)
		if void == 1 { // the call is refused, but every operation first does what is due
			sc, args = script.Sweep, []any{0}
		}
		_, err := p.transition(ctx, sh, p.millis(), sc, nil, args...)
		if err == nil && void == 1 {
			err = core.MessageNotFound
		}
		return err
	})
}

func (p *handle) Sweep(ctx context.Context) (next time.Time, err error) {
	err = p.operate(ctx, "sweep", func(ctx context.Context, sh *shard) error {
		reply, err := p.transition(ctx, sh, p.millis(), script.Sweep, nil, 1)
		if err != nil {
			return err
		}
		if len(reply) != 1 {
			return server.ErrReply
		}
		at, _ := reply[0].(int64)
		next = core.Instant(at)
		return nil
	})
	return next, err
}

// Peek reads locks and delivery counts shortly after the messages. Messages of a session, deferred
// messages and scheduled messages have separate lists, which Peek reads in steps, so that other
// clients of Redis need not wait long.
func (p *handle) Peek(ctx context.Context, r core.PeekRequest) (ds []core.Delivery, err error) {
	err = p.operate(ctx, "peek", func(ctx context.Context, sh *shard) error {
		if r.Session != "" && !sh.Sessions {
			return nil
		}
		if err := p.sweep(ctx, sh); err != nil {
			return err
		}
		from := max(r.From, 0)
		wanted := func(now core.State) bool { return r.State == nil || now == *r.State }
		var numbers []int64
		var err error
		switch {
		case r.Session != "":
			numbers, err = p.numbersOf(ctx, sh, r.Session, from, r.Max)
		case r.State != nil && *r.State != core.Active:
			numbers, err = p.numbersIn(ctx, sh, *r.State, from)
		default:
			for len(ds) < r.Max {
				count := sh.page()
				if r.State == nil {
					count = min(count, r.Max-len(ds))
				}
				page, last, err := p.peekPage(ctx, sh, from, count, wanted)
				if err != nil || last == 0 {
					return err
				}
				ds = append(ds, page[:min(len(page), r.Max-len(ds))]...)
				from = last + 1
			}
		}
		for len(numbers) > 0 && len(ds) < r.Max && err == nil {
			n := min(len(numbers), r.Max-len(ds), sh.page())
			var page []core.Delivery
			page, err = p.peekNumbers(ctx, sh, numbers[:n], wanted)
			ds, numbers = append(ds, page...), numbers[n:]
		}
		return err
	})
	return ds, err
}

// last is the number of the last message that peekPage has read, or 0 at the end of the stream.
func (s *Store) peekPage(ctx context.Context, sh *shard, from int64, limit int, wanted func(core.State) bool) (ds []core.Delivery, last int64, err error) {
	raw, err := s.server.List(ctx, "XRANGE", sh.keys.Stream, keyspace.EntryID(from), "+", "COUNT", limit)
	if err != nil || len(raw) == 0 {
		return nil, 0, err
	}
	entries, err := record.ParseEntries(raw)
	if err != nil {
		return nil, 0, err
	}
	ds, err = s.peeked(ctx, sh, entries, wanted)
	return ds, entries[len(entries)-1].N, err
}

func (s *Store) numbersIn(ctx context.Context, sh *shard, state core.State, from int64) ([]int64, error) {
	suffix := map[core.State]string{core.Deferred: "f", core.Scheduled: "q"}[state]
	var numbers []int64
	for cursor := "0"; ; {
		reply, err := s.server.List(ctx, "ZSCAN", sh.keys.Prefix+suffix, cursor, "COUNT", maxRead)
		if err != nil {
			return nil, err
		}
		if len(reply) != 2 {
			return nil, server.ErrReply
		}
		members, _ := reply[1].([]any)
		for i := 0; i < len(members); i += 2 { // a member, then its score
			member, _ := members[i].(string)
			if n, err := strconv.ParseInt(member, 10, 64); err == nil && n >= from { // other members are messages reserved for transactions
				numbers = append(numbers, n)
			}
		}
		if cursor, _ = reply[0].(string); cursor == "0" || cursor == "" {
			slices.Sort(numbers)
			return slices.Compact(numbers), nil
		}
	}
}

func (s *Store) peekNumbers(ctx context.Context, sh *shard, numbers []int64, wanted func(core.State) bool) ([]core.Delivery, error) {
	claims := make([]claim, len(numbers))
	for i, n := range numbers {
		claims[i].n = n
	}
	entries, err := s.read(ctx, sh, claims)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	return s.peeked(ctx, sh, entries, wanted)
}

func (s *Store) peeked(ctx context.Context, sh *shard, entries []record.Entry, wanted func(core.State) bool) ([]core.Delivery, error) {
	states, err := s.messageStates(ctx, sh.keys.Prefix, entries)
	if err == nil {
		err = s.deadlines(ctx, sh, entries, states)
	}
	if err != nil {
		return nil, err
	}
	ds := make([]core.Delivery, 0, len(entries))
	var missing []missingBody
	for i := range entries {
		if states[i].reserved || !wanted(states[i].state) {
			continue
		}
		d, bodiless, err := sh.delivery(&entries[i], states[i].SideData, states[i].state)
		if err != nil {
			return nil, err
		}
		d.SetDue(states[i].due)
		d.LockedUntil = states[i].until
		if bodiless {
			missing = append(missing, missingBody{len(ds), entries[i].Origin})
		}
		ds = append(ds, d)
	}
	return s.attachBodies(ctx, sh, ds, missing)
}

type messageState struct {
	record.SideData
	state     core.State
	due       time.Time // zero: not scheduled
	until     time.Time // end of the lock; zero: not locked
	reserved  bool      // for a transaction
	inSession bool
}

// prefix is the key prefix of the entries' queue or, in an export, of the queue's copy.
func (s *Store) messageStates(ctx context.Context, prefix string, entries []record.Entry) ([]messageState, error) {
	var plain, pad, reserved []any
	for i := range entries {
		n := keyspace.Padded(entries[i].N)
		plain, pad, reserved = append(plain, entries[i].N), append(pad, n), append(reserved, n+"r")
	}
	ask := func(command, suffix string, items []any) *redis.Cmd {
		return redis.NewCmd(ctx, append([]any{command, prefix + suffix}, items...)...)
	}
	columns, err := s.server.Lists(ctx, ask("HMGET", "d", plain), ask("HMGET", "p", plain), ask("ZMSCORE", "f", plain),
		ask("ZMSCORE", "q", pad), ask("ZMSCORE", "q", reserved), ask("HMGET", keyspace.SessionOfSuffix, plain))
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(columns, func(c []any) bool { return len(c) != len(entries) }) {
		return nil, server.ErrReply
	}
	states := make([]messageState, len(entries))
	for i := range states {
		var err error
		if states[i].SideData, err = record.ParseSideData(columns[0][i], columns[1][i]); err != nil {
			return nil, err
		}
		switch {
		case columns[2][i] != nil:
			states[i].state = core.Deferred
		case columns[3][i] != nil:
			due, _ := server.ScoreMillis(columns[3][i])
			states[i].state, states[i].due = core.Scheduled, core.Instant(due)
		}
		states[i].reserved, states[i].inSession = columns[4][i] != nil, columns[5][i] != nil
	}
	return states, nil
}

const maxLocksSearched = 20_000

func (s *Store) deadlines(ctx context.Context, sh *shard, entries []record.Entry, out []messageState) error {
	args := make([]any, 0, 1+len(entries))
	args = append(args, maxLocksSearched)
	for i := range entries {
		args = append(args, entries[i].N)
	}
	reply, err := s.server.Eval(ctx, script.LockDeadlines, []any{sh.keys.Prefix + keyspace.LocksSuffix, sh.keys.Sessions[0], sh.keys.Sessions[3], sh.keys.Prefix + keyspace.BlocksSuffix}, args...)
	if err != nil {
		return err
	}
	if len(reply) != len(out) {
		return server.ErrReply
	}
	for i := range out {
		if text, _ := reply[i].(string); text != "" {
			until, ok := server.ScoreMillis(text)
			if !ok {
				return server.ErrReply
			}
			out[i].until = core.Instant(until)
		}
	}
	return nil
}

// numbersOf returns numbers of the session's messages, in order and not below from: those of all
// scheduled messages, and of up to limit available, locked and deferred messages each.
func (s *Store) numbersOf(ctx context.Context, sh *shard, key core.SessionKey, from int64, limit int) ([]int64, error) {
	due, err := s.numbersIn(ctx, sh, core.Scheduled, from)
	if err != nil {
		return nil, err
	}
	var numbers []int64
	for chunk := range slices.Chunk(due, 1000) {
		names, err := s.server.List(ctx, append([]any{"HMGET", sh.keys.Sessions[0]}, server.Args(chunk)...)...)
		if err != nil || len(names) != len(chunk) {
			return nil, cmp.Or(err, server.ErrReply)
		}
		for i, name := range names {
			if text, ok := name.(string); ok && core.KeyOfSession(sessionID(text)) == key {
				numbers = append(numbers, chunk[i])
			}
		}
	}
	for _, list := range []int{1, 5, 6, 8} { // available, held, idleDeferred, paused
		members, err := s.server.List(ctx, "ZRANGEBYLEX", sh.keys.Sessions[list], "["+string(key)+"\x00"+keyspace.Padded(from), "("+string(key)+"\x01", "LIMIT", 0, limit)
		if err != nil {
			return nil, err
		}
		for _, raw := range members {
			member, _ := raw.(string)
			n, err := strconv.ParseInt(member[strings.LastIndexByte(member, 0)+1:], 10, 64)
			if err != nil {
				return nil, server.ErrReply
			}
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil
}
