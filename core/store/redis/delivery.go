package redis

import (
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/record"
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
