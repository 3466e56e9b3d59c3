package broker

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/rules"
)

// Reasons of transfer dead letters, beside those that core names.
const (
	reasonNoDestination = "MessagingEntityNotFound"
	reasonTooLarge      = "MessageSizeExceeded"
	reasonDisabled      = "MessagingEntityDisabled"
	reasonFull          = "QuotaExceeded"
	reasonUnsuitable    = "ForwardingFailed"
)

var (
	// errNoVerdict stands for the want of a verdict at the destination.
	errNoVerdict = &noVerdict{core.Refuse(core.Busy, "The message has not been judged."), Refuse}
	// errTooFar says that a message has been forwarded too often.
	errTooFar = core.Refuse(core.QuotaExceeded, core.DescriptionMaxHops)
)

// haul is a batch of messages on its way from a lane's partition. A crash at any
// point of it repeats a step: what was stored at the destination is known there
// by its key until the source has been settled.
type haul struct {
	l      *lane
	e      *entry // the source
	v      *view
	p      core.Partition
	ds     []core.Delivery
	dests  map[string]resolved
	piles  []*heap
	byDest map[berth]*heap

	consignments []*consignment
	back         []int // deliveries that a remote did not take

	mu          sync.Mutex // for what piles find at the same time
	locked      time.Time  // when the source's locks began or were renewed, or before
	settlements []core.Settlement
	stored      []stored // by settlement: what to forget when it went well
	lost        []int    // deliveries to bury, and
	why         []error  // why
}

// resolved is a destination, or why there is none.
type resolved struct {
	e   *entry
	v   *view
	err error
}

// heap is the messages of a haul that go to one partition.
type heap struct {
	to     berth
	v      *view
	groups [][]*core.Message
	at     []int // their places in the haul
}

// stored is where a message was stored under a key; none if the key is "".
type stored struct {
	p   core.Partition
	key string
	to  string // the entity; "" where it could not be moved
}

// forward moves locked messages to their destinations and returns how many have
// left the source.
func (l *lane) forward(ctx context.Context, e *entry, p core.Partition, ds []core.Delivery, locked time.Time) (moved int) {
	h := &haul{l: l, e: e, v: e.current.Load(), p: p, ds: ds, locked: locked, dests: map[string]resolved{}, byDest: map[berth]*heap{}}
	for i := range ds {
		h.sort(ctx, i)
	}
	if h.isLate() {
		for _, pile := range h.piles {
			h.park(pile, pile.at)
		}
		for _, c := range h.consignments {
			for _, i := range c.at {
				h.delay(i, c.berth())
			}
		}
		h.piles, h.consignments = nil, nil
	}
	var wg sync.WaitGroup
	for _, pile := range h.piles {
		wg.Go(func() { h.deliver(ctx, pile) })
	}
	if len(h.consignments) > 0 {
		h.shipAll(ctx)
	}
	wg.Wait()
	h.bury(ctx)
	h.giveUp(ctx)
	return h.finish(ctx)
}

// isLate reports whether it is too late to store anything: see pumpCall.
func (h *haul) isLate() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Since(h.locked) > pumpLock/2
}

// sort finds out where a message goes.
func (h *haul) sort(ctx context.Context, i int) {
	d := &h.ds[i]
	to, hops := h.l.p.to, uint8(0)
	if d.Transit != nil {
		hops = d.Transit.Hops
		if to == "" {
			to = d.Transit.Destination
		}
	}
	if remote, entity, ok := core.SplitRemote(to); ok {
		h.assign(i, remote, entity)
		return
	}
	returns := h.p.Sub == core.Transfer && core.FoldName(to) == h.e.key // it was parked, and goes nowhere else
	if !returns {
		hops++
	}
	if hops > core.MaxHops {
		h.lose(i, errTooFar)
		return
	}
	dest := h.resolve(ctx, to)
	switch {
	case dest.e != nil:
	case isHopeless(dest.err):
		h.lose(i, dest.err)
		return
	default:
		h.l.keep(d, berth{})
		return
	}
	m := h.forwarded(d, hops)
	if returns {
		m.Transit.EnqueuedSequenceNumber = d.Transit.EnqueuedSequenceNumber // the transfer queue's is nobody's concern
	}
	if err := dest.v.admit(m); err != nil {
		h.lose(i, err)
		return
	}
	key := keyOf(m, dest.v.Settings.RequiresDuplicateDetection)
	if key == "" {
		key = m.Transit.Key // a repeated step must find the same partition
	}
	berth := berth{e: dest.e, partition: core.PartitionOf(key, len(dest.v.partitions[core.Main]))}
	if !dest.v.Settings.Status.CanSend() {
		h.turnedAway(i, berth, disabled(dest.v.Name))
		return
	}
	if _, blocked := h.l.blocked[berth]; blocked {
		h.l.keep(d, berth)
		return
	}
	pile := h.byDest[berth]
	if pile == nil {
		pile = &heap{to: berth, v: dest.v}
		h.byDest[berth] = pile
		h.piles = append(h.piles, pile)
	}
	pile.groups = append(pile.groups, []*core.Message{m})
	pile.at = append(pile.at, i)
}

// resolve finds a destination.
func (h *haul) resolve(ctx context.Context, name string) resolved {
	if r, ok := h.dests[name]; ok {
		return r
	}
	call, cancel := context.WithTimeout(ctx, pumpCall)
	defer cancel()
	var r resolved
	b := h.l.p.set.b
	e, err := b.entity(call, name)
	if err == nil && !e.current.Load().Settings.Status.CanSend() {
		e, err = b.load(call, name) // what is known may be old, and decides about dead letters
	}
	switch {
	case name == "":
		r.err = core.Refuse(core.NotFound, "The message has no destination.")
	case err != nil:
		r.err = err
	default:
		if v := e.current.Load(); v.Kind == core.Subscription {
			r.err = core.Refuse(core.InvalidArgument, "'%s' is a subscription, which takes no messages but its topic's.", v.Name)
		} else {
			r.e, r.v = e, v
		}
	}
	h.dests[name] = r
	return r
}

// forwarded is the message as its destination gets it.
func (h *haul) forwarded(d *core.Delivery, hops uint8) *core.Message {
	m := *d.Message
	m.Transit = &core.Transit{
		EnqueuedSequenceNumber: d.EnqueuedSequenceNumber,
		DeadLetterSource:       d.DeadLetterSource,
		Hops:                   hops,
		Key:                    h.key(d),
	}
	if h.p.Sub == core.DeadLetter {
		m.Transit.DeadLetterSource = h.v.Name
	}
	return &m
}

// key tells this move from all others: a number is never given again.
func (h *haul) key(d *core.Delivery) string {
	_, n := core.SplitSequenceNumber(d.SequenceNumber)
	b := make([]byte, 0, 64)
	b = append(b, h.p.Entity...)
	b = append(b, '/')
	b = append(b, h.p.Subscription...)
	b = append(b, '/')
	b = strconv.AppendUint(b, uint64(h.p.Index), 10)
	b = append(b, '/')
	b = strconv.AppendUint(b, uint64(h.p.Sub), 10)
	b = append(b, '/')
	return string(strconv.AppendInt(b, n, 10))
}

// deliver stores a pile at its destination.
func (h *haul) deliver(ctx context.Context, pile *heap) {
	pile.to.e.use()
	ctx = pile.to.e.sent(ctx, core.Party{}, h.v.Name+h.p.Sub.Suffix())
	var answers []core.Appended
	if pile.to.e.pipe == nil {
		call, cancel := context.WithTimeout(ctx, pumpCall)
		defer cancel()
		answers = pile.to.e.appendTo(call, pile.v, pile.to.partition, pile.groups)
	} else {
		answers = h.deliverThrough(ctx, pile)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, a := range answers {
		at := pile.at[i]
		switch {
		case a.Err == nil:
			h.settle(at, core.Settlement{}, stored{pile.v.partitions[core.Main][pile.to.partition], pile.groups[i][0].Transit.Key, pile.v.Name})
		case lacksVerdict(a.Err):
			h.l.keep(&h.ds[at], pile.to)
			h.l.until = earlier(h.l.until, time.Now().Add(verdictHold))
		case core.CodeOf(a.Err) == core.QuotaExceeded:
			h.turnedAway(at, pile.to, a.Err)
		case core.CodeOf(a.Err) == core.NotFound || !isHopeless(a.Err): // what is gone will not be found the next time
			h.l.keep(&h.ds[at], pile.to)
		default:
			h.lose(at, a.Err)
		}
	}
}

// deliverThrough has the destination's stages judge a pile and stores what they
// leave of it. What comes of a message is stored with the key of its move: should
// the step be repeated nothing of it is, whatever the verdict is then. Where there
// is no verdict a message stays at the source, with those that would overtake it.
func (h *haul) deliverThrough(ctx context.Context, pile *heap) []core.Appended {
	e := pile.to.e
	judging, cancel := context.WithTimeout(ctx, pumpCall)
	p := newPassage(e, pile.v, pile.groups)
	p.pass(judging)
	cancel()
	answers := make([]core.Appended, len(pile.groups))
	var groups [][]*core.Message
	var loads []load
	var at []int
	late, waiting := h.isLate(), false
	for i, l := range p.loads(pile.groups) {
		waiting = waiting || l[0].fate == parked || l[0].fate == refused
		switch {
		case late || waiting && l[0].fate != gone:
			answers[i].Err = errNoVerdict
		default:
			groups, loads, at = append(groups, pile.groups[i]), append(loads, l), append(at, i)
		}
	}
	call, cancel := context.WithTimeout(ctx, pumpCall)
	defer cancel()
	for i, a := range e.storeLoads(call, pile.v, pile.to.partition, groups, loads) {
		answers[at[i]] = a
	}
	return answers
}

// park holds all of a pile.
func (h *haul) park(pile *heap, at []int) {
	for _, i := range at {
		h.l.keep(&h.ds[i], pile.to)
	}
}

// turnedAway says what becomes of a message whose destination is disabled or
// full. One that was parked is at its destination already, and waits there.
func (h *haul) turnedAway(i int, to berth, err error) {
	if h.l.p.set.b.options.ForwardWait || h.p.Sub == core.Transfer && to.e.key == h.e.key {
		h.l.keep(&h.ds[i], to)
		return
	}
	h.lose(i, err)
}

// settle notes how a message leaves the source.
func (h *haul) settle(i int, s core.Settlement, where stored) {
	s.Token = h.ds[i].LockToken
	h.settlements = append(h.settlements, s)
	h.stored = append(h.stored, where)
}

// lose notes that a message cannot be moved, now or ever.
func (h *haul) lose(i int, err error) {
	h.lost = append(h.lost, i)
	h.why = append(h.why, err)
}

// bury dead-letters what cannot be moved. A chain that is too long ends in the
// dead-letter queue of the entity where it did; what cannot reach its
// destination among the transfer dead letters.
func (h *haul) bury(ctx context.Context) {
	graves := h.v.partitions[core.TransferDeadLetter][h.p.Index]
	var groups [][]*core.Message
	var at []int
	for n, i := range h.lost {
		d := &h.ds[i]
		why := epitaph(d, h.why[n])
		if h.p.Sub == core.Transfer || h.p.Sub == core.Main && errors.Is(h.why[n], errTooFar) {
			h.settle(i, core.Settlement{Outcome: core.DeadLetterOutcome, Properties: why}, stored{})
			continue
		}
		m := *d.Message
		m.Properties = m.Properties.Merge(why)
		transit := core.Transit{EnqueuedSequenceNumber: d.EnqueuedSequenceNumber, DeadLetterSource: d.DeadLetterSource, Key: h.key(d)}
		if d.Transit != nil {
			transit.Hops = d.Transit.Hops
		}
		m.Transit = &transit
		groups = append(groups, []*core.Message{&m})
		at = append(at, i)
	}
	if len(groups) == 0 {
		return
	}
	call, cancel := context.WithTimeout(ctx, pumpCall)
	defer cancel()
	for n, a := range h.l.p.set.b.store.Append(call, graves, groups) {
		if a.Err != nil {
			h.l.keep(&h.ds[at[n]], berth{})
			continue
		}
		h.settle(at[n], core.Settlement{}, stored{p: graves, key: groups[n][0].Transit.Key})
	}
}

// finish settles the source, and has the keys forgotten of the moves that have
// ended there. It returns how many have.
func (h *haul) finish(ctx context.Context) (ended int) {
	if len(h.settlements) == 0 {
		return 0
	}
	b := h.l.p.set.b
	call, cancel := context.WithTimeout(ctx, pumpCall)
	defer cancel()
	forget := map[core.Ref][]string{}
	where := map[core.Ref]core.Partition{}
	for i, err := range b.store.Settle(call, h.p, h.settlements) {
		if err != nil { // somebody repeats the move, and is not to store it again
			continue
		}
		ended++
		h.noteMove(i)
		if s := h.stored[i]; s.key != "" {
			forget[s.p.Ref] = append(forget[s.p.Ref], s.key)
			where[s.p.Ref] = s.p
		}
	}
	for ref, keys := range forget {
		if err := b.store.Forget(call, where[ref], keys); err != nil && core.CodeOf(err) != core.NotFound {
			b.log.Debug("forget moves that have ended: they are after a while", "entity", h.v.Name, "err", err)
		}
	}
	if ended > 0 {
		h.e.use()
	}
	return ended
}

// isHopeless reports whether trying again cannot help.
func isHopeless(err error) bool {
	switch core.CodeOf(err) {
	case core.NotFound, core.NotAllowed, core.InvalidArgument, core.OutOfRange, core.TooLarge:
		return true
	default:
		return false
	}
}

// epitaph says why a message was not moved, and if it was dead-lettered before,
// why that was.
func epitaph(d *core.Delivery, err error) core.Properties {
	reason, text := reasonUnsuitable, core.TextOf(err)
	switch {
	case errors.Is(err, errTooFar):
		reason = core.ReasonMaxHops
	case errors.Is(err, errNoSessionID):
		reason, text = core.ReasonNoSession, core.DescriptionNoSession
	case core.CodeOf(err) == core.NotFound:
		reason = reasonNoDestination
	case core.CodeOf(err) == core.TooLarge:
		reason = reasonTooLarge
	case core.CodeOf(err) == core.EntityDisabled:
		reason = reasonDisabled
	case core.CodeOf(err) == core.QuotaExceeded:
		reason = reasonFull
	}
	if before, ok := d.Properties.Get(core.PropertyDeadLetterReason); ok {
		if s, ok := before.(string); ok {
			text += " It was dead-lettered before: " + s
		}
	}
	return because(reason, text)
}

// publish publishes what has become due on a topic, and returns how many
// messages have left it.
func (l *lane) publish(ctx context.Context, e *entry, p core.Partition, ds []core.Delivery) (moved int) {
	call, cancel := context.WithTimeout(ctx, pumpCall)
	defer cancel()
	v := e.current.Load()
	x := e.errandOf(e.sent(ctx, core.Party{}, ""))
	judged := e.b.store.Now()
	ms := make([]*core.Message, len(ds))
	for i := range ds {
		ms[i] = ds[i].Message
	}
	answers := e.publishAs(call, p, len(ds), func(a *audience, first int) ([][]core.Publication, error) {
		q, err := e.b.inquire(call, v.Name, a.set.Calls(), ms[first:])
		if err != nil {
			return nil, err
		}
		read := e.b.decodingFor(a.set)
		groups := make([][]core.Publication, 0, len(ds)-first)
		for i := first; i < len(ds); i++ {
			d := &ds[i]
			facts := q.facts(read.facts(rules.Facts{
				EnqueuedTime: d.EnqueuedTime, SequenceNumber: d.SequenceNumber, EnqueuedSequenceNumber: d.EnqueuedSequenceNumber,
			}), i-first)
			copies := a.copies(nil, v, p.Index, d.Message, facts)
			if x != nil {
				x.match(d.Message, a.verdicts(copies, d.Message, facts))
			}
			groups = append(groups, []core.Publication{{Message: d.Message, Copies: copies, Source: d.LockToken}})
		}
		if err := read.failure(); err != nil {
			return nil, err
		}
		return groups, nil
	})
	for i, a := range answers {
		switch {
		case a.Err == nil:
			moved++
			if x != nil {
				e.b.annals.add(p, at(judged, ds[i].SequenceNumber, x.matches(ds[i].Message))...)
			}
		case core.CodeOf(a.Err) == core.LockLost: // somebody else published it
		default:
			l.keep(&ds[i], berth{})
		}
	}
	return moved
}
