package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
)

// measured is how many bytes a queue or topic takes.
type measured struct {
	bytes int64
	work  time.Duration // about what measuring took Redis
}

const (
	// What a measurement takes Redis, about.
	workPerCommand = time.Microsecond
	workPerEntry   = 100 * time.Nanosecond
	// seenSamples is how many ids are looked at to learn how long they are.
	seenSamples = 100
	// forgetCalls bounds how often one measurement has ids forgotten; forgetMost is how
	// many forget.lua drops in one call.
	forgetCalls = 20
	forgetMost  = 5000
)

// sizes are how many bytes queues and topics take. Where measuring is much work for
// Redis it is what was measured lately, and added since.
func (s *Store) sizes(ctx context.Context, ps []core.Partition) (sizes []int64, errs []error) {
	sizes, errs = make([]int64, len(ps)), make([]error, len(ps))
	var asked []core.Partition
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

// measuring collects the commands of a measurement, each for one of the partitions.
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

// usage asks for the memory of a key. Of hashes and the like a few values are looked at,
// or so many; 0: all.
func (m *measuring) usage(of int, key string, samples ...any) {
	command := []any{"MEMORY", "USAGE", key}
	if len(samples) > 0 {
		command = append(command, "SAMPLES", samples[0])
	}
	m.ask(of, command...)
}

// answer sends what was asked and returns the answers, with the partitions that they
// are about.
func (m *measuring) answer(ctx context.Context) (replies []*redis.Cmd, of []int) {
	asked, of := m.asked, m.of
	m.asked, m.of = nil, nil
	replies = m.piped(ctx, len(asked), func(i int) []any { return asked[i] })
	for i, r := range replies {
		m.found[of[i]].work += workPerCommand
		if err := r.Err(); err != nil && !isNil(err) {
			m.errs[of[i]] = err
		}
	}
	return replies, of
}

// measure asks Redis for the memory that queues take with all that is kept of their
// messages and sessions, and with a topic's own that of its subscriptions', without dead
// letters. A stream is measured as a whole: its first nodes say little about the others.
// What an empty stream takes does not count.
func (s *Store) measure(ctx context.Context, ps []core.Partition) ([]measured, []error) {
	m := &measuring{Store: s, found: make([]measured, len(ps)), errs: make([]error, len(ps))}
	m.forgetIDs(ctx, ps)
	for i, p := range ps {
		if p.Sub == core.Main && p.Subscription == "" {
			m.ask(i, "SMEMBERS", s.names.subscriptions(p.Ref))
		}
	}
	var prefixes []string // of queues
	var owners []int      // whose they are
	for i, p := range ps {
		prefixes, owners = append(prefixes, s.names.prefix(p.Ref)), append(owners, i)
	}
	replies, of := m.answer(ctx)
	for i, r := range replies {
		p := ps[of[i]]
		ids, _ := r.StringSlice()
		for _, id := range ids {
			prefixes = append(prefixes, s.names.prefix(core.Ref{Entity: p.Entity, Subscription: id, Index: p.Index}))
			owners = append(owners, of[i])
		}
		if len(ids) > 0 {
			m.ask(of[i], "HGET", s.names.refs(p.Ref), "bytes")
			m.usage(of[i], s.names.refs(p.Ref))
		}
	}
	for i, p := range ps {
		if p.Sub == core.Main {
			m.usage(i, s.names.base(p.Ref)+seenLetter, seenSamples)
		}
	}
	for i, prefix := range prefixes {
		if ps[owners[i]].Sub == core.Main {
			for _, letter := range stateLetters {
				m.usage(owners[i], prefix+string(letter), 0)
			}
		}
	}
	for i, prefix := range prefixes {
		m.ask(owners[i], "XLEN", prefix+streamLetter)
	}
	replies, of = m.answer(ctx)
	lengths := replies[len(replies)-len(prefixes):]
	m.add(replies[:len(replies)-len(prefixes)], of)
	for i, prefix := range prefixes {
		n, _ := lengths[i].Int64()
		if n == 0 {
			continue
		}
		m.found[owners[i]].work += time.Duration(n) * workPerEntry
		m.usage(owners[i], prefix+streamLetter, 0)
		for _, letter := range noteLetters + sessionLetters {
			m.usage(owners[i], prefix+string(letter))
		}
	}
	replies, of = m.answer(ctx)
	m.add(replies, of)
	return m.found, m.errs
}

// add adds answers to the sizes.
func (m *measuring) add(replies []*redis.Cmd, of []int) {
	for i, r := range replies {
		n, _ := r.Int64() // 0 where there is no such key
		m.found[of[i]].bytes += n
	}
}

// forgetIDs drops the ids that duplicate detection need not know any more. Without it
// those of the last messages before a pause would count until the next message.
func (m *measuring) forgetIDs(ctx context.Context, ps []core.Partition) {
	due := make([]bool, len(ps))
	for i, p := range ps {
		due[i] = p.Sub == core.Main && p.DuplicateWindow.Milliseconds() > 0
	}
	for range forgetCalls {
		for i, p := range ps {
			if due[i] {
				key := m.names.base(p.Ref) + seenLetter
				m.ask(i, forgetScript.command(true, []any{key}, m.millis()-p.DuplicateWindow.Milliseconds())...)
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
