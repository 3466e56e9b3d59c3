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

// stored is a message, encoded for the scripts that store it.
type stored struct {
	record []byte // nil: the message is not stored, only id and key are noted
	id     string // for duplicate detection; "": none
	key    string // Transit.Key; "": none
	due    any    // ms; "": not scheduled
	ttl    any    // ms; "": does not expire
	sid    string // sessionName; "": none
}

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

func (m *stored) isPlain() bool {
	return m.id == "" && m.key == "" && m.due == "" && m.ttl == "" && m.sid == ""
}

type sending struct {
	messages []stored
	bytes    int
	numbers  []int64 // 0: dropped as a duplicate
	err      error
}

// If the answer to a group is lost, Append fails the later groups without sending them, because
// they could be stored before this group.
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
	var members []int // indexes of the groups that the next flush sends
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

// send appends a batch. members are the indexes of its groups in groups.
func (s *Store) send(ctx context.Context, sh *shard, groups [][]*core.Message, answers []core.Appended, batch sending, members []int) {
	w := &batch
	err := sh.appends.Submit(ctx, w, len(w.messages), w.bytes)
	if err == nil {
		err = w.err
	}
	if err != nil {
		err = fmt.Errorf("cannot append messages to the keys '%s*': %w", sh.keys.Prefix, err)
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

func (s *Store) flushAppends(sh *shard, calls []*batching.Call[*sending]) {
	ctx, cancel := s.server.Bounded(context.Background())
	defer cancel()
	var messages []stored
	plain, size := !sh.hasHistory(), 0 // only scripts write histories
	for _, t := range calls {
		messages = append(messages, t.Work.messages...)
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
		if hand != nil { // the receivers' credit is reserved, so a concurrent flush could hand over nothing
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

// With more messages or bytes than these, Lua costs more than running another script does.
const (
	maxScripted      = 8
	maxScriptedBytes = 16 << 10
)

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

// If ringDoorbell fails, gateways find the messages when they poll, within a second.
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
	case len(reply) == 2 && reply[0] == "after": // appendPlain has stored them before, but its answer was lost
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
