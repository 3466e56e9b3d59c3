package forward

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/audit"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pipeline"
)

const (
	ReasonNoDestination = "MessagingEntityNotFound"
	ReasonTooLarge      = "MessageSizeExceeded"
	ReasonDisabled      = "MessagingEntityDisabled"
	ReasonFull          = "QuotaExceeded"
	reasonUnsuitable    = "ForwardingFailed"
)

var (
	errNoVerdict   = &entity.NoVerdict{Refusal: core.Refuse(core.Busy, "The pipeline of the destination has not decided about the message yet. Try again.")}
	errTooManyHops = core.Refuse(core.QuotaExceeded, core.DescriptionMaxHops)
)

// forwardBatch moves a batch of messages out of a partition. If the gateway dies, another one
// repeats the steps; the destination knows the moves' keys, and so stores nothing twice.
type forwardBatch struct {
	pf      *partitionForwarder
	e       Entity
	v       *entity.View
	p       core.Partition
	ds      []core.Delivery
	dests   map[string]resolved
	batches []*batch
	byDest  map[destination]*batch
	route   route

	returned []core.Delivery

	mu          sync.Mutex // guards the fields below, because batches are delivered in parallel
	locked      time.Time  // a time at or before the start (or last renewal) of the source's locks
	settlements []core.Settlement
	stored      []stored
	rejected    []int
	reasons     []error
}

type resolved struct {
	e   Entity
	v   *entity.View
	err error
}

type batch struct {
	to destination
	v  *entity.View // nil if the destination is at a remote
	ms []*core.Message
	at []int
}

// stored says where a message went. key is the Transit.Key that p must forget afterwards, or "".
type stored struct {
	p   core.Partition
	key string
	to  string // the destination's name; "" if the message was not moved
}

func (pf *partitionForwarder) forward(ctx context.Context, e Entity, p core.Partition, ds []core.Delivery, locked time.Time) (moved int) {
	fb := &forwardBatch{pf: pf, e: e, v: e.View(), p: p, ds: ds, locked: locked, dests: map[string]resolved{}, byDest: map[destination]*batch{}}
	fb.route = route{
		p: p, key: e.Key(), name: fb.v.Name, to: pf.parent.to, waits: pf.parent.set.Wait || p.Sub == core.DeadLetter, remotes: pf.parent.set.remotes,
		resolve: func(name string) resolved { return fb.resolve(ctx, name) },
		blocked: func(to destination) bool { _, blocked := pf.blocked[to]; return blocked },
	}
	for i := range ds {
		fb.assign(i)
	}
	if fb.isTooLate() {
		for _, b := range fb.batches {
			for _, i := range b.at {
				fb.holdBack(i, b.to)
			}
		}
		fb.batches = nil
	}
	var wg sync.WaitGroup
	var toRemotes []*batch
	for _, b := range fb.batches {
		if b.to.remote != "" {
			toRemotes = append(toRemotes, b)
			continue
		}
		wg.Go(func() { fb.deliver(ctx, b) })
	}
	if len(toRemotes) > 0 {
		fb.sendAll(ctx, toRemotes)
	}
	wg.Wait()
	fb.deadLetterRejected(ctx)
	pf.releaseUntried(ctx, p, fb.returned)
	return fb.finish(ctx)
}

// isTooLate reports whether the locks may end during a call that stores messages. See CallTimeout.
func (fb *forwardBatch) isTooLate() bool {
	fb.mu.Lock()
	defer fb.mu.Unlock()
	return time.Since(fb.locked) > forwardLock/2
}

func (fb *forwardBatch) assign(i int) {
	st := fb.route.next(&fb.ds[i])
	switch {
	case st.rejected != nil:
		fb.reject(i, st.rejected)
	case st.held:
		fb.holdBack(i, st.to)
	default:
		b := fb.byDest[st.to]
		if b == nil {
			b = &batch{to: st.to, v: st.v}
			fb.byDest[st.to] = b
			fb.batches = append(fb.batches, b)
		}
		b.ms, b.at = append(b.ms, st.message), append(b.at, i)
	}
}

func (fb *forwardBatch) resolve(ctx context.Context, name string) resolved {
	if r, ok := fb.dests[name]; ok {
		return r
	}
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	var r resolved
	s := fb.pf.parent.set
	e, err := s.Entity(call, name)
	if err == nil && !e.View().Settings.Status.CanSend() {
		e, err = s.Read(call, name) // the cached status may be outdated, and must not cause a dead letter
	}
	switch {
	case name == "":
		r.err = core.Refuse(core.NotFound, "The message that waits to be forwarded has no destination.")
	case err != nil:
		r.err = err
	default:
		if v := e.View(); v.Kind == core.Subscription {
			r.err = core.Refuse(core.InvalidArgument, "'%s' is a subscription, which receives messages only from its topic.", v.Name)
		} else {
			r.e, r.v = e, v
		}
	}
	fb.dests[name] = r
	return r
}

func (fb *forwardBatch) deliver(ctx context.Context, b *batch) {
	b.to.e.Use()
	trail := b.to.e.Audit().Begin(core.Party{}, fb.v.Name+fb.p.Sub.Suffix())
	answers := fb.store(ctx, trail, b)
	fb.mu.Lock()
	defer fb.mu.Unlock()
	for i, a := range answers {
		at := b.at[i]
		switch {
		case a.Err == nil:
			fb.settle(at, core.Settlement{}, stored{b.v.Queues[core.Main][b.to.partition], b.ms[i].Transit.Key, b.v.Name})
		case entity.LacksVerdict(a.Err):
			fb.pf.holdBack(&fb.ds[at], b.to)
			if soon := time.Now().Add(maxVerdictHold); soon.Before(fb.pf.retryAt) && soon.After(fb.pf.doubtUntil) {
				fb.pf.retryAt = soon
			}
		case core.CodeOf(a.Err) == core.QuotaExceeded && !fb.route.waits && !fb.route.returns(b.to.e.Key()):
			// The destination is full. Other messages wait: those from the destination's own
			// transfer queue, dead letters, and all if the broker is configured to wait.
			fb.reject(at, a.Err)
		case core.CodeOf(a.Err) == core.NotFound || !IsPermanent(a.Err): // the next resolve will show whether the entity was deleted
			fb.pf.holdBackAfter(a.Err, &fb.ds[at], b.to)
		default:
			fb.reject(at, a.Err)
		}
	}
}

// store stores a batch after it has passed the destination's pipeline. Every result has the key of
// its move, so a repeated step stores nothing twice, even if the verdict has changed. A message
// without a verdict stays at the source, with all messages after it, which must not overtake it.
func (fb *forwardBatch) store(ctx context.Context, trail *audit.Trail, b *batch) []core.Appended {
	e := b.to.e
	groups := make([][]*core.Message, len(b.ms))
	for i := range groups {
		groups[i] = b.ms[i : i+1 : i+1]
	}
	judging, cancel := context.WithTimeout(ctx, CallTimeout)
	judged := e.Judge(judging, b.v, groups)
	cancel()
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	if judged == nil {
		return e.Append(call, trail, b.v, b.to.partition, groups)
	}
	answers := make([]core.Appended, len(groups))
	var decided [][]*core.Message
	var results []pipeline.Result
	var at []int
	late, waiting := fb.isTooLate(), false
	for i, r := range judged {
		waiting = waiting || r[0].State == pipeline.Parked || r[0].State == pipeline.Refused
		switch {
		case late || waiting && r[0].State != pipeline.Gone:
			answers[i].Err = errNoVerdict
		default:
			decided, results, at = append(decided, groups[i]), append(results, r), append(at, i)
		}
	}
	for i, a := range e.StoreResults(call, trail, b.v, b.to.partition, decided, results) {
		answers[at[i]] = a
	}
	return answers
}

func (fb *forwardBatch) settle(i int, s core.Settlement, where stored) {
	s.Token = fb.ds[i].LockToken
	fb.settlements = append(fb.settlements, s)
	fb.stored = append(fb.stored, where)
}

// finish settles the messages at the source, and returns how many have left it. Then it makes the
// destinations forget the keys of their moves.
func (fb *forwardBatch) finish(ctx context.Context) (ended int) {
	if len(fb.settlements) == 0 {
		return 0
	}
	s := fb.pf.parent.set
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	forget := map[core.Ref][]string{}
	where := map[core.Ref]core.Partition{}
	for i, err := range fb.p.Settle(call, fb.settlements) {
		if err != nil { // the move will be repeated, and its key prevents a second copy
			continue
		}
		ended++
		fb.e.Audit().Moved(fb.v.Queues[fb.p.Sub][fb.p.Index], &fb.settlements[i], fb.stored[i].to)
		if s := fb.stored[i]; s.key != "" {
			forget[s.p.Ref] = append(forget[s.p.Ref], s.key)
			where[s.p.Ref] = s.p
		}
	}
	for ref, keys := range forget {
		if err := where[ref].Forget(call, keys); err != nil && core.CodeOf(err) != core.NotFound {
			s.Log.Debug("cannot remove the deduplication keys of completed moves: they expire later", "entity", fb.v.Name, "err", err)
		}
	}
	if ended > 0 {
		fb.e.Use()
	}
	return ended
}

func (pf *partitionForwarder) publishDue(ctx context.Context, e Entity, p core.Partition, ds []core.Delivery) (moved int) {
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	answers := e.PublishDue(call, p, ds)
	for i, a := range answers {
		switch {
		case a.Err == nil:
			moved++
		case core.CodeOf(a.Err) == core.LockLost: // another gateway has published it
		default:
			pf.holdBack(&ds[i], destination{})
		}
	}
	return moved
}

func (fb *forwardBatch) reject(i int, err error) {
	fb.rejected = append(fb.rejected, i)
	fb.reasons = append(fb.reasons, err)
}

// A message of the main queue that was forwarded too often goes to the entity's dead-letter queue,
// any other rejected message to the transfer dead-letter queue.
func (fb *forwardBatch) deadLetterRejected(ctx context.Context) {
	transferDeadLetters := fb.v.Queues[core.TransferDeadLetter][fb.p.Index]
	var groups [][]*core.Message
	var at []int
	for n, i := range fb.rejected {
		d := &fb.ds[i]
		why := deadLetterReason(d, fb.reasons[n])
		if fb.p.Sub == core.Transfer || fb.p.Sub == core.Main && errors.Is(fb.reasons[n], errTooManyHops) {
			fb.settle(i, core.Settlement{Outcome: core.DeadLetterOutcome, Properties: why}, stored{})
			continue
		}
		m := *d.Message
		m.Properties = m.Properties.Merge(why)
		transit := core.Transit{EnqueuedSequenceNumber: d.EnqueuedSequenceNumber, DeadLetterSource: d.DeadLetterSource, Key: fb.route.moveKey(d)}
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
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	for n, a := range transferDeadLetters.Append(call, groups) {
		if a.Err != nil {
			fb.pf.holdBackAfter(a.Err, &fb.ds[at[n]], destination{})
			continue
		}
		fb.settle(at[n], core.Settlement{}, stored{p: transferDeadLetters, key: groups[n][0].Transit.Key})
	}
}

var reasons = map[core.Code]string{
	core.NotFound: ReasonNoDestination, core.TooLarge: ReasonTooLarge, core.EntityDisabled: ReasonDisabled, core.QuotaExceeded: ReasonFull,
}

// If the message had already been a dead letter, the properties also have its former reason.
func deadLetterReason(d *core.Delivery, err error) core.Properties {
	reason, text := reasonUnsuitable, core.TextOf(err)
	switch {
	case errors.Is(err, errTooManyHops):
		reason = core.ReasonMaxHops
	case errors.Is(err, entity.ErrNoSessionID):
		reason, text = core.ReasonNoSession, core.DescriptionNoSession
	default:
		reason = cmp.Or(reasons[core.CodeOf(err)], reason)
	}
	if before, ok := d.Properties.Get(core.PropertyDeadLetterReason); ok {
		if s, ok := before.(string); ok {
			text += " It was dead-lettered before: " + s
		}
	}
	return core.ReasonProperties(reason, text)
}

func IsPermanent(err error) bool {
	switch core.CodeOf(err) {
	case core.NotFound, core.NotAllowed, core.InvalidArgument, core.OutOfRange, core.TooLarge:
		return true
	default:
		return false
	}
}
