// Package audit writes events that only the broker knows to the histories of messages, and merges
// them with the events that the store has written.
package audit

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	noteDelay   = 50 * time.Millisecond
	maxNotes    = 50_000
	maxReason   = 200
	noteTimeout = 5 * time.Second
)

// Writer adds to histories, in batches, the events that only the broker knows. No call waits for
// it. Entities without a history have a nil Writer, whose methods record nothing.
type Writer struct {
	now     func() time.Time // the store's clock
	gateway string
	log     *slog.Logger
	woken   wake.Signal

	writing chan struct{} // has one element unless a flush is running: only one runs at a time, so that events stay in order

	mu     sync.Mutex
	notes  map[core.Partition][]core.Event
	count  int
	missed int
}

func NewWriter(now func() time.Time, gateway string, log *slog.Logger) *Writer {
	a := &Writer{now: now, gateway: gateway, log: log, woken: wake.New(), writing: make(chan struct{}, 1), notes: map[core.Partition][]core.Event{}}
	a.writing <- struct{}{}
	return a
}

func (a *Writer) Add(p core.Partition, events ...core.Event) {
	if len(events) == 0 {
		return
	}
	for i := range events {
		events[i].Gateway = a.gateway
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if room := maxNotes - a.count; len(events) > room {
		a.missed += len(events) - room
		events = events[:room]
	}
	a.notes[p] = append(a.notes[p], events...)
	a.count += len(events)
	a.woken.Set()
}

func (a *Writer) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.woken:
		}
		wake.After(ctx, noteDelay)
		a.Flush(ctx)
	}
}

// Flush writes collected events, even if ctx ends. It drops those not written within noteTimeout.
func (a *Writer) Flush(ctx context.Context) {
	<-a.writing
	defer func() { a.writing <- struct{}{} }()
	a.mu.Lock()
	notes, missed := a.notes, a.missed
	a.notes, a.count, a.missed = map[core.Partition][]core.Event{}, 0, 0
	a.mu.Unlock()
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	partitions := slices.Collect(maps.Keys(notes))
	errs := make([]error, len(partitions))
	entity.InParallel(len(partitions), func(i int) { errs[i] = partitions[i].Annotate(call, notes[partitions[i]]) })
	var failure error
	for i, err := range errs {
		if err != nil {
			failure, missed = err, missed+len(notes[partitions[i]])
		}
	}
	if missed > 0 {
		a.log.Warn("dropped events of message histories, which are now incomplete", "events", missed, "err", failure)
	}
}

func (a *Writer) Party(ctx context.Context, id core.Identity, right core.Right, v *entity.View) core.Party {
	if a == nil {
		return core.Party{}
	}
	return core.Party{Policy: id.Voucher(right, v.Name, time.Now()), Peer: core.PeerOf(ctx)}
}

// Trail collects the events that the broker adds to the histories of messages from one client or
// one entity, and records them when the messages are stored. A nil Trail records nothing.
type Trail struct {
	w    *Writer
	by   core.Party
	from string

	mu      sync.Mutex
	matched map[*core.Message][]core.Event
}

// Begin returns a Trail for messages from a client or, if from is not "", from that entity.
func (a *Writer) Begin(by core.Party, from string) *Trail {
	if a == nil {
		return nil
	}
	return &Trail{w: a, by: by, from: from, matched: map[*core.Message][]core.Event{}}
}

// Match notes which events the rules of a topic have caused for m. No events: no rule has matched.
func (x *Trail) Match(m *core.Message, events []core.Event) {
	if len(events) == 0 {
		events = []core.Event{{Kind: core.EventUnmatched}}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.matched[m] = events
}

func (x *Trail) matches(m *core.Message) []core.Event {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.matched[m]
}

func (x *Trail) Published(p core.Partition, now time.Time, d *core.Delivery) {
	if x != nil {
		x.w.Add(p, at(now, d.SequenceNumber, x.matches(d.Message))...)
	}
}

// Arrived records who has sent ms, and which rules matched. The number of a duplicate is 0.
func (x *Trail) Arrived(p core.Partition, ms []*core.Message, numbers []int64) {
	if x == nil {
		return
	}
	now := x.w.now()
	var events []core.Event
	for i, m := range ms {
		kind := core.EventAccepted
		switch {
		case numbers[i] != 0:
		case entity.WithoutMoveKey(m) != m: // a repeated move
			continue
		default:
			kind = core.EventDuplicate
		}
		events = append(events, core.Event{
			Time: now, Kind: kind, Sub: p.Sub, Number: numbers[i], MessageID: m.MessageID, Note: core.Note{By: x.by, Entity: x.from},
		})
		if numbers[i] != 0 {
			events = append(events, at(now, numbers[i], x.matches(m))...)
		}
	}
	x.w.Add(p, events...)
}

func at(now time.Time, number int64, events []core.Event) []core.Event {
	for i := range events {
		events[i].Time, events[i].Number = now, number
	}
	return events
}

var settledAs = [...]core.EventKind{
	core.Complete: core.EventCompleted, core.Abandon: core.EventAbandoned, core.Defer: core.EventDeferred,
	core.DeadLetterOutcome: core.EventDeadLettered, core.Release: core.EventReleased,
	core.Activate: core.EventReleased,
}

func (a *Writer) Settled(v *entity.View, sub core.SubQueue, settlements []core.Settlement, errs []error, by core.Party) {
	if a == nil {
		return
	}
	now := a.now()
	for i := range settlements {
		s := &settlements[i]
		if errs[i] != nil {
			continue
		}
		x := core.Event{
			Time: now, Kind: settledAs[s.Outcome], Sub: sub, Number: s.Token.SequenceNumber(), Note: core.Note{By: by},
		}
		switch {
		case !s.At.IsZero():
			x.Kind = core.EventScheduled
		case s.Outcome == core.DeadLetterOutcome:
			x.Reason = ReasonOf(s.Properties)
		case s.Outcome == core.Release && s.Failed:
			x.Reason = "abandoned while the circuit breaker was open"
		}
		a.Add(v.Queues[sub][s.Token.Partition()], x)
	}
}

func ReasonOf(p core.Properties) string {
	reason, _ := p.Get(core.PropertyDeadLetterReason)
	text, _ := reason.(string)
	return core.Truncate(text, maxReason)
}

func (a *Writer) Delivered(v *entity.View, sub core.SubQueue, ds []core.Delivery, by core.Party) {
	if a == nil {
		return
	}
	now := a.now()
	for i := range ds {
		d := &ds[i]
		partition, _ := core.SplitSequenceNumber(d.SequenceNumber)
		x := core.Event{
			Time: now, Kind: core.EventDelivered, Sub: sub, Number: d.SequenceNumber, MessageID: d.MessageID,
			Count: d.DeliveryCount, Until: d.LockedUntil, Note: core.Note{By: by},
		}
		a.Add(v.Queues[sub][partition], x)
	}
}

func (a *Writer) Cancelled(v *entity.View, sub core.SubQueue, numbers []int64, by core.Party) {
	if a == nil {
		return
	}
	now := a.now()
	for _, n := range numbers {
		x := core.Event{Time: now, Kind: core.EventCancelled, Sub: sub, Number: n, Note: core.Note{By: by}}
		a.Add(v.Queues[sub][entity.PartitionOfNumber(&n)], x)
	}
}

func (x *Trail) Committed(v *entity.View, p core.Partition, w *core.Work, numbers []int64) {
	if x == nil {
		return
	}
	x.w.Settled(v, p.Sub, w.Settlements, make([]error, len(w.Settlements)), x.by)
	x.w.Cancelled(v, p.Sub, w.Cancels, x.by)
	instead := make(map[int]bool, len(w.Effects))
	for i := range w.Effects {
		instead[w.Effects[i].Of] = w.Effects[i].Instead
	}
	var ms []*core.Message
	var given []int64
	for i, m := range w.Messages {
		if !instead[i] {
			ms, given = append(ms, m), append(given, numbers[i])
		}
	}
	scheduled, theirs := entity.ScheduledBy(w)
	x.Arrived(v.Queues[core.Main][p.Index], append(ms, scheduled...), append(given, theirs...))
}

func (x *Trail) Judged(p core.Partition, m *core.Message, events []core.Event) {
	if x == nil {
		return
	}
	for _, did := range events {
		did.MessageID, did.By = m.MessageID, x.by
		x.w.Add(p, did)
	}
}

// Moved records that a forwarder has settled a message. to is the entity that has it now, or "".
func (a *Writer) Moved(p core.Partition, s *core.Settlement, to string) {
	if a == nil {
		return
	}
	x := core.Event{
		Time: a.now(), Kind: core.EventForwarded, Sub: p.Sub, Number: s.Token.SequenceNumber(),
		Reason: ReasonOf(s.Properties), Note: core.Note{Entity: to},
	}
	if to == "" {
		x.Kind = settledAs[s.Outcome]
	}
	a.Add(p, x)
}
