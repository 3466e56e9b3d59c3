package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
)

const (
	// batchMessages and batchBytes bound a batch. A remote's own limit may be lower.
	batchMessages = 100
	batchBytes    = 200 << 10
	// batchOverhead is the most that a batch adds to the size of a message, in bytes.
	batchOverhead = 16
)

type target struct {
	Target             // Remote.mu guards its counts
	alone  atomic.Bool // messages without a session or partition key are not sent in batches
}

// maxTargets bounds the targets with counts of their own, because a router may name any number of
// entities. All others share the counts of otherTarget.
const (
	maxTargets  = 1000
	otherTarget = "_other"
)

func (r *Remote) target(entity string) *target {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.targets[entity]
	if t == nil && len(r.targets) >= maxTargets {
		entity = otherTarget
		t = r.targets[entity]
	}
	if t == nil {
		t = &target{Target: Target{Entity: entity}}
		r.targets[entity] = t
	}
	return t
}

func (r *Remote) sentTo() (entities []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for entity := range r.targets {
		if entity != otherTarget {
			entities = append(entities, entity)
		}
	}
	return entities
}

func (r *Remote) Send(ctx context.Context, entity string, ms []*core.Message) []error {
	s := sending{r: r, ctx: ctx, entity: entity, t: r.target(entity), answers: make([]error, len(ms))}
	defer s.count()
	l, err := r.current()
	if err == nil {
		s.connection = l
		if s.link, err = l.sender(ctx, entity); err != nil {
			l.suspect(err)
			err = r.away(err)
		}
	}
	n := int64(min(len(ms), r.o.Window))
	if err == nil {
		if err = r.window.Acquire(ctx, n); err != nil {
			err = r.away(err)
		}
	}
	if err != nil {
		s.answers = slices.Repeat([]error{err}, len(ms))
		return s.answers
	}
	defer r.window.Release(n)
	s.encode(ms)
	for chains := s.chains(ms); len(chains) > 0; {
		chains = s.round(chains)
	}
	return s.answers
}

type sending struct {
	r          *Remote
	ctx        context.Context
	entity     string
	t          *target
	connection *connection
	link       *goamqp.Sender

	encoded [][]byte
	answers []error
	broken  error
}

type parcel []int

// chain holds the parcels of one session or partition key, each sent when the previous is accepted.
type chain []parcel

type flight struct {
	parcel  parcel
	receipt goamqp.SendReceipt
	err     error
	left    time.Time
}

func (s *sending) encode(ms []*core.Message) {
	s.encoded = make([][]byte, len(ms))
	limit := s.link.MaxMessageSize()
	for i, m := range ms {
		s.encoded[i] = amqp.AppendMessage(make([]byte, 0, m.Size()+64), m)
		if n := len(s.encoded[i]); limit > 0 && uint64(n) > limit {
			s.answers[i] = core.Refuse(core.TooLarge, "The message would be sent as %d bytes, and the remote '%s' accepts at most %d.", n, s.r.o.Name, limit)
		}
	}
}

func (s *sending) chains(ms []*core.Message) []chain {
	var all []chain
	byKey := map[string]int{}
	most := batchBytes
	if limit := s.link.MaxMessageSize(); limit > 0 {
		most = min(most, int(limit))
	}
	sizes := map[int]int{}
	for i, m := range ms {
		if s.answers[i] != nil {
			continue
		}
		key, size := m.PinKey(), len(s.encoded[i])+batchOverhead
		at, ok := byKey[key]
		joins := ok && s.r.o.Batches && (key != "" || !s.t.alone.Load())
		switch last := len(all) - 1; {
		case joins && len(all[at][len(all[at])-1]) < batchMessages && sizes[at]+size <= most:
			p := &all[at][len(all[at])-1]
			*p = append(*p, i)
			sizes[at] += size
		case ok && key != "":
			all[at] = append(all[at], parcel{i})
			sizes[at] = size
		default:
			all = append(all, chain{{i}})
			byKey[key], sizes[last+1] = last+1, size
		}
	}
	return all
}

func (s *sending) round(chains []chain) []chain {
	flying := make([]flight, 0, len(chains))
	for _, c := range chains {
		flying = append(flying, s.launch(c[0]))
	}
	var left []chain
	for i, c := range chains {
		why := s.land(&flying[i])
		switch {
		case why != nil:
			for _, p := range c[1:] {
				s.note(p, why)
			}
		case len(c) > 1:
			left = append(left, c[1:])
		}
	}
	return left
}

func (s *sending) launch(p parcel) flight {
	f := flight{parcel: p, left: time.Now(), err: s.broken}
	if f.err != nil {
		return f
	}
	m := goamqp.Message{DeliveryTag: amqp.SpliceTag(s.connection.tag.Add(1))}
	if len(p) == 1 {
		m.Data = [][]byte{s.encoded[p[0]]}
	} else {
		m.Format = amqp.FormatBatch
		var all []byte
		for _, i := range p {
			all = amqp.AppendBatched(all, s.encoded[i])
		}
		m.Data = [][]byte{all}
	}
	if f.receipt, f.err = s.link.SendWithReceipt(CreditContext{s.ctx}, &m, nil); f.err != nil {
		f.err = s.breaks(f.err)
		return f
	}
	s.r.count(func() { s.t.UnderWay += int64(len(p)) })
	s.r.flying.Add(int64(len(p)))
	return f
}

func (s *sending) breaks(err error) error {
	if s.broken == nil {
		s.broken = s.r.away(unanswered(s.ctx, err))
		s.connection.drop(s.entity, s.link)
		s.connection.suspect(err)
	}
	return s.broken
}

// land waits for the answer to a parcel. It returns why later parcels must not be sent, or nil.
func (s *sending) land(f *flight) error {
	err := f.err
	if err == nil {
		state, waited := f.receipt.Wait(s.ctx)
		s.r.count(func() { s.t.UnderWay -= int64(len(f.parcel)) })
		alone := s.r.flying.Add(-int64(len(f.parcel))) == 0 && len(s.answers) == 1
		if waited != nil {
			err = s.breaks(waited)
			if blamed := s.r.blame(waited); alone && blamed != nil {
				err = blamed
			}
		} else {
			err = s.r.answer(state)
			s.r.count(func() { s.t.took(time.Since(f.left)) })
		}
	}
	if isHopeless(err) && len(f.parcel) > 1 {
		return s.singly(f.parcel)
	}
	s.note(f.parcel, err)
	if isHopeless(err) {
		return nil
	}
	return err
}

// singly sends the messages of a refused batch one by one, because some may be acceptable.
func (s *sending) singly(p parcel) error {
	taken := true
	for n, i := range p {
		f := s.launch(parcel{i})
		if why := s.land(&f); why != nil {
			s.note(p[n+1:], why)
			return why
		}
		taken = taken && s.answers[i] == nil
	}
	if taken {
		s.t.alone.Store(true) // the remote refused the batch, but accepted each message alone
	}
	return nil
}

func (s *sending) note(p parcel, err error) {
	for _, i := range p {
		s.answers[i] = err
	}
}

func (s *sending) count() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	for _, err := range s.answers {
		switch {
		case err == nil:
			s.t.Sent++
		case isHopeless(err):
			s.t.Parked++
		default:
			s.t.Delayed++
		}
	}
}

func (t *target) took(d time.Duration) {
	const weight = 8
	if t.RoundTrip == 0 {
		t.RoundTrip = d
	}
	t.RoundTrip += (d - t.RoundTrip) / weight
}

// hopeless has the conditions with which a remote refuses a message for ever.
var hopeless = map[goamqp.ErrCond]core.Code{
	goamqp.ErrCondDecodeError:              core.InvalidArgument,
	goamqp.ErrCondInvalidField:             core.InvalidArgument,
	goamqp.ErrCondPreconditionFailed:       core.NotAllowed,
	goamqp.ErrCondNotAllowed:               core.NotAllowed,
	goamqp.ErrCondNotImplemented:           core.NotAllowed,
	goamqp.ErrCondMessageSizeExceeded:      core.TooLarge,
	"com.microsoft:argument-error":         core.InvalidArgument,
	"com.microsoft:argument-out-of-range":  core.OutOfRange,
	"com.microsoft:message-size-exceeded":  core.TooLarge,
	"com.microsoft:entity-already-exists":  core.NotAllowed,
	"com.microsoft:session-id-required":    core.NotAllowed,
	"com.microsoft:invalid-operation":      core.NotAllowed,
	"com.microsoft:content-not-supported":  core.InvalidArgument,
	"com.microsoft:missing-property-error": core.InvalidArgument,
}

// answer returns the error for a message's outcome. A rejection with an unknown reason, or without
// one, counts as temporary: some brokers reject messages when a queue is full.
func (r *Remote) answer(state goamqp.DeliveryState) error {
	switch s := state.(type) {
	case *goamqp.StateAccepted:
		return nil
	case *goamqp.StateRejected:
		if s.Error == nil {
			return core.Refuse(core.Busy, "The remote '%s' rejected the message without a reason.", r.o.Name)
		}
		if code, ok := hopeless[s.Error.Condition]; ok {
			return core.Refuse(code, "The remote '%s' rejected the message: %s: %s", r.o.Name, s.Error.Condition, s.Error.Description)
		}
		return core.Refuse(core.Busy, "The remote '%s' cannot accept the message now: %s: %s", r.o.Name, s.Error.Condition, s.Error.Description)
	case *goamqp.StateModified:
		if s.UndeliverableHere {
			return core.Refuse(core.NotAllowed, "The remote '%s' answered that it cannot deliver the message.", r.o.Name)
		}
	}
	return core.Refuse(core.Busy, "The remote '%s' returned the message without accepting or rejecting it. Try again.", r.o.Name)
}

func isHopeless(err error) bool {
	switch core.CodeOf(err) {
	case core.NotAllowed, core.InvalidArgument, core.OutOfRange, core.TooLarge:
		return true
	default:
		return false
	}
}

func unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("the remote did not answer in time: %w", ctx.Err())
	}
	return err
}

// blame returns what the end of a link, session or connection means for the only message in flight:
// some brokers end these for a message that they will never accept. It returns nil if there may be
// another reason.
func (r *Remote) blame(err error) error {
	why, ok := errors.AsType[*goamqp.Error](err)          // inside of a LinkError, SessionError or ConnError
	if !ok || why.Condition == goamqp.ErrCondNotAllowed { // not-allowed has many other causes
		return nil
	}
	code, ok := hopeless[why.Condition]
	if !ok {
		return nil
	}
	return core.Refuse(code, "The remote '%s' ended the link because of the message: %s: %s", r.o.Name, why.Condition, why.Description)
}
