package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
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
