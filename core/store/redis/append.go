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
)

// stored is a message as it is stored.
type stored struct {
	record []byte // nil if only the id and the key are noted
	id     string // for duplicate detection; "" for none
	key    string // the key of a repeatable move; "" for none
	due    any    // ms, "" if it is not scheduled
	ttl    any    // ms, "" if it does not expire
	sid    string // the name of its session; "" for none
}

// size estimates how many bytes the message takes in Redis until they are measured.
func (m *stored) size() int {
	size := len(m.record) + 32
	if m.id != "" {
		size += len(m.id) + 100
	}
	if m.ttl != "" {
		size += 110
	}
	if m.due != "" {
		size += 200
	}
	if m.sid != "" {
		size += 2*len(m.sid) + 200
	}
	return size
}

// isPlain reports whether the message can be stored without a script.
func (m *stored) isPlain() bool {
	return m.id == "" && m.key == "" && m.due == "" && m.ttl == "" && m.sid == ""
}

// sending is the part of an Append that goes into one flush.
type sending struct {
	messages []stored
	bytes    int
	numbers  []int64 // the answer: a number for each message, 0 for a dropped duplicate
	err      error
}

// Append stores groups of messages in order, each group as a whole or not at all. If the answer to
// a group is lost, the following groups of the call fail, too, to keep their order.
func (p *handle) Append(ctx context.Context, groups [][]*core.Message) []core.Appended {
	answers := make([]core.Appended, len(groups))
	if err := p.server.Enter(ctx); err != nil {
		return failAll(answers, core.CertainlyNotDone(fmt.Errorf("append: %w", err)))
	}
	defer p.server.Calls.Done()
	sh, done := p.shard(p.place)
	defer done()

	now := p.Now()
	budget := p.sizeBudget(ctx, sh)
	var batch sending
	var members []int // the groups in the batch
	flush := func() {
		if len(members) > 0 {
			p.send(ctx, sh, groups, answers, batch, members)
			batch, members = sending{}, nil
		}
	}
	for i, group := range groups {
		messages, size, err := sh.prepare(group, nil, now)
		if err == nil {
			err = budget.take(size)
		}
		if core.CodeOf(err) == core.QuotaExceeded {
			known, unknown := p.knowsAll(ctx, sh, messages)
			if err = cmp.Or(unknown, err); known {
				answers[i].Numbers = make([]int64, len(group))
				continue
			}
		}
		if err != nil {
			answers[i].Err = err
			continue
		}
		if len(members) > 0 && (len(batch.messages)+len(messages) > batching.MaxBatch || batch.bytes+size > batching.MaxBatchBytes) {
			flush()
			if err := answers[i-1].Err; core.CodeOf(err).Retriable() || core.CodeOf(err) == core.NotFound {
				budget.give(size)
				failAll(answers[i:], core.CertainlyNotDone(err))
				return answers
			}
		}
		batch.messages = append(batch.messages, messages...)
		batch.bytes += size
		members = append(members, i)
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

// prepare encodes a group. Messages in spare are only noted.
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

// timed returns a message's data for duplicate detection, moves and due times, without the record.
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

// noted returns what duplicate detection and moves need to know of a message that is not stored.
func (sh *shard) noted(m *core.Message) stored {
	return stored{id: sh.duplicateKey(m), key: keyOf(m), due: "", ttl: ""}
}

// keyOf returns the key of m's move, or "" if there is none.
func keyOf(m *core.Message) string {
	if m.Transit == nil {
		return ""
	}
	return m.Transit.Key
}

// duplicateKey returns m's id for duplicate detection, or "" if the entity does not detect duplicates.
func (sh *shard) duplicateKey(m *core.Message) string {
	if sh.DuplicateWindow.Milliseconds() <= 0 || m.MessageID.IsZero() {
		return ""
	}
	key := m.MessageID.String()
	if sh.Partitioned && m.PartitionKey != "" {
		key += "\x00" + m.PartitionKey
	}
	return key
}

// send submits a batch and gives its answers to the groups in it.
func (s *Store) send(ctx context.Context, sh *shard, groups [][]*core.Message, answers []core.Appended, batch sending, members []int) {
	w := &batch
	err := sh.appends.Submit(ctx, w, len(w.messages), w.bytes)
	if err == nil {
		err = w.err
	}
	if err != nil {
		err = fmt.Errorf("append to %s: %w", sh.keys.Prefix, err)
		for _, i := range members {
			answers[i].Err = err
		}
		return
	}
	numbers := w.numbers
	for _, i := range members {
		n := len(groups[i])
		answers[i].Numbers, numbers = numbers[:n:n], numbers[n:]
	}
}

// flushAppends stores the messages of several calls.
func (s *Store) flushAppends(sh *shard, calls []*batching.Call[*sending]) {
	ctx, cancel := s.server.Bounded(context.Background())
	defer cancel()
	var messages []stored
	plain, size := !sh.hasHistory(), 0 // histories are written by scripts
	for _, t := range calls {
		messages = append(messages, t.Work.messages...)
		size += t.Work.bytes
	}
	for i := range messages {
		plain = plain && messages[i].isPlain()
	}
	var numbers []int64
	var err error
	if len(messages) > 0 { // some groups may be empty
		r := s.receipt(sh)
		defer r.end()
		hand := s.reserve(sh, s.millis(), 0)
		if hand != nil { // this flush reserves the receivers' credit, so the next one could hand over nothing
			sh.appends.SetAlone(true)
			defer sh.appends.SetAlone(false)
		}
		few := len(messages) <= maxScripted && size <= maxScriptedBytes
		if plain && (hand == nil || !few) {
			var again bool
			numbers, err = s.appendPlain(ctx, sh, r, messages, hand)
			if again, err = r.again(ctx, err); again {
				numbers, err = s.appendScripted(ctx, sh, r, messages, nil)
			}
		} else {
			numbers, err = s.appendScripted(ctx, sh, r, messages, hand)
		}
	}
	sh.quota.stored(size)
	for i, n := range numbers {
		if n != 0 {
			numbers[i] = sh.sequenceNumber(n)
		}
	}
	err = s.server.WrapError("store messages", conn.Certain(err))
	for _, t := range calls {
		if t.Work.err = err; err == nil {
			n := len(t.Work.messages)
			t.Work.numbers, numbers = numbers[:n:n], numbers[n:]
		}
	}
}

// Up to this many small messages are stored, handed over and locked by one script. For more,
// passing them through Lua costs more than a second script.
const (
	maxScripted      = 8
	maxScriptedBytes = 16 << 10
)

// appendPlain stores messages without a script, so that their bodies do not pass through Lua. The
// sweep that precedes them makes messages that were due earlier available first.
func (s *Store) appendPlain(ctx context.Context, sh *shard, r *receipt, messages []stored, hand *handOver) ([]int64, error) {
	now := s.millis()
	if sh.Sub.IsDeadLetter() {
		if _, _, err := s.runUntilSwept(ctx, s.queueOf(sh), now, nil, script.Sweep, nil, 0); err != nil {
			hand.fail(nil)
			return nil, err
		}
	}
	numbers, locked, err := s.addEntries(ctx, sh, now, r, messages, hand)
	switch {
	case hand == nil:
	case err != nil && locked == nil:
		hand.fail(err)
	default: // too few replicas do not matter: the receiver's settlement waits for them
		reply, err := locked.Slice()
		hand.finish(ctx, reply, err, numbers, messages)
	}
	return numbers, err
}

// addEntries does the work of appendPlain and, in the same exchange, what follows: the lock call of
// hand or, without one, the doorbell.
func (s *Store) addEntries(ctx context.Context, sh *shard, now int64, r *receipt, messages []stored, hand *handOver) (numbers []int64, locked *redis.Cmd, err error) {
	sweepKeys, sweepArgs := append(slices.Clip(sh.state), r.key), append(sh.stateArgs(now), 0, r.id)
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
	if conn.IsNil(added[0].Err()) { // the stream is gone: the entity has been deleted
		_, _ = s.server.Do(ctx, "UNLINK", sh.keys.Head) // HINCRBY has made this key; an entity's ID is never reused
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

// numbersOf reads the numbers of stored messages. Only the answer to a message's own XADD proves
// that it is stored.
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
			return nil, fmt.Errorf("XADD answered %v: %w", c.Val(), conn.ErrUnanswered)
		}
	}
	return numbers, nil
}

// scriptNumbers reads the numbers that a script returns, one for each message. The number of a
// known message, which the script did not store, is 0.
func scriptNumbers(reply []any, messages int) ([]int64, error) {
	if len(reply) != messages {
		return nil, fmt.Errorf("got %d sequence numbers for %d messages: %w", len(reply), messages, conn.ErrUnanswered)
	}
	numbers := make([]int64, len(reply))
	for i, raw := range reply {
		n, ok := raw.(int64)
		if !ok || n < 0 {
			return nil, fmt.Errorf("sequence number %v: %w", raw, conn.ErrUnanswered)
		}
		numbers[i] = n
	}
	return numbers, nil
}

// ringDoorbell wakes the gateways that wait at the partition. If it fails, their next poll finds
// the messages within a second.
func (s *Store) ringDoorbell(ctx context.Context, sh *shard) {
	if _, err := s.server.Eval(ctx, script.Doorbell, []any{sh.keys.Head, sh.keys.Doorbell}); err != nil {
		s.server.Log.Debug("cannot publish a wake-up to other gateways", "entity", sh.Entity, "partition", sh.Index, "err", err)
	}
}

// appendArgs returns the arguments of append.lua that follow those of the state.
func (sh *shard) appendArgs(messages []stored) []any {
	args := make([]any, 0, 2+6*len(messages))
	args = append(args, sh.DuplicateWindow.Milliseconds(), core.KeyLife.Milliseconds())
	for i := range messages {
		m := &messages[i]
		args = append(args, m.id, m.key, m.due, m.ttl, m.sid, m.record)
	}
	return args
}

// appendScripted stores messages of any kind with one script, which also locks for hand.
func (s *Store) appendScripted(ctx context.Context, sh *shard, r *receipt, messages []stored, hand *handOver) (numbers []int64, err error) {
	now, sc, args := s.millis(), script.Append, sh.appendArgs(messages)
	if hand != nil {
		sc, args = script.AppendLock, append(hand.args, args...)
	}
	reply, code, err := s.transitionUnder(ctx, sh, now, r, sc, []any{sh.keys.Seen, sh.keys.Moved}, args...)
	switch {
	// An error with a reply means that too few replicas have confirmed the messages, which are stored. With a
	// hand they are also locked, so the hand-over below goes on.
	case err != nil && (reply == nil || hand == nil):
		hand.fail(err)
		return nil, err
	case code != "":
		hand.fail(nil)
		return nil, code
	}
	switch {
	case len(reply) == 2 && reply[0] == "after": // appendPlain has stored these messages, but got no answer
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
