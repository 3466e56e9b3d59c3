package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
)

type measured struct {
	bytes int64
	work  time.Duration // approximate time that Redis needed
}

const (
	workPerCommand = time.Microsecond
	workPerEntry   = 100 * time.Nanosecond
	seenSamples    = 100 // ids that are read to estimate the average length of all ids
	forgetCalls    = 20  // calls of duplicates_trim.lua in one measurement
	forgetMost     = 5000
)

// sizes returns the partitions' bytes, only estimated if measuring would cost Redis too much.
func (s *Store) sizes(ctx context.Context, ps []place) (sizes []int64, errs []error) {
	sizes, errs = make([]int64, len(ps)), make([]error, len(ps))
	var asked []place
	var places []int
	for i, p := range ps {
		if sh := s.shards.known(p); sh != nil {
			var lately bool
			if sizes[i], lately = sh.quota.lately(); lately {
				continue
			}
		}
		asked, places = append(asked, p), append(places, i)
	}
	found, failures := s.measure(ctx, asked)
	for i, at := range places {
		sizes[at], errs[at] = found[i].bytes, failures[i]
		if failures[i] == nil && found[i].work > muchWork {
			sh, done := s.shard(asked[i])
			sh.quota.mu.Lock()
			sh.quota.note(found[i])
			sh.quota.mu.Unlock()
			done()
		}
	}
	return sizes, errs
}

// found[of[i]] gets what the command asked[i] measures.
type measuring struct {
	*Store
	found []measured
	errs  []error
	of    []int
	asked [][]any
}

func (m *measuring) ask(of int, command ...any) {
	m.of, m.asked = append(m.of, of), append(m.asked, command)
}

// usage asks for the memory of key, for found[of]. Redis looks at samples values, or at all for 0.
func (m *measuring) usage(of int, key string, samples ...any) {
	command := []any{"MEMORY", "USAGE", key}
	if len(samples) > 0 {
		command = append(command, "SAMPLES", samples[0])
	}
	m.ask(of, command...)
}

// answer sends the commands in asked. replies[i] measures found[of[i]].
func (m *measuring) answer(ctx context.Context) (replies []*redis.Cmd, of []int) {
	asked, of := m.asked, m.of
	m.asked, m.of = nil, nil
	replies = m.server.Piped(ctx, len(asked), func(i int) []any { return asked[i] })
	for i, r := range replies {
		m.found[of[i]].work += workPerCommand
		if err := r.Err(); err != nil && !conn.IsNil(err) {
			m.errs[of[i]] = err
		}
	}
	return replies, of
}

// measure asks Redis for the memory of queues: for a main queue with its sub-queues, and for a
// topic's own queue with the queues of its subscriptions. Streams are measured completely, because
// their first nodes say little about the others. An empty stream counts as 0 bytes.
func (s *Store) measure(ctx context.Context, ps []place) ([]measured, []error) {
	m := &measuring{Store: s, found: make([]measured, len(ps)), errs: make([]error, len(ps))}
	m.forgetIDs(ctx, ps)
	var queues []core.Ref
	var owners []int // indexes in ps
	add := func(of int, r core.Ref) {
		queues, owners = append(queues, r), append(owners, of)
		if r.Sub == core.Main {
			for r.Sub = core.Main + 1; r.Sub < core.SubQueues; r.Sub++ {
				queues, owners = append(queues, r), append(owners, of)
			}
		}
	}
	for i, p := range ps {
		add(i, p.Ref)
		if p.Sub == core.Main && p.Subscription == "" {
			m.ask(i, "SMEMBERS", s.server.Names.Subscriptions(p.Ref))
		}
	}
	replies, of := m.answer(ctx)
	var topics []int
	for i, r := range replies {
		p := ps[of[i]]
		ids, _ := r.StringSlice()
		for _, id := range ids {
			add(of[i], core.Ref{Entity: p.Entity, Subscription: id, Index: p.Index})
		}
		if len(ids) > 0 {
			topics = append(topics, of[i])
			m.usage(of[i], s.server.Names.Refs(p.Ref))
		}
	}
	sizes := len(m.asked)
	var mains []int
	for i, r := range queues {
		m.ask(owners[i], "XLEN", s.server.Names.Stream(r))
		if r.Sub == core.Main {
			mains = append(mains, i)
		}
	}
	for _, i := range topics {
		m.ask(i, "HLEN", s.server.Names.Bodies(ps[i].Ref))
	}
	for _, i := range mains {
		exist := append([]any{"EXISTS", s.server.Names.Base(queues[i]) + keyspace.SeenSuffix}, keyspace.WithSuffixes(s.server.Names.Prefix(queues[i]), keyspace.StateSuffixes)...)
		m.ask(owners[i], exist...)
	}
	replies, of = m.answer(ctx)
	m.add(replies[:sizes], of)
	lengths, bodies, existing := replies[sizes:], replies[sizes+len(queues):], replies[sizes+len(queues)+len(topics):]
	for at, i := range mains {
		if n, _ := existing[at].Int64(); n == 0 {
			continue
		}
		m.usage(owners[i], s.server.Names.Base(queues[i])+keyspace.SeenSuffix, seenSamples)
		for _, suffix := range keyspace.StateSuffixes {
			m.usage(owners[i], s.server.Names.Prefix(queues[i])+string(suffix), 0)
		}
	}
	for i, r := range queues {
		if !m.holds(owners[i], lengths[i]) {
			continue
		}
		m.usage(owners[i], s.server.Names.Stream(r), 0)
		beside := keyspace.MessageDataSuffixes
		if r.Sub == core.Main {
			beside += keyspace.SessionSuffixes
		}
		for _, suffix := range beside {
			m.usage(owners[i], s.server.Names.Prefix(r)+string(suffix))
		}
	}
	for i, of := range topics {
		if m.holds(of, bodies[i]) {
			m.usage(of, s.server.Names.Bodies(ps[of].Ref), 0)
		}
	}
	replies, of = m.answer(ctx)
	m.add(replies, of)
	return m.found, m.errs
}

// holds reports whether the key has entries; length is the reply with their number. It also adds
// the time for measuring the key to m.found[of].work.
func (m *measuring) holds(of int, length *redis.Cmd) bool {
	n, _ := length.Int64()
	m.found[of].work += time.Duration(n) * workPerEntry
	return n > 0
}

func (m *measuring) add(replies []*redis.Cmd, of []int) {
	for i, r := range replies {
		n, _ := r.Int64() // 0 if the key does not exist
		m.found[of[i]].bytes += n
	}
}

// forgetIDs makes Redis drop outdated ids of duplicate detection. Other scripts drop ids only when
// a message arrives, so without new messages they would be counted for ever.
func (m *measuring) forgetIDs(ctx context.Context, ps []place) {
	due := make([]bool, len(ps))
	for i, p := range ps {
		due[i] = p.Sub == core.Main && p.DuplicateWindow.Milliseconds() > 0
	}
	for range forgetCalls {
		for i, p := range ps {
			if due[i] {
				key := m.server.Names.Base(p.Ref) + keyspace.SeenSuffix
				m.ask(i, script.DuplicatesTrim.Command([]any{key}, m.millis()-p.DuplicateWindow.Milliseconds())...)
			}
		}
		if len(m.asked) == 0 {
			return
		}
		replies, of := m.answer(ctx)
		for i, r := range replies {
			n, err := r.Int64()
			due[of[i]] = err == nil && n == forgetMost
		}
	}
}
