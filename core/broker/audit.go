package broker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// History says which entities have a history of their messages. It is configuration: all gateways
// of a namespace should have the same.
type History struct {
	// Entity is the name of a queue or topic, or a pattern as in a Pipeline. A topic's
	// subscriptions have a history as the topic has.
	Entity string
	Keep   time.Duration // how long events are kept
	Max    int           // events of a queue, a topic or a subscription, in all its partitions
}

const (
	// noteDelay is how long events are collected before they are written.
	noteDelay = 50 * time.Millisecond
	// maxNotes is how many events may wait to be written; further ones are dropped.
	maxNotes = 50_000
	// maxReason is how many characters of a reason are kept.
	maxReason = 200
	// noteTimeout bounds the writing of the events collected.
	noteTimeout = 5 * time.Second
)

// bounds are those of the first History whose pattern fits the entity.
func (b *Broker) bounds(ent *core.Entity) core.HistoryBounds {
	name := ent.Name
	if topic, _, ok := core.SplitSubscription(name); ok {
		name = topic
	}
	for i := range b.options.Histories {
		h := &b.options.Histories[i]
		if fitsPattern(core.FoldName(h.Entity), core.FoldName(name)) {
			return core.HistoryBounds{Keep: h.Keep, Max: (h.Max + ent.Partitions - 1) / ent.Partitions}
		}
	}
	return core.HistoryBounds{}
}

// auditWriter writes to histories what only the broker knows. It writes in batches; no call waits
// for it.
type auditWriter struct {
	b     *Broker
	woken chan struct{} // there is something to write; holds at most one

	writing chan struct{} // holds one while no flush is under way: events stay in order

	mu     sync.Mutex
	notes  map[core.Partition][]core.Event
	count  int
	missed int // events dropped since the last report
}

func newAuditWriter(b *Broker) *auditWriter {
	a := &auditWriter{b: b, woken: make(chan struct{}, 1), writing: make(chan struct{}, 1), notes: map[core.Partition][]core.Event{}}
	a.writing <- struct{}{}
	return a
}

// add queues events for the history of a partition.
func (a *auditWriter) add(p core.Partition, events ...core.Event) {
	if len(events) == 0 {
		return
	}
	for i := range events {
		events[i].Gateway = a.b.options.Gateway
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if room := maxNotes - a.count; len(events) > room {
		a.missed += len(events) - room
		events = events[:room]
	}
	a.notes[p] = append(a.notes[p], events...)
	a.count += len(events)
	select {
	case a.woken <- struct{}{}:
	default:
	}
}

// run writes until ctx ends.
func (a *auditWriter) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.woken:
		}
		select {
		case <-ctx.Done():
		case <-time.After(noteDelay):
		}
		a.flush(ctx)
	}
}

// flush writes the queued events within noteTimeout, even if ctx ends. Events that cannot be
// written are dropped.
func (a *auditWriter) flush(ctx context.Context) {
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
	inParallel(len(partitions), func(i int) { errs[i] = a.b.store.Annotate(call, partitions[i], notes[partitions[i]]) })
	var failure error
	for i, err := range errs {
		if err != nil {
			failure, missed = err, missed+len(notes[partitions[i]])
		}
	}
	if missed > 0 {
		a.b.log.Warn("histories are incomplete: some events were dropped", "events", missed, "err", failure)
	}
}

// hasHistory reports whether the entity's messages have a history.
func (e *entry) hasHistory() bool { return e.history }

// party is the client that uses an entity, if the entity has a history.
func (e *entry) party(ctx context.Context, id core.Identity, right core.Right) core.Party {
	if !e.hasHistory() {
		return core.Party{}
	}
	return partyOf(ctx, id, right, e.current.Load())
}

func partyOf(ctx context.Context, id core.Identity, right core.Right, v *view) core.Party {
	return core.Party{Policy: id.Voucher(right, v.Name, time.Now()), Peer: core.PeerOf(ctx)}
}

// auditContext says on whose behalf messages come to an entity, and collects what the broker finds
// out about them.
type auditContext struct {
	by   core.Party
	from string // the entity that they were forwarded from; "" for a sender

	mu      sync.Mutex
	matched map[*core.Message][]core.Event // by message: what rules made of it
}

type auditContextKey struct{}

// withAudit returns a context under which events are noted for a party, or for the entity from.
func (e *entry) withAudit(ctx context.Context, by core.Party, from string) context.Context {
	if !e.hasHistory() {
		return ctx
	}
	return context.WithValue(ctx, auditContextKey{}, &auditContext{by: by, from: from, matched: map[*core.Message][]core.Event{}})
}

// auditOf is the auditContext of a context; nil without a history.
func (e *entry) auditOf(ctx context.Context) *auditContext {
	if !e.hasHistory() {
		return nil
	}
	x, _ := ctx.Value(auditContextKey{}).(*auditContext)
	return x
}

// match keeps the events of a message's rules.
func (x *auditContext) match(m *core.Message, events []core.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.matched[m] = events
}

// matches returns what match has kept.
func (x *auditContext) matches(m *core.Message) []core.Event {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.matched[m]
}

// noteArrivals notes which client sent messages that were stored under these numbers, or dropped as
// duplicates, and which rules they matched.
func (e *entry) noteArrivals(ctx context.Context, p core.Partition, ms []*core.Message, numbers []int64) {
	x := e.auditOf(ctx)
	if x == nil {
		return
	}
	now := e.b.store.Now()
	var events []core.Event
	for i, m := range ms {
		kind := core.EventAccepted
		switch {
		case numbers[i] != 0:
		case keyless(m) != m: // a repeated move
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
	e.b.audit.add(p, events...)
}

// at sets the time and the number of events.
func at(now time.Time, number int64, events []core.Event) []core.Event {
	for i := range events {
		events[i].Time, events[i].Number = now, number
	}
	return events
}

// settledAs are the events of outcomes.
var settledAs = [...]core.EventKind{
	core.Complete: core.EventCompleted, core.Abandon: core.EventAbandoned, core.Defer: core.EventDeferred,
	core.DeadLetterOutcome: core.EventDeadLettered, core.Release: core.EventReleased,
}

// noteSettled notes which client settled messages.
func (e *entry) noteSettled(sub core.SubQueue, settlements []core.Settlement, errs []error, by core.Party) {
	if !e.hasHistory() {
		return
	}
	v, now := e.current.Load(), e.b.store.Now()
	for i := range settlements {
		s := &settlements[i]
		if errs[i] != nil {
			continue
		}
		x := core.Event{
			Time: now, Kind: settledAs[s.Outcome], Sub: sub, Number: s.Token.SequenceNumber(), Note: core.Note{By: by},
		}
		if s.Outcome == core.DeadLetterOutcome {
			x.Reason = reasonOf(s.Properties)
		}
		e.b.audit.add(v.partitions[sub][s.Token.Partition()], x)
	}
}

// reasonOf is why a message was dead-lettered, by its properties.
func reasonOf(p core.Properties) string {
	reason, _ := p.Get(core.PropertyDeadLetterReason)
	text, _ := reason.(string)
	return truncate(text, maxReason)
}

// noteDelivered notes which client received messages.
func (e *entry) noteDelivered(sub core.SubQueue, ds []core.Delivery, by core.Party) {
	if !e.hasHistory() {
		return
	}
	v, now := e.current.Load(), e.b.store.Now()
	for i := range ds {
		d := &ds[i]
		partition, _ := core.SplitSequenceNumber(d.SequenceNumber)
		x := core.Event{
			Time: now, Kind: core.EventDelivered, Sub: sub, Number: d.SequenceNumber, MessageID: d.MessageID,
			Count: d.DeliveryCount, Until: d.LockedUntil, Note: core.Note{By: by},
		}
		e.b.audit.add(v.partitions[sub][partition], x)
	}
}

// noteCancelled notes which client cancelled scheduled messages.
func (e *entry) noteCancelled(sub core.SubQueue, numbers []int64, by core.Party) {
	if !e.hasHistory() {
		return
	}
	v, now := e.current.Load(), e.b.store.Now()
	for _, n := range numbers {
		x := core.Event{Time: now, Kind: core.EventCancelled, Sub: sub, Number: n, Note: core.Note{By: by}}
		e.b.audit.add(v.partitions[sub][partitionOfNumber(&n)], x)
	}
}

// noteWork notes the events of work that was committed.
func (e *entry) noteWork(ctx context.Context, v *view, p core.Partition, w *core.Work, numbers []int64) {
	x := e.auditOf(ctx)
	if x == nil {
		return
	}
	e.noteSettled(p.Sub, w.Settlements, make([]error, len(w.Settlements)), x.by)
	e.noteCancelled(p.Sub, w.Cancels, x.by)
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
	scheduled, theirs := scheduledBy(w)
	e.noteArrivals(ctx, v.partitions[core.Main][p.Index], append(ms, scheduled...), append(given, theirs...))
}

// noteResults notes what stages did with messages, once that is stored.
func (e *entry) noteResults(ctx context.Context, p core.Partition, l groupResult) {
	x := e.auditOf(ctx)
	if x == nil {
		return
	}
	for i := range l {
		for _, did := range l[i].events {
			did.MessageID, did.By = l[i].m.MessageID, x.by
			e.b.audit.add(p, did)
		}
	}
}

// noteMove notes where a forwarder has moved a message, or why it could not.
func (fb *forwardBatch) noteMove(i int) {
	if !fb.e.hasHistory() {
		return
	}
	s, where := &fb.settlements[i], &fb.stored[i]
	x := core.Event{
		Time: fb.e.b.store.Now(), Kind: core.EventForwarded, Sub: fb.p.Sub, Number: s.Token.SequenceNumber(),
		Reason: reasonOf(s.Properties), Note: core.Note{Entity: where.to},
	}
	if where.to == "" {
		x.Kind = settledAs[s.Outcome]
	}
	fb.e.b.audit.add(fb.v.partitions[fb.p.Sub][fb.p.Index], x)
}
