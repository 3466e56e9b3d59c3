package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/batching"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/record"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

func (p *handle) Append(ctx context.Context, groups [][]*core.Message) []core.Appended {
	to := func(sh *shard) *batching.Batcher[*outgoing[stored]] { return &sh.appends }
	return send(ctx, p, "append", to, 0, len(groups), func(sh *shard, now time.Time, i int) (outgoingGroup[stored], error) {
		messages, size, err := sh.prepare(groups[i], nil, now)
		return outgoingGroup[stored]{messages: messages, items: len(messages), bytes: size, grows: true, arriving: messages}, err
	})
}

// send encodes n groups and submits them in batches. If the answer to a group is lost, or version
// is too old, send fails the later groups without sending them, because they could be stored before
// this group.
func send[T any](
	ctx context.Context, p *handle, verb string, to func(*shard) *batching.Batcher[*outgoing[T]], version int64,
	n int, encode func(sh *shard, now time.Time, i int) (outgoingGroup[T], error),
) []core.Appended {
	answers := make([]core.Appended, n)
	if err := p.server.Enter(ctx); err != nil {
		return failAll(answers, core.CertainlyNotDone(fmt.Errorf("%s: %w", verb, err)))
	}
	defer p.server.Calls.Done()
	sh, done := p.shard(p.place)
	defer done()
	now := p.Now()
	budget := p.sizeBudget(ctx, sh)
	var batch *outgoing[T]
	flush := func() {
		if batch == nil {
			return
		}
		w := batch
		batch = nil
		err := to(sh).Submit(ctx, w, w.items, w.bytes, false)
		if err == nil {
			err = w.err
		}
		for k, g := range w.groups {
			answer := &answers[g.at]
			if answer.Err = err; err == nil {
				*answer = w.answers[k]
			}
			if answer.Err != nil {
				answer.Err = fmt.Errorf("cannot %s messages to the keys '%s*': %w", verb, sh.keys.Prefix, answer.Err)
			}
		}
	}
	for i := range answers {
		g, err := encode(sh, now, i)
		taken := false
		if err == nil && g.grows {
			err = budget.take(g.bytes)
			taken = err == nil
		}
		if core.CodeOf(err) == core.QuotaExceeded {
			known, unknown := p.knowsAll(ctx, sh, g.arriving)
			if err = cmp.Or(unknown, err); known {
				err = nil
			}
		}
		if err != nil {
			answers[i].Err = err
			continue
		}
		if batch != nil && (batch.items+g.items > batching.MaxBatch || batch.bytes+g.bytes > batching.MaxBatchBytes) {
			flush()
			err := answers[i-1].Err
			if code := core.CodeOf(err); code.Retriable() || code == core.NotFound || code == core.Conflict {
				if taken {
					budget.give(g.bytes)
				}
				failAll(answers[i:], core.CertainlyNotDone(err))
				return answers
			}
		}
		if batch == nil {
			batch = &outgoing[T]{version: version}
		}
		g.at = i
		batch.groups = append(batch.groups, g)
		batch.items += g.items
		batch.bytes += g.bytes
	}
	flush()
	return answers
}

func failAll(answers []core.Appended, err error) []core.Appended {
	for i := range answers {
		answers[i].Err = err
	}
	return answers
}

func (sh *shard) prepare(group []*core.Message, spare map[*core.Message]bool, now time.Time) (messages []stored, size int, err error) {
	messages = make([]stored, len(group))
	for i, m := range group {
		if spare[m] {
			messages[i] = sh.noted(m)
			continue
		}
		messages[i] = sh.timed(m, now)
		var err error
		if messages[i].record, err = record.Encode(m, now.UnixMilli()); err != nil {
			return nil, 0, err
		}
		if sh.Sessions {
			messages[i].sid = sessionOf(m)
		}
		size += messages[i].size()
	}
	return messages, size, nil
}

func (sh *shard) timed(m *core.Message, now time.Time) stored {
	st := sh.noted(m)
	if due := m.ScheduledEnqueueTime; !due.IsZero() && due.UnixMilli() > now.UnixMilli() {
		st.due = due.UnixMilli()
	}
	if m.TimeToLive > 0 && (sh.Sub == core.Main || st.due != "") {
		st.ttl = m.TimeToLive.Milliseconds()
	}
	return st
}

func (sh *shard) noted(m *core.Message) stored {
	return stored{id: sh.DuplicateKey(m), key: keyOf(m), due: "", ttl: ""}
}

func keyOf(m *core.Message) string {
	if m.Transit == nil {
		return ""
	}
	return m.Transit.Key
}

func (s *Store) flushAppends(sh *shard, calls []*batching.Call[*outgoing[stored]]) {
	ctx, cancel := s.server.Bounded(context.Background())
	defer cancel()
	var messages []stored
	plain, size := !sh.hasHistory(), 0 // only scripts write histories
	for _, t := range calls {
		for _, g := range t.Work.groups {
			messages = append(messages, g.messages...)
		}
		size += t.Work.bytes
	}
	for i := range messages {
		plain = plain && messages[i].isPlain()
	}
	var numbers []int64
	var err error
	if len(messages) > 0 { // all groups may be empty
		r := s.receipt(sh)
		defer r.end()
		hand := s.reserve(sh, s.millis(), 0)
		if hand != nil { // this flush has reserved all credit of the receivers, so another one must wait
			sh.appends.SetAlone(true)
			defer sh.appends.SetAlone(false)
		}
		few := len(messages) <= maxScripted && size <= maxScriptedBytes
		if plain && (hand == nil || !few) && time.Now().Unix()-s.denied.Load() > deniedFor {
			var again bool
			numbers, err = s.appendPlain(ctx, sh, r, messages, hand)
			if again, err = r.again(ctx, err); again {
				numbers, err = s.appendScripted(ctx, sh, r, messages, nil)
			}
		} else {
			numbers, err = s.appendScripted(ctx, sh, r, messages, hand)
		}
	}
	if redis.HasErrorPrefix(err, "NOPERM") {
		s.denied.Store(time.Now().Unix())
	}
	sh.quota.stored(size)
	for i, n := range numbers {
		if n != 0 {
			numbers[i] = sh.sequenceNumber(n)
		}
	}
	err = s.server.WrapError("store messages", conn.Certain(err))
	for _, t := range calls {
		t.Work.err = err
		for i := 0; i < len(t.Work.groups) && err == nil; i++ {
			n := len(t.Work.groups[i].messages)
			t.Work.answers = append(t.Work.answers, core.Appended{Numbers: numbers[:n:n]})
			numbers = numbers[n:]
		}
	}
}

// Up to these numbers, one script that stores the messages is cheaper for Redis than native
// commands and a separate script for the sweep.
const (
	maxScripted      = 8
	maxScriptedBytes = 16 << 10
)

// deniedFor is for how many seconds only scripts store messages after Redis has denied the gateway's
// user a permission. If Redis denied MULTI, and the user got the permission back before Redis has read
// the last command, Redis would run the rest without a transaction, and count the messages wrongly.
const deniedFor = 10

// appendPlain stores messages with native commands, so that bodies do not pass through Lua. It
// sweeps first, because messages that are due must become available before the new ones.
func (s *Store) appendPlain(ctx context.Context, sh *shard, r *receipt, messages []stored, hand *handOver) ([]int64, error) {
	now := s.millis()
	if sh.Sub.IsDeadLetter() {
		if _, err := s.runUntilSwept(ctx, s.queueOf(sh), now, nil, script.Sweep, nil, 0); err != nil {
			hand.fail(nil)
			return nil, err
		}
	}
	numbers, locked, err := s.addEntries(ctx, sh, now, r, messages, hand)
	switch {
	case hand == nil:
	case err != nil && locked == nil:
		hand.fail(err)
	default: // an error of the replicas alone does not prevent the delivery: the receiver's settlement also waits for the replicas
		reply, err := locked.Slice()
		hand.finish(ctx, reply, err, numbers, messages)
	}
	return numbers, err
}

// addEntries stores the messages. If hand is nil, it wakes other gateways that wait for messages;
// otherwise, it locks messages for hand's receiver.
func (s *Store) addEntries(ctx context.Context, sh *shard, now int64, r *receipt, messages []stored, hand *handOver) (numbers []int64, locked *redis.Cmd, err error) {
	sweepKeys, sweepArgs := append(slices.Clip(sh.state), r.key), append(sh.stateArgs(now), 0, r.id, len(messages))
	opened := s.recents.opened.Load()
	swept := redis.NewCmd(ctx, script.Sweep.With(sh.features).Command(sweepKeys, sweepArgs...)...)
	counted := redis.NewCmd(ctx, "HINCRBY", sh.keys.Head, "s", len(messages))
	cmds := make([]*redis.Cmd, 1, 3+len(messages))
	cmds[0] = swept
	stream, arguments, xadds := any(sh.keys.Stream), make([]any, 0, 6*len(messages)), make([]redis.Cmd, len(messages))
	for i := range messages {
		arguments = append(arguments, "XADD", stream, "NOMKSTREAM", "0-*", "d", messages[i].record)
		xadds[i] = *redis.NewCmd(ctx, arguments[6*i:]...)
		cmds = append(cmds, &xadds[i])
	}
	added := cmds[1:]
	var armed *redis.Cmd
	if hand != nil {
		locked = hand.command(ctx, now)
		cmds = append(cmds, counted, locked)
	} else {
		armed = redis.NewCmd(ctx, "HEXISTS", sh.keys.Head, "w")
		cmds = append(cmds, counted, armed)
	}
	few, _ := errors.AsType[*conn.NotReplicated](s.server.Exchange(ctx, conn.InTransaction|conn.Replicated, cmds...))
	if counted.Err() != nil {
		return nil, nil, conn.Aborted(cmds, counted.Err())
	}
	if swept.Err() != nil {
		s.server.Log.Debug("cannot sweep a partition before sending to it", "entity", sh.Entity, "partition", sh.Index, "err", swept.Err())
	}
	if conn.IsNil(added[0].Err()) { // the entity was deleted
		_, _ = s.server.Do(ctx, "UNLINK", sh.keys.Head) // HINCRBY has created this key again; no other entity uses it, because IDs are unique
		return nil, nil, core.NotFound
	}
	if numbers, err = numbersOf(added[:len(messages)]); err != nil {
		return nil, nil, err
	}
	if len(s.doorbells.WatchersOf(sh.keys.Doorbell)) > 0 {
		s.recents.add(sh, opened, numbers, messages)
	}
	if armed != nil && (armed.Err() != nil || armed.Val() != int64(0)) {
		s.ringDoorbell(ctx, sh)
	}
	if few != nil {
		return numbers, locked, few
	}
	return numbers, locked, nil
}

// numbersOf reads the numbers of messages from the replies to their XADDs. Only the reply to its
// own XADD proves that a message is stored.
func numbersOf(added []*redis.Cmd) ([]int64, error) {
	numbers := make([]int64, len(added))
	for i, c := range added {
		id, err := c.Text()
		if c.Err() != nil {
			return nil, c.Err()
		}
		if err == nil {
			numbers[i], err = record.ParseEntryID(id)
		}
		if err != nil || numbers[i] <= 0 {
			return nil, fmt.Errorf("XADD answered %v instead of an entry id: %w", c.Val(), conn.ErrUnanswered)
		}
	}
	return numbers, nil
}

// scriptNumbers reads sequence numbers from a script's reply. A number is 0 if the script did not
// store the message, because its id or key was known.
func scriptNumbers(reply []any, messages int) ([]int64, error) {
	if len(reply) != messages {
		return nil, fmt.Errorf("the script returned %d sequence numbers for %d messages: %w", len(reply), messages, conn.ErrUnanswered)
	}
	numbers := make([]int64, len(reply))
	for i, raw := range reply {
		n, ok := raw.(int64)
		if !ok || n < 0 {
			return nil, fmt.Errorf("the script returned %v instead of a sequence number: %w", raw, conn.ErrUnanswered)
		}
		numbers[i] = n
	}
	return numbers, nil
}

// If ringDoorbell fails, other gateways find the messages when they poll.
func (s *Store) ringDoorbell(ctx context.Context, sh *shard) {
	if _, err := s.server.Eval(ctx, script.Doorbell, []any{sh.keys.Head, sh.keys.Doorbell}); err != nil {
		s.server.Log.Debug("cannot publish a wake-up to other gateways", "entity", sh.Entity, "partition", sh.Index, "err", err)
	}
}

func (sh *shard) appendArgs(messages []stored) []any {
	args := make([]any, 0, 2+6*len(messages))
	args = append(args, sh.DuplicateWindow.Milliseconds(), core.KeyLife.Milliseconds())
	for i := range messages {
		m := &messages[i]
		args = append(args, m.id, m.key, m.due, m.ttl, m.sid, m.record)
	}
	return args
}

func (s *Store) appendScripted(ctx context.Context, sh *shard, r *receipt, messages []stored, hand *handOver) (numbers []int64, err error) {
	now, sc, args := s.millis(), script.Append, sh.appendArgs(messages)
	if hand != nil {
		sc, args = script.AppendLock, append(hand.args, args...)
	}
	reply, err := s.transitionUnder(ctx, sh, now, r, sc, []any{sh.keys.Seen, sh.keys.Moved}, args...)
	// An error with a reply: the messages are stored, but too few replicas have confirmed them.
	// Messages that were locked for a receiver must still be handed over below.
	if err != nil && (reply == nil || hand == nil) {
		hand.fail(err)
		return nil, err
	}
	switch {
	case len(reply) == 2 && reply[0] == "after": // appendPlain has stored them before, but its answer was lost, and with it whether others wait
		s.ringDoorbell(ctx, sh)
		last, _ := reply[1].(int64)
		for range messages {
			last++
			numbers = append(numbers, last)
		}
		return numbers, nil
	case hand == nil:
		return scriptNumbers(reply, len(messages))
	}
	unsure := err
	if len(reply) != 2 {
		reply = make([]any, 2)
	}
	appended, _ := reply[0].([]any)
	locked, _ := reply[1].([]any)
	numbers, err = scriptNumbers(appended[min(1, len(appended)):], len(messages))
	if err != nil {
		hand.fail(err)
		return nil, err
	}
	hand.finish(ctx, locked, nil, numbers, messages)
	return numbers, unsure
}

func (p *handle) Forget(ctx context.Context, keys []string) error {
	return p.operate(ctx, "forget moves", func(ctx context.Context, sh *shard) error {
		if err := p.sweep(ctx, sh); err != nil {
			return err
		}
		until := p.millis() - (core.KeyLife - p.lingers).Milliseconds()
		for part := range slices.Chunk(keys, maxLock) {
			args := []any{"ZADD", sh.keys.Moved, "XX"}
			for _, key := range part {
				args = append(args, until, key)
			}
			if _, err := p.server.Do(ctx, args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// knowsAll reports whether all keys are known, because earlier attempts have stored the group.
func (s *Store) knowsAll(ctx context.Context, sh *shard, group []stored) (bool, error) {
	args := []any{"ZMSCORE", sh.keys.Moved}
	for i := range group {
		if group[i].key == "" {
			return false, nil
		}
		args = append(args, group[i].key)
	}
	if len(group) == 0 {
		return true, nil
	}
	bounded, cancel := s.server.Bounded(ctx)
	defer cancel()
	reply, err := s.server.Ask(bounded, conn.Replicated, args...)
	if err != nil {
		return false, s.server.WrapError("look for the key of a move in "+sh.keys.Prefix, err)
	}
	since, _ := reply.([]any)
	oldest := s.millis() - core.KeyLife.Milliseconds()
	for _, at := range since {
		if millis, ok := server.ScoreMillis(at); !ok || millis <= oldest {
			return false, nil
		}
	}
	return len(since) == len(group), nil
}
