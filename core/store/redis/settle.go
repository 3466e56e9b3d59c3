package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/batching"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/record"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

func (p *handle) Settle(ctx context.Context, settlements []core.Settlement) []error {
	if len(settlements) > 0 && settlements[0].Outcome == core.Activate {
		return p.activate(ctx, settlements)
	}
	if err := p.server.Enter(ctx); err != nil {
		return slices.Repeat([]error{fmt.Errorf("cannot settle messages: %w", err)}, len(settlements))
	}
	defer p.server.Calls.Done()
	sh, done := p.shard(p.place)
	defer done()
	errs := make([]error, 0, len(settlements))
	for part := range slices.Chunk(settlements, batching.MaxBatch) {
		w := &settling{settlements: part}
		size := 0
		patient := true
		for i := range part {
			size += len(part[i].Properties.Encoded())
			patient = patient && part[i].Unanswered
		}
		if err := sh.settles.Submit(ctx, w, len(part), size, patient); err != nil {
			errs = append(errs, slices.Repeat([]error{fmt.Errorf("cannot settle messages in the keys '%s*': %w", sh.keys.Prefix, err)}, len(part))...)
			continue // the flush may still write w
		}
		errs = append(errs, w.errs...)
	}
	return errs
}

func (p *handle) activate(ctx context.Context, settlements []core.Settlement) []error {
	errs := make([]error, len(settlements))
	var all []settlingItem
	for i := range settlements {
		if st := &settlements[i]; st.Token.Partition() == p.Index && st.Token.Nonce() == 0 {
			all = append(all, settlingItem{st, &errs[i]})
		} else {
			errs[i] = core.MessageNotFound
		}
	}
	err := p.operate(context.WithoutCancel(ctx), "activate", func(ctx context.Context, sh *shard) error {
		for len(all) > 0 {
			args := make([]any, 0, 2*len(all))
			for _, x := range all {
				args = append(args, x.Token.Number(), core.Millis(x.At))
			}
			all = p.settleSome(ctx, sh, script.Activate, args, all)
		}
		return nil
	})
	for _, x := range all {
		*x.err = err
	}
	return errs
}

func (s *Store) flushSettles(sh *shard, calls []*batching.Call[*settling]) {
	ctx, cancel := s.server.Bounded(context.Background())
	defer cancel()
	var all []settlingItem
	size := 0
	for _, t := range calls {
		t.Work.errs = make([]error, len(t.Work.settlements))
		size += core.SetBytes(t.Work.settlements)
		for i := range t.Work.settlements {
			st := &t.Work.settlements[i]
			if sh.within(st) == nil && st.Token.Partition() != sh.Index {
				t.Work.errs[i] = sh.lost(st)
				continue
			}
			all = append(all, settlingItem{st, &t.Work.errs[i]})
		}
	}
	full, ended, err := s.takeRoom(ctx, sh, size)
	if err != nil {
		all = slices.DeleteFunc(all, func(x settlingItem) bool {
			if x.Sets() {
				*x.err = err
			}
			return x.Sets()
		})
	} else {
		defer func() { ended(nil) }()
	}
	sh.sortByBlock(all)
	for rest := all; len(rest) > 0; {
		args := sh.blockArgs(rest)
		if args == nil {
			args = sh.settleArgs(len(rest), func(i int) *core.Settlement { return rest[i].Settlement })
			if full != nil {
				args = slices.Concat([]any{"full", "", 0}, args)
			}
		}
		rest = s.settleSome(ctx, sh, script.Settle, args, rest)
	}
	for _, x := range all {
		if full != nil && core.CodeOf(*x.err) == core.QuotaExceeded {
			*x.err = full
		}
	}
}

// sortByBlock sorts completions by the blocks of their locks. It does not sort calls with other
// outcomes, because dead letters are numbered in the order of the call, nor queues with features,
// because histories show the order of the call.
func (sh *shard) sortByBlock(all []settlingItem) {
	if sh.features != 0 || slices.ContainsFunc(all, func(x settlingItem) bool { return x.Outcome != core.Complete }) {
		return
	}
	slices.SortStableFunc(all, func(a, b settlingItem) int {
		x, y := a.Token, b.Token
		return cmp.Or(cmp.Compare(x.Number()/blockSize, y.Number()/blockSize), cmp.Compare(x.Nonce(), y.Nonce()), cmp.Compare(x.Number(), y.Number()))
	})
}

func (sh *shard) within(st *core.Settlement) *core.SessionLock {
	if !sh.Sessions {
		return nil
	}
	return st.Session
}

// settleArgs returns runs of locks with the same outcome, each after its length, for settle.lua.
func (sh *shard) settleArgs(n int, settlement func(int) *core.Settlement) []any {
	args := make([]any, 0, 8+n)
	var under *core.SessionLock
	count := -1 // index in args of the length of the current run; -1: begin a new run
	var last *core.Settlement
	for i := range n {
		st := settlement(i)
		m := noLock
		l := sh.within(st)
		if st.Token.Partition() == sh.Index && (l == nil || l.Nonce == st.Token.Nonce()) {
			m = keyspace.Member(st.Token.Number(), secret(st.Token.Nonce()))
		}
		switch {
		case l != nil && (under == nil || *l != *under):
			args, count = append(args, "within", sh.proofHere(l), 1, string(l.Key())), -1
		case l == nil && under != nil:
			args, count = append(args, "without", "", 0), -1
		}
		under = l
		if count < 0 || !sh.follows(last, st) || args[count] == batching.MaxBatch {
			args = append(args, outcomeWord(st), overrideFor(st), 0)
			count = len(args) - 1
		}
		args[count] = args[count].(int) + 1
		args, last = append(args, m), st
	}
	return args
}

const blockSize = 128 // positions in a block

// blockArgs returns settle_plain.lua's arguments, or nil if it does not support the settlements.
func (sh *shard) blockArgs(all []settlingItem) []any {
	if sh.features != 0 {
		return nil
	}
	args := append(make([]any, 0, 8+len(all)), "blocks")
	var last core.LockToken
	var bits, ids []byte
	count := 0
	for _, x := range all {
		token := x.Token
		if x.Outcome != core.Complete || token == last {
			return nil
		}
		n := token.Number()
		start := n - n%blockSize
		if bits == nil || token.Nonce() != last.Nonce() || start != last.Number()-last.Number()%blockSize {
			bits = make([]byte, blockSize/8)
			args = append(args, keyspace.Member(start, secret(token.Nonce()))+"*", bits, 0)
			count = len(args) - 1
		}
		bits[n%blockSize/8] |= 1 << (n % 8)
		args[count] = args[count].(int) + 1
		from := len(ids)
		ids = strconv.AppendInt(append(ids, "0-"...), n, 10)
		args, last = append(args, ids[from:len(ids):len(ids)]), token
	}
	return args
}

func (sh *shard) follows(last, st *core.Settlement) bool {
	return st.Outcome == last.Outcome &&
		(st.Outcome == core.Complete || st.Properties.IsEmpty() && last.Properties.IsEmpty() && st.Backoff == last.Backoff)
}

// proofHere returns l's proof for scripts, or "" if l belongs to another partition.
func (sh *shard) proofHere(l *core.SessionLock) string {
	if l.Index != sh.Index {
		return ""
	}
	return proofOf(l)
}

// settleSome settles all. rest has the items that the script left because it had run for too long.
func (s *Store) settleSome(ctx context.Context, sh *shard, sc *script.Script, args []any, all []settlingItem) (rest []settlingItem) {
	reply, err := s.transition(ctx, sh, s.millis(), sc, nil, args...)
	if err != nil {
		err = s.server.WrapError("settle messages in "+sh.keys.Prefix, err)
		for _, x := range all {
			*x.err = err
		}
		return nil
	}
	for i := 0; i+1 < len(reply); i += 2 {
		item, _ := reply[i].(int64)
		word, _ := reply[i+1].(string)
		if item < 1 || item > int64(len(all)) {
			continue
		}
		x := all[item-1]
		switch word {
		case "again":
			rest = append(rest, x)
		case string(core.LockLost):
			*x.err = sh.lost(x.Settlement)
		default:
			*x.err = core.Code(word)
		}
	}
	return rest
}

// st is the refused settlement, or nil.
func (sh *shard) lost(st *core.Settlement) error {
	if sh.Sessions && (st == nil || st.Session == nil) {
		return core.SessionLockLost
	}
	return core.LockLost
}

func outcomeWord(st *core.Settlement) string {
	b := st.Backoff.Bound()
	switch {
	case st.Outcome > core.Release:
		return "unknown"
	case st.Outcome != core.Abandon && st.Outcome != core.Release || b.IsZero():
		return st.Outcome.String()
	}
	return fmt.Sprintf("delay %v %d %g %d", st.Outcome, b.First.Milliseconds(), b.Factor, b.Max.Milliseconds())
}

func overrideFor(st *core.Settlement) any {
	if !st.Sets() {
		return ""
	}
	return record.OverrideOf(st.Properties)
}

func (p *handle) Renew(ctx context.Context, tokens []core.LockToken) []core.Renewal {
	if err := p.server.Enter(ctx); err != nil {
		return slices.Repeat([]core.Renewal{{Err: fmt.Errorf("cannot renew locks: %w", err)}}, len(tokens))
	}
	defer p.server.Calls.Done()
	sh, done := p.shard(p.place)
	defer done()
	renewals := make([]core.Renewal, 0, len(tokens))
	for part := range slices.Chunk(tokens, batching.MaxBatch) {
		w := &renewing{tokens: part}
		if err := sh.renews.Submit(ctx, w, len(part), 0, false); err != nil {
			renewals = append(renewals, slices.Repeat([]core.Renewal{{Err: fmt.Errorf("cannot renew locks in the keys '%s*': %w", sh.keys.Prefix, err)}}, len(part))...)
			continue // the flush may still write w
		}
		renewals = append(renewals, w.renewals...)
	}
	return renewals
}

// flushRenews extends locks. In a queue with sessions it extends none, and returns the ends of the
// sessions' locks.
func (s *Store) flushRenews(sh *shard, calls []*batching.Call[*renewing]) {
	ctx, cancel := s.server.Bounded(context.Background())
	defer cancel()
	now := s.millis()
	until := now + sh.LockDuration.Milliseconds()
	sc, args := script.Renew, []any{until}
	if sh.Sessions {
		sc, args = script.SessionCheck, nil
	}
	var all []*core.Renewal
	for _, t := range calls {
		t.Work.renewals = make([]core.Renewal, len(t.Work.tokens))
		for i, token := range t.Work.tokens {
			t.Work.renewals[i].Err = sh.lost(nil)
			if token.Partition() != sh.Index {
				continue
			}
			args = append(args, keyspace.Member(token.Number(), secret(token.Nonce())))
			if sh.Sessions {
				args = append(args, token.Number())
			}
			all = append(all, &t.Work.renewals[i])
		}
	}
	if len(all) == 0 {
		return
	}
	reply, err := s.transition(ctx, sh, now, sc, nil, args...)
	if err == nil && sh.Sessions && len(reply) != len(all) {
		err = server.ErrReply
	}
	err = s.server.WrapError("renew locks in "+sh.keys.Prefix, err)
	for i, r := range all {
		switch {
		case err != nil:
			r.Err = err
		case !sh.Sessions:
			*r = core.Renewal{Until: core.Instant(until)}
		default:
			if end, ok := server.ScoreMillis(reply[i]); ok {
				*r = core.Renewal{Until: core.Instant(end)}
			}
		}
	}
	for i := 0; i < len(reply) && !sh.Sessions; i++ { // the indexes of lost locks
		if at, _ := reply[i].(int64); at >= 1 && at <= int64(len(all)) {
			*all[at-1] = core.Renewal{Err: core.LockLost}
		}
	}
}

// noLock stands for the lock of a source in another partition. No lock in Redis has this value.
const noLock = "elsewhere"
