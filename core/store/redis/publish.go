package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/batching"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/record"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
)

// Publish sends groups in batches. One script publishes a batch, and blocks the server for some
// microseconds per copy.
func (p *handle) Publish(ctx context.Context, version int64, groups [][]core.Publication) []core.Appended {
	to := func(sh *shard) *batching.Batcher[*outgoing[publication]] { return &sh.publishes }
	return send(ctx, p, "publish", to, version, len(groups), func(sh *shard, now time.Time, i int) (outgoingGroup[publication], error) {
		e := encoder{sh: sh, now: now}
		publications, err := e.group(groups[i], nil)
		return outgoingGroup[publication]{
			messages: publications, items: e.items, bytes: e.size, grows: e.needsRoom, arriving: fromSenders(publications),
		}, err
	})
}

// fromSenders returns the messages to store that come from senders, not from the topic's own queue.
func fromSenders(group []publication) []stored {
	var all []stored
	for i := range group {
		if group[i].source == "" && !group[i].noted {
			all = append(all, group[i].stored)
		}
	}
	return all
}

type encoder struct {
	sh        *shard
	now       time.Time
	records   map[recordOf][]byte // equal copies share a record
	items     int                 // publications and copies
	size      int
	needsRoom bool
	reserve   bool // store publications as reserved for a transaction, without copies
}

type recordOf struct {
	message  *core.Message
	bodiless bool
}

func (e *encoder) group(group []core.Publication, spare map[*core.Message]bool) ([]publication, error) {
	all := make([]publication, len(group))
	for i := range group {
		if spare[group[i].Message] {
			all[i] = publication{stored: e.sh.noted(group[i].Message), noted: true}
			e.items++
			continue
		}
		if err := e.publication(&all[i], &group[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (e *encoder) publication(p *publication, x *core.Publication) (err error) {
	e.items++
	if x.Source.IsZero() {
		e.needsRoom = true
		p.stored = e.sh.timed(x.Message, e.now)
	} else {
		p.stored = stored{due: "", ttl: ""}
		p.source = noLock
		if x.Source.Partition() == e.sh.Index {
			p.source = keyspace.Member(x.Source.Number(), secret(x.Source.Nonce()))
		}
	}
	if p.due != "" || e.reserve {
		p.record, err = e.record(x.Message, false)
		e.size += p.stored.size() - len(p.record)
		return err
	}
	e.size += p.stored.size()
	if e.sh.hasHistory() {
		// A history needs the message id, even if there are no copies.
		if p.record, err = record.Encode(&core.Message{MessageID: x.Message.MessageID}, 0); err != nil {
			return err
		}
	}
	shares := len(x.Copies) > 1 && len(x.Message.Body.Bytes) >= sharedBody
	if shares {
		p.body = x.Message.Body.Bytes
		e.size += len(p.body)
	}
	p.copies = make([]copied, len(x.Copies))
	for i := range x.Copies {
		c := &x.Copies[i]
		p.copies[i] = copied{to: place{c.To.Ref, c.To.Policy}, ttl: ""}
		if p.copies[i].record, err = e.record(c.Message, shares); err != nil {
			return err
		}
		if c.Message.TimeToLive > 0 && c.To.Sub == core.Main {
			p.copies[i].ttl = c.Message.TimeToLive.Milliseconds()
		}
		if c.To.Sessions {
			p.copies[i].sid = sessionOf(c.Message)
		}
		own := stored{ttl: p.copies[i].ttl, due: "", sid: p.copies[i].sid}
		e.size += own.size()
	}
	e.items += len(x.Copies)
	return nil
}

func (e *encoder) record(m *core.Message, bodiless bool) (encoded []byte, err error) {
	of := recordOf{m, bodiless}
	if encoded = e.records[of]; encoded == nil {
		encode := record.Encode
		if bodiless {
			encode = record.EncodeBodiless
		}
		if encoded, err = encode(m, e.now.UnixMilli()); err != nil {
			return nil, err
		}
		if e.records == nil {
			e.records = make(map[recordOf][]byte)
		}
		e.records[of] = encoded
	}
	e.size += len(encoded)
	return encoded, nil
}

func (s *Store) flushPublishes(sh *shard, calls []*batching.Call[*outgoing[publication]]) {
	ctx, cancel := s.server.Bounded(context.Background())
	defer cancel()
	b := newPublishArgs(s.server.Names, sh)
	size := 0
	for _, t := range calls {
		for _, group := range t.Work.groups {
			b.group(t.Work.version, group.messages)
		}
		size += t.Work.bytes
	}
	reply, err := s.publish(ctx, sh, b)
	sh.quota.stored(size)
	err = s.server.WrapError("store publications", conn.Certain(err))
	for _, t := range calls {
		n := len(t.Work.groups)
		switch {
		case err != nil:
			t.Work.err = err
		case len(reply) < n:
			t.Work.err = fmt.Errorf("the script topic_publish.lua did not answer for all groups of messages: %w", core.Internal)
		default:
			t.Work.answers, t.Work.err = sh.published(reply[:n], t.Work.groups)
			reply = reply[n:]
		}
	}
}

// publish also locks copies for receivers of this gateway, in the same exchange.
func (s *Store) publish(ctx context.Context, sh *shard, b *publishArgs) (reply []any, err error) {
	now := s.millis()
	hands, done := s.reserveTargets(b, now)
	defer done()
	r := s.receipt(sh)
	defer r.end()
	if len(hands) == 0 {
		return s.transitionUnder(ctx, sh, now, r, script.TopicPublish, b.allKeys(), b.allArgs()...)
	}
	sh.publishes.SetAlone(true) // the receivers' credit is reserved, so a concurrent flush could hand over nothing
	defer sh.publishes.SetAlone(false)
	keys, args := r.arguments(slices.Concat(sh.state, b.allKeys()), append(sh.stateArgs(now), b.allArgs()...))
	published := script.TopicPublish.With(sh.features).Command(keys, args...)
	cmds := []*redis.Cmd{redis.NewCmd(ctx, published...)}
	for _, h := range hands {
		cmds = append(cmds, h.command(ctx, now))
	}
	failure := s.server.Exchange(ctx, conn.InTransaction|conn.Replicated, cmds...)
	few, _ := errors.AsType[*conn.NotReplicated](failure)
	for i, h := range hands {
		reply, err := cmds[i+1].Slice()
		h.finish(ctx, reply, err, nil, nil)
	}
	if cmds[0].Args()[0] == "EVAL" { // the server did not know the script, and runs it after the lock calls, which find nothing
		defer func() {
			for _, h := range hands {
				s.ringDoorbell(ctx, h.shard)
			}
		}()
	}
	reply, err = cmds[0].Slice()
	switch {
	case few != nil:
		return nil, few
	case err != nil:
		again, outcome := r.again(ctx, conn.Aborted(cmds, failure))
		if !again {
			return nil, outcome
		}
	case len(reply) > 0 && reply[0] == "ok":
		return reply[1:], nil
	}
	// The answer was lost, or nothing was stored because more is due than one call sweeps. Without
	// the lock calls, the script must wake all gateways.
	for _, t := range b.order {
		t.quiet = false
	}
	return s.transitionUnder(ctx, sh, now, r, script.TopicPublish, b.allKeys(), b.allArgs()...)
}

const maxHandOvers = 16 // number of subscriptions for which one publish locks copies: the exchange blocks the server

// reserveTargets reserves credit of receivers that wait for copies. Each handOver sends a lock
// call, which wakes other gateways, so topic_publish.lua need not. Call done after the exchange.
func (s *Store) reserveTargets(b *publishArgs, now int64) (hands []*handOver, done func()) {
	var ends []func()
	for _, t := range b.order {
		if t.to.Sub != core.Main || len(hands) == maxHandOvers || s.doorbells.WatchersOf(s.server.Names.Doorbell(t.to.Ref)) == nil {
			continue
		}
		sh, end := s.shard(t.to)
		ends = append(ends, end)
		if h := s.reserve(sh, now, sh.inline()); h != nil {
			hands, t.quiet = append(hands, h), true
		}
	}
	return hands, func() {
		for _, end := range ends {
			end()
		}
	}
}

func (sh *shard) published(reply []any, groups []outgoingGroup[publication]) ([]core.Appended, error) {
	answers := make([]core.Appended, len(groups))
	for i, raw := range reply {
		if word, ok := raw.(string); ok {
			answers[i].Err = core.Code(word)
			continue
		}
		positions, _ := raw.([]any)
		numbers, err := sh.sequenceNumbers(positions, len(groups[i].messages))
		if err != nil {
			return nil, err
		}
		answers[i].Numbers = numbers
	}
	return answers, nil
}

// sequenceNumbers adds the partition to numbers. 0, for a message that was not stored, stays 0.
func (sh *shard) sequenceNumbers(positions []any, messages int) ([]int64, error) {
	numbers, err := scriptNumbers(positions, messages)
	for i, n := range numbers {
		if n != 0 {
			numbers[i] = sh.sequenceNumber(n)
		}
	}
	return numbers, err
}

type publishArgs struct {
	names   keyspace.Names
	sh      *shard
	targets map[core.Ref]*publishTarget
	order   []*publishTarget
	records [][]byte
	known   map[*byte]int // index in records, by the address of a record's first byte
	groups  []any
}

// publishTarget is a queue that gets copies. Copies that expire or have sessions need more keys.
type publishTarget struct {
	at                int // index among the targets, from 1
	to                place
	expires, sessions bool
	quiet             bool // the script wakes no gateway for this queue: a lock call in the same exchange does
}

func newPublishArgs(names keyspace.Names, sh *shard) *publishArgs {
	return &publishArgs{names: names, sh: sh, targets: make(map[core.Ref]*publishTarget), known: make(map[*byte]int)}
}

func (b *publishArgs) group(version int64, group []publication) {
	b.groups = append(b.groups, version, len(group))
	for i := range group {
		p := &group[i]
		record := 0
		switch {
		case p.noted:
			record = -1
		case p.record != nil:
			record = b.record(p.record)
		}
		b.groups = append(b.groups, p.id, p.key, p.due, p.ttl, p.source, p.body, record, len(p.copies))
		for j := range p.copies {
			c := &p.copies[j]
			t := b.target(c.to)
			t.expires = t.expires || c.ttl != ""
			t.sessions = t.sessions || c.sid != ""
			b.groups = append(b.groups, t.at, b.record(c.record), c.ttl, c.sid)
		}
	}
}

func (b *publishArgs) record(record []byte) int {
	first := &record[0]
	if b.known[first] == 0 {
		b.records = append(b.records, record)
		b.known[first] = len(b.records)
	}
	return b.known[first]
}

func (b *publishArgs) target(to place) *publishTarget {
	t := b.targets[to.Ref]
	if t == nil {
		t = &publishTarget{at: len(b.order) + 1, to: to}
		b.targets[to.Ref], b.order = t, append(b.order, t)
	}
	return t
}

func (b *publishArgs) allKeys() []any {
	k := &b.sh.keys
	keys := make([]any, 0, 7+targetKeys*len(b.order))
	keys = append(keys, k.Seen, k.Moved, b.names.Bodies(b.sh.Ref), b.names.Refs(b.sh.Ref))
	for _, t := range b.order {
		theirs := b.sh.keysOf(b.names, t.to.Ref)
		keys = append(keys, theirs[:targetKeys]...)
		if t.expires {
			keys = append(keys, theirs[targetKeys])
		}
		if t.sessions {
			keys = append(keys, theirs[targetKeys+1:]...)
		}
		if b.sh.hasHistory() {
			keys = append(keys, b.names.History(t.to.Ref))
		}
	}
	return keys
}

const targetKeys = len(keyspace.TargetSuffixes)

// keysOf returns r's keys: those that every target needs, then those for expiry and sessions.
func (sh *shard) keysOf(names keyspace.Names, r core.Ref) []any {
	if keys, ok := sh.targets.Load(r); ok {
		return keys.([]any)
	}
	keys := keyspace.WithSuffixes(names.Prefix(r), keyspace.TargetSuffixes+keyspace.ExpirySuffix+keyspace.ArrivalSuffixes)
	sh.targets.Store(r, keys)
	return keys
}

func (b *publishArgs) allArgs() []any {
	args := make([]any, 0, 4+len(b.order)+len(b.records)+len(b.groups))
	args = append(args, b.sh.DuplicateWindow.Milliseconds(), core.KeyLife.Milliseconds(), len(b.order), len(b.records))
	for _, t := range b.order {
		var kind strings.Builder
		if t.expires {
			kind.WriteByte('e')
		}
		if t.sessions {
			kind.WriteByte('s')
		}
		if t.to.Sub.IsDeadLetter() {
			kind.WriteByte('d')
		}
		if t.quiet {
			kind.WriteByte('q')
		}
		args = append(args, kind.String())
	}
	for _, record := range b.records {
		args = append(args, record)
	}
	return append(args, b.groups...)
}
