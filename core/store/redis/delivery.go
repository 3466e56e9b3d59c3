package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/record"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

// delivery decodes an entry. If bodiless is true, the caller must still read the shared body.
func (sh *shard) delivery(e *record.Entry, a record.SideData, state core.State) (d core.Delivery, bodiless bool, err error) {
	m, enqueued, bodiless, err := e.Message(a)
	if err != nil {
		return core.Delivery{}, false, fmt.Errorf("cannot decode message %d in the keys '%s*': %w", e.N, sh.keys.Prefix, err)
	}
	d = core.Delivery{Message: m, BrokerProperties: core.BrokerProperties{
		SequenceNumber:         sh.sequenceNumber(e.N),
		EnqueuedSequenceNumber: sh.sequenceNumber(e.N),
		EnqueuedTime:           core.Instant(enqueued),
		DeliveryCount:          max(a.Count, e.Count),
		State:                  state,
		DeadLetteredTime:       core.Instant(e.Died),
		Partitioned:            sh.Partitioned,
	}}
	if e.Origin != 0 {
		d.EnqueuedSequenceNumber = sh.sequenceNumber(e.Origin)
	}
	if t := m.Transit; t != nil {
		d.DeadLetterSource = t.DeadLetterSource
		if t.EnqueuedSequenceNumber != 0 {
			d.EnqueuedSequenceNumber = t.EnqueuedSequenceNumber
		}
	}
	if state != core.Scheduled {
		d.SetDue(time.Time{})
	}
	if m.TimeToLive > 0 && state != core.Scheduled {
		d.ExpiresAt = core.Instant(enqueued + m.TimeToLive.Milliseconds())
	}
	if !bodiless {
		sh.weigh(int64(len(e.Record) + len(e.Body)))
	}
	return d, bodiless, nil
}

// From sharedBody bytes on, copies share a body: smaller ones are cheaper to store with each copy.
const sharedBody = 512

type missingBody struct {
	at          int   // index of the delivery
	publication int64 // its number in the topic's own queue
}

// attachBodies reads missing bodies. It leaves out deliveries whose bodies no longer exist: their
// locks have ended, and other receivers have completed the messages.
func (s *Store) attachBodies(ctx context.Context, sh *shard, ds []core.Delivery, missing []missingBody) ([]core.Delivery, error) {
	if len(missing) == 0 {
		return ds, nil
	}
	var commands []*redis.Cmd
	for part := range slices.Chunk(missing, sh.page()) {
		args := []any{"HMGET", s.server.Names.Bodies(sh.Ref)}
		for _, l := range part {
			args = append(args, l.publication)
		}
		commands = append(commands, redis.NewCmd(ctx, args...))
	}
	parts, err := s.server.Lists(ctx, commands...)
	if err != nil {
		return nil, err
	}
	bodies := slices.Concat(parts...)
	if len(bodies) != len(missing) {
		return nil, server.ErrReply
	}
	for i, l := range missing {
		body, ok := bodies[i].(string)
		if !ok {
			ds[l.at].Message = nil
			continue
		}
		ds[l.at].Body.Bytes = record.View(body)
		sh.weigh(int64(ds[l.at].Size()))
	}
	return slices.DeleteFunc(ds, func(d core.Delivery) bool { return d.Message == nil }), nil
}

func (s *Store) entriesOf(ctx context.Context, sh *shard, claims []claim) ([]record.Entry, error) {
	recent, others := s.recents.take(sh, claims)
	if len(others) == 0 {
		return recent, nil
	}
	read, err := s.read(ctx, sh, others)
	if err != nil {
		return nil, err
	}
	return inOrder(claims, recent, read), nil
}

// A claim may have no entry.
func inOrder(claims []claim, some, others []record.Entry) []record.Entry {
	if len(some) == 0 {
		return others
	}
	entries := make([]record.Entry, 0, len(claims))
	for _, c := range claims {
		switch {
		case len(some) > 0 && some[0].N == c.n:
			entries, some = append(entries, some[0]), some[1:]
		case len(others) > 0 && others[0].N == c.n:
			entries, others = append(entries, others[0]), others[1:]
		}
	}
	return entries
}

// read sends one XRANGE for each run of consecutive numbers.
func (s *Store) read(ctx context.Context, sh *shard, claims []claim) ([]record.Entry, error) {
	limit := max(1, min(maxRead, maxReadBytes/max(1, sh.average.Load())))
	type span struct{ first, last int64 }
	var spans []span
	for _, c := range claims {
		if k := len(spans) - 1; k >= 0 && spans[k].last+1 == c.n && c.n-spans[k].first < limit {
			spans[k].last = c.n
		} else {
			spans = append(spans, span{c.n, c.n})
		}
	}
	commands := make([]*redis.Cmd, len(spans))
	for i, sp := range spans {
		commands[i] = redis.NewCmd(ctx, "XRANGE", sh.keys.Stream, keyspace.EntryID(sp.first), keyspace.EntryID(sp.last))
	}
	runs, err := s.server.Lists(ctx, commands...)
	if err != nil {
		return nil, err
	}
	if len(runs) == 1 {
		return record.ParseEntries(runs[0])
	}
	return record.ParseEntries(slices.Concat(runs...))
}
