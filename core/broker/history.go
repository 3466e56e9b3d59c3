package broker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// History says which entities remember what happens to their messages. It is
// configuration: all gateways of a namespace should have the same.
type History struct {
	// Entity is the name of a queue or topic, or a pattern as in a Pipeline. A
	// topic's subscriptions remember as the topic does.
	Entity string
	Keep   time.Duration // how long
	Max    int           // events of a queue, a topic or a subscription, in all its partitions
}

const (
	// noteDelay is how long events gather before they are written.
	noteDelay = 50 * time.Millisecond
	// maxNotes is how many events wait to be written, at most: more are forgotten.
	maxNotes = 50_000
	// maxReason is how many characters of a reason are remembered.
	maxReason = 200
	// noteTimeout bounds the writing of those that have gathered.
	noteTimeout = 5 * time.Second
)

// bounds are those of the first History that is for the entity.
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

// annals write to histories what only the broker knows, in batches that nobody
// waits for.
type annals struct {
	b    *Broker
	wake chan struct{} // there is something to write; holds at most one

	writing chan struct{} // holds one while nobody writes: events stay in order

	mu     sync.Mutex
	notes  map[core.Partition][]core.Event
	count  int
	missed int // events that were forgotten since the last report
}

func newAnnals(b *Broker) *annals {
	a := &annals{b: b, wake: make(chan struct{}, 1), writing: make(chan struct{}, 1), notes: map[core.Partition][]core.Event{}}
	a.writing <- struct{}{}
	return a
}

// add has events written to the history of a partition.
func (a *annals) add(p core.Partition, events ...core.Event) {
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
	case a.wake <- struct{}{}:
	default:
	}
}

// run writes until ctx ends.
func (a *annals) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		}
		select {
		case <-ctx.Done():
		case <-time.After(noteDelay):
		}
		a.flush(ctx)
	}
}

// flush writes what has been added so far, within noteTimeout, whatever becomes of
// ctx. What cannot be written is forgotten.
func (a *annals) flush(ctx context.Context) {
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
		a.b.log.Warn("histories are incomplete: who asked for some of what happened is forgotten", "events", missed, "err", failure)
	}
}

// remembers reports whether what happens to the entity's messages is remembered.
func (e *entry) remembers() bool { return e.history }

// party is who uses an entity, where that is remembered.
func (e *entry) party(ctx context.Context, id core.Identity, right core.Right) core.Party {
	if !e.remembers() {
		return core.Party{}
	}
	return partyOf(ctx, id, right, e.current.Load())
}

func partyOf(ctx context.Context, id core.Identity, right core.Right, v *view) core.Party {
	return core.Party{Policy: id.Voucher(right, v.Name, time.Now()), Peer: core.PeerOf(ctx)}
}

// errand is on whose behalf messages come to an entity, and what the broker finds
// out about them on the way.
type errand struct {
	by   core.Party
	from string // the entity that they were forwarded from, "" from a sender

	mu      sync.Mutex
	matched map[*core.Message][]core.Event // what rules made of them
}

type errandKey struct{}

// sent has what is done under the context remembered as that of a party, or of
// the entity from.
func (e *entry) sent(ctx context.Context, by core.Party, from string) context.Context {
	if !e.remembers() {
		return ctx
	}
	return context.WithValue(ctx, errandKey{}, &errand{by: by, from: from, matched: map[*core.Message][]core.Event{}})
}

// errandOf is that of a context, nil where nothing is remembered.
func (e *entry) errandOf(ctx context.Context) *errand {
	if !e.remembers() {
		return nil
	}
	x, _ := ctx.Value(errandKey{}).(*errand)
	return x
}

// match keeps what the rules of an audience made of a message.
func (x *errand) match(m *core.Message, events []core.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.matched[m] = events
}

// matches are the events that match has kept.
func (x *errand) matches(m *core.Message) []core.Event {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.matched[m]
}

// noteArrivals remembers who sent messages that were stored under these numbers,
// or dropped as duplicates, and which rules they matched.
func (e *entry) noteArrivals(ctx context.Context, p core.Partition, ms []*core.Message, numbers []int64) {
	x := e.errandOf(ctx)
	if x == nil {
		return
	}
	now := e.b.store.Now()
	var events []core.Event
	for i, m := range ms {
		kind := core.EventAccepted
		switch {
		case numbers[i] != 0:
		case keyless(m) != m: // a move that is repeated
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
	e.b.annals.add(p, events...)
}

// at sets when events happened, and to which message.
func at(now time.Time, number int64, events []core.Event) []core.Event {
	for i := range events {
		events[i].Time, events[i].Number = now, number
	}
	return events
}

// settledAs are the events that outcomes make.
var settledAs = [...]core.EventKind{
	core.Complete: core.EventCompleted, core.Abandon: core.EventAbandoned, core.Defer: core.EventDeferred,
	core.DeadLetterOutcome: core.EventDeadLettered, core.Release: core.EventReleased,
}

// noteSettled remembers who settled messages.
func (e *entry) noteSettled(sub core.SubQueue, settlements []core.Settlement, errs []error, by core.Party) {
	if !e.remembers() {
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
		e.b.annals.add(v.partitions[sub][s.Token.Partition()], x)
	}
}

// reasonOf is why a message was dead-lettered, by its properties.
func reasonOf(p core.Properties) string {
	reason, _ := p.Get(core.PropertyDeadLetterReason)
	text, _ := reason.(string)
	return truncate(text, maxReason)
}

// noteDelivered remembers who got messages.
func (e *entry) noteDelivered(sub core.SubQueue, ds []core.Delivery, by core.Party) {
	if !e.remembers() {
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
		e.b.annals.add(v.partitions[sub][partition], x)
	}
}

// noteCancelled remembers who cancelled scheduled messages.
func (e *entry) noteCancelled(sub core.SubQueue, numbers []int64, by core.Party) {
	if !e.remembers() {
		return
	}
	v, now := e.current.Load(), e.b.store.Now()
	for _, n := range numbers {
		x := core.Event{Time: now, Kind: core.EventCancelled, Sub: sub, Number: n, Note: core.Note{By: by}}
		e.b.annals.add(v.partitions[sub][partitionOfNumber(&n)], x)
	}
}

// noteWork remembers who had work done that was carried out.
func (e *entry) noteWork(ctx context.Context, v *view, p core.Partition, w *core.Work, numbers []int64) {
	x := e.errandOf(ctx)
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

// notePassage remembers what stages did with messages, once that is stored.
func (e *entry) notePassage(ctx context.Context, p core.Partition, l load) {
	x := e.errandOf(ctx)
	if x == nil {
		return
	}
	for i := range l {
		for _, did := range l[i].did {
			did.MessageID, did.By = l[i].m.MessageID, x.by
			e.b.annals.add(p, did)
		}
	}
}

// noteMove remembers where a forwarder has brought a message, or why it could not.
func (h *forwardBatch) noteMove(i int) {
	if !h.e.remembers() {
		return
	}
	s, where := &h.settlements[i], &h.stored[i]
	x := core.Event{
		Time: h.e.b.store.Now(), Kind: core.EventForwarded, Sub: h.p.Sub, Number: s.Token.SequenceNumber(),
		Reason: reasonOf(s.Properties), Note: core.Note{Entity: where.to},
	}
	if where.to == "" {
		x.Kind = settledAs[s.Outcome]
	}
	h.e.b.annals.add(h.v.partitions[h.p.Sub][h.p.Index], x)
}
