package redis

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/batching"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/record"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

// If the answer is lost, Commit returns Busy, although the script may have run.
func (p *handle) Commit(ctx context.Context, w core.Work) (numbers []int64, err error) {
	err = p.operate(ctx, "commit", func(ctx context.Context, sh *shard) error {
		numbers, err = p.commit(ctx, sh, &w)
		return err
	})
	return numbers, err
}

func (s *Store) commit(ctx context.Context, sh *shard, w *core.Work) (numbers []int64, err error) {
	now := s.Now()
	e := encoder{sh: sh, now: now, reserve: !w.Reserve.IsZero()}
	spare := notedOnly(w)
	publications, err := e.group(w.Publications, spare)
	if err != nil {
		return nil, err
	}
	messages, size, err := sh.prepare(w.Messages, spare, now)
	if err != nil {
		return nil, err
	}
	if !w.Reserve.IsZero() {
		reserve(messages, publications, w.Reserve)
	}
	outgoing, outgoingSize, err := encodeOutgoing(w, now)
	if err != nil {
		return nil, err
	}
	arriving := arriving(w, messages, publications)
	var full error
	refused := nothing
	if !w.Check && (w.Grows() || len(arriving) > 0 || w.Keeps()) {
		size += e.size + outgoingSize + core.SetBytes(w.Settlements)
		for i := range w.States {
			size += len(w.States[i].State)
		}
		var ended func(error)
		if full, ended, err = s.takeRoom(ctx, sh, size); err != nil {
			return nil, err
		}
		defer func() { ended(err) }()
	}
	if full != nil {
		refused = allWork
		if !w.Grows() {
			known, unknown := s.knowsAll(ctx, sh, arriving)
			if unknown != nil {
				return nil, unknown
			}
			if known {
				refused = larger
			}
		}
	}

	b := newPublishArgs(s.server.Names, sh)
	if len(publications) > 0 {
		b.group(w.Version, publications)
	}
	args := append(sh.workArgs(w, refused, messages, b), outgoing...)
	transfer := sh.Ref
	transfer.Sub = core.Transfer
	keys := append(b.allKeys(), s.server.Names.Stream(transfer), s.server.Names.Head(transfer), s.server.Names.Doorbell(transfer),
		sh.stateKey(0), sh.stateKey(1), sh.stateKey(2))
	if len(w.Settlements)+len(messages) > batching.MaxBatch {
		done, err := s.server.Turns.Take(ctx)
		if err != nil {
			return nil, conn.Certain(err)
		}
		defer done()
	}
	reply, err := s.transition(ctx, sh, now.UnixMilli(), script.Commit, keys, args...)
	switch code := core.CodeOf(err); {
	case code == core.LockLost && len(w.Publications) == 0:
		return nil, sh.lost(&w.Settlements[0])
	case code == core.QuotaExceeded:
		return nil, full
	case err != nil:
		return nil, conn.Certain(err)
	case w.Check:
		return nil, nil
	}
	return sh.sequenceNumbers(reply, len(messages)+len(publications))
}

// What a full partition refuses: ARGV[5] of lua/commit.lua.
const (
	nothing = iota
	allWork
	larger // states, and properties that settlements set
)

func (sh *shard) workArgs(w *core.Work, refused int, messages []stored, b *publishArgs) []any {
	settles := sh.settleArgs(len(w.Settlements), func(i int) *core.Settlement { return &w.Settlements[i] })
	own, void := sh.positions(w.Cancels)
	var appends, publishes []any
	if len(messages) > 0 {
		appends = sh.appendArgs(messages)
	}
	if len(b.groups) > 0 {
		publishes = b.allArgs()
	}
	var states, reserved []any
	for i := range w.States {
		l := &w.States[i].Lock
		states = append(states, sh.proofHere(l), sessionName(l.ID), server.Flag(w.States[i].State != nil), w.States[i].State)
	}
	waiting, lost := sh.positions(core.NumbersOf(w.Scheduled))
	void |= lost
	for i, n := range waiting {
		if i == 0 {
			reserved = append(reserved, sh.DuplicateWindow.Milliseconds())
		}
		m := w.Scheduled[i].Message
		reserved = append(reserved, n, m.ScheduledEnqueueTime.UnixMilli(), sh.DuplicateKey(m))
	}
	args := []any{
		refused, void, server.Flag(w.Check), len(settles), len(own), len(appends), len(publishes), len(states), len(reserved),
	}
	return slices.Concat(args, settles, server.Args(own), appends, publishes, states, reserved)
}

// reserve marks the messages as reserved until that time. It drops their ids and keys, because
// duplicate detection checks these when the transaction commits.
func reserve(messages []stored, publications []publication, until time.Time) {
	at := strconv.FormatInt(until.UnixMilli(), 10) + "r"
	for i := range messages {
		messages[i].due, messages[i].id, messages[i].key = at, "", ""
	}
	for i := range publications {
		p := &publications[i]
		p.due, p.id, p.key = at, "", ""
	}
}

func encodeOutgoing(w *core.Work, now time.Time) (args []any, size int, err error) {
	add := func(of int, where string, ms []*core.Message) error {
		for _, m := range ms {
			encoded, err := record.Encode(m, now.UnixMilli())
			if err != nil {
				return err
			}
			args = append(args, of, where, encoded)
			size += len(encoded)
		}
		return nil
	}
	err = add(0, "t", w.Transfers)
	for i := range w.Effects {
		x := &w.Effects[i]
		err = cmp.Or(err, add(x.Of+1, "d", x.DeadLetters), add(x.Of+1, "t", x.Transfers))
	}
	return args, size, err
}

// notedOnly returns the messages that an effect replaces: only their ids and keys are stored.
func notedOnly(w *core.Work) map[*core.Message]bool {
	var spare map[*core.Message]bool
	for i := range w.Effects {
		x := &w.Effects[i]
		switch {
		case !x.Instead:
			continue
		case spare == nil:
			spare = make(map[*core.Message]bool, len(w.Effects)-i)
		}
		if len(w.Publications) > 0 {
			spare[w.Publications[x.Of].Message] = true
		} else {
			spare[w.Messages[x.Of]] = true
		}
	}
	return spare
}

// arriving returns the messages that w stores, except those that come from the topic's own queue.
func arriving(w *core.Work, messages []stored, publications []publication) []stored {
	replaced := map[int]bool{}
	for i := range w.Effects {
		if x := &w.Effects[i]; x.Stores() {
			replaced[x.Of] = true
		}
	}
	var all []stored
	for i := range messages {
		if messages[i].record != nil || replaced[i] {
			all = append(all, messages[i])
		}
	}
	for i := range publications {
		if p := &publications[i]; p.source == "" && (!p.noted || replaced[i]) {
			all = append(all, p.stored)
		}
	}
	return all
}
