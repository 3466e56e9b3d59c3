package amqp

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// fakeBroker keeps queues in memory, as far as the tests of the bridge need it.
type fakeBroker struct {
	bridges.Front // what it does not fake panics

	mu     sync.Mutex
	queues map[string]*fakeQueue
	nonce  uint64
	hold   chan struct{} // if not nil, Send waits for it to be closed
}

type fakeQueue struct {
	broker    *fakeBroker
	name      string
	seq       int64
	ready     []core.Delivery
	locked    map[core.LockToken]core.Delivery
	deferred  map[int64]core.Delivery
	scheduled map[int64]core.Delivery
	receivers []*fakeReceiver
	senders   []*fakeSender
	outcomes  []core.Settlement // all settlements, in order
	sent      int
	maxSize   int64
	forget    bool // keep nothing: for benchmarks
	down      bool // settle nothing: the store does not answer
}

const fakeLock = time.Minute

func newFakeBroker(names ...string) *fakeBroker {
	b := &fakeBroker{queues: map[string]*fakeQueue{}}
	for _, name := range names {
		for _, sub := range []core.SubQueue{core.Main, core.DeadLetter} {
			full := core.Address{Entity: name, Sub: sub}.String()
			b.queues[core.FoldName(full)] = &fakeQueue{
				broker: b, name: full, maxSize: 256 << 10,
				locked:    map[core.LockToken]core.Delivery{},
				deferred:  map[int64]core.Delivery{},
				scheduled: map[int64]core.Delivery{},
			}
		}
	}
	return b
}

// queue returns the queue of an address after checking a right on it; 0 checks none.
func (b *fakeBroker) queue(id core.Identity, a core.Address, right core.Right) (*fakeQueue, error) {
	if right != 0 {
		if err := id.Check(right, a.Entity, time.Now()); err != nil {
			return nil, err
		}
	}
	q := b.queues[core.FoldName(core.Address{Entity: a.Entity, Sub: a.Sub}.String())]
	if q == nil {
		return nil, core.NotFound
	}
	return q, nil
}

func (b *fakeBroker) Resolve(_ context.Context, _ core.Identity, address core.Address) (core.Entity, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, err := b.queue(nil, address, 0)
	if err != nil {
		return core.Entity{}, err
	}
	return core.Entity{Name: q.name}, nil
}

type fakeSender struct {
	q      *fakeQueue
	closed func(error)
}

func (b *fakeBroker) OpenSender(_ context.Context, id core.Identity, address core.Address, closed func(error)) (core.Sender, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, err := b.queue(id, address, core.Send)
	if err != nil {
		return nil, err
	}
	s := &fakeSender{q, closed}
	q.senders = append(q.senders, s)
	return s, nil
}

func (s *fakeSender) MaxMessageSize() int64 { return s.q.maxSize }
func (s *fakeSender) Close()                {}

func (s *fakeSender) Send(ctx context.Context, groups [][]*core.Message) []core.Appended {
	if hold := s.q.broker.hold; hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	out := make([]core.Appended, len(groups))
	b := s.q.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now().Truncate(time.Millisecond)
	for i, group := range groups {
		s.q.sent += len(group)
		if s.q.forget {
			continue
		}
		for _, m := range group {
			if m.Subject == "refuse" {
				out[i].Err = core.QuotaExceeded
				continue
			}
			s.q.seq++
			d := core.Delivery{Message: m, BrokerProperties: core.BrokerProperties{
				SequenceNumber: s.q.seq, EnqueuedSequenceNumber: s.q.seq, EnqueuedTime: now,
			}}
			if m.TimeToLive > 0 {
				d.ExpiresAt = now.Add(m.TimeToLive)
			}
			if m.ScheduledEnqueueTime.After(now) {
				d.State = core.Scheduled
				s.q.scheduled[s.q.seq] = d
			} else {
				s.q.ready = append(s.q.ready, d)
			}
			out[i].Numbers = append(out[i].Numbers, s.q.seq)
		}
	}
	s.q.dispatch()
	return out
}

type fakeReceiver struct {
	q       *fakeQueue
	o       core.ReceiverOptions
	credit  int
	bytes   int64
	closed  bool
	endless bool // deliver copies of the first message for ever
}

func (b *fakeBroker) OpenReceiver(_ context.Context, id core.Identity, address core.Address, o core.ReceiverOptions) (core.Receiver, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, err := b.queue(id, address, core.Listen)
	if err != nil {
		return nil, err
	}
	r := &fakeReceiver{q: q, o: o, endless: q.forget}
	q.receivers = append(q.receivers, r)
	return r, nil
}

// AcceptSession refuses: the queues have no sessions.
func (b *fakeBroker) AcceptSession(_ context.Context, id core.Identity, address core.Address, _ core.SessionOptions) (core.Session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.queue(id, address, core.Listen); err != nil {
		return nil, err
	}
	return nil, core.NotAllowed
}

func (q *fakeQueue) lock(d core.Delivery) core.Delivery {
	q.broker.nonce++
	d.LockToken = core.NewLockToken(0, d.SequenceNumber, q.broker.nonce)
	d.LockedUntil = time.Now().Add(fakeLock).Truncate(time.Millisecond)
	if !q.forget {
		q.locked[d.LockToken] = d
	}
	return d
}

func (q *fakeQueue) dispatch() {
	for _, r := range q.receivers {
		var ds []core.Delivery
		for r.credit > 0 && r.bytes > 0 && len(q.ready) > 0 && !r.closed {
			d := q.ready[0]
			if !r.endless {
				q.ready = q.ready[1:]
			}
			if r.o.Mode == core.PeekLock {
				d = q.lock(d)
			}
			r.credit--
			r.bytes -= int64(d.Size())
			ds = append(ds, d)
		}
		if len(ds) > 0 {
			r.o.Deliver(ds)
		}
	}
}

func (r *fakeReceiver) AddCredit(n int, bytes int64) {
	r.q.broker.mu.Lock()
	defer r.q.broker.mu.Unlock()
	r.credit += n
	r.bytes += bytes
	r.q.dispatch()
}

func (r *fakeReceiver) Drain(drained func(int)) {
	r.q.broker.mu.Lock()
	defer r.q.broker.mu.Unlock()
	n := r.credit
	r.credit, r.bytes = 0, 0
	drained(n)
}

func (r *fakeReceiver) Close() {
	r.q.broker.mu.Lock()
	defer r.q.broker.mu.Unlock()
	r.closed = true
}

func (b *fakeBroker) Settle(_ context.Context, id core.Identity, address core.Address, settlements []core.Settlement) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	errs := make([]error, len(settlements))
	q, err := b.queue(id, address, core.Listen)
	for i, s := range settlements {
		if err != nil {
			errs[i] = err
			continue
		}
		errs[i] = q.settle(s)
	}
	return errs
}

func (q *fakeQueue) settle(s core.Settlement) error {
	if q.forget {
		return nil
	}
	if q.down {
		return core.Busy
	}
	q.outcomes = append(q.outcomes, s)
	d, ok := q.locked[s.Token]
	if !ok {
		return core.LockLost
	}
	delete(q.locked, s.Token)
	d.LockToken, d.LockedUntil = core.LockToken{}, time.Time{}
	m := *d.Message
	m.Properties = m.Properties.Merge(s.Properties)
	d.Message = &m
	switch s.Outcome {
	case core.Complete:
	case core.Abandon:
		d.DeliveryCount++
		q.ready = append([]core.Delivery{d}, q.ready...)
	case core.Release:
		q.ready = append([]core.Delivery{d}, q.ready...)
	case core.Defer:
		d.State = core.Deferred
		q.deferred[d.SequenceNumber] = d
	case core.DeadLetterOutcome:
		dlq := q.broker.queues[core.FoldName(q.name)+"/$deadletterqueue"]
		if dlq == nil {
			return core.NotAllowed
		}
		dlq.ready = append(dlq.ready, d)
		dlq.dispatch()
	}
	q.dispatch()
	return nil
}

func (b *fakeBroker) Renew(_ context.Context, id core.Identity, address core.Address, tokens []core.LockToken) []core.Renewal {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]core.Renewal, len(tokens))
	q, err := b.queue(id, address, core.Listen)
	for i, t := range tokens {
		switch {
		case err != nil:
			out[i].Err = err
		case q.locked[t].Message == nil:
			out[i].Err = core.LockLost
		default:
			out[i].Until = time.Now().Add(fakeLock).Truncate(time.Millisecond)
		}
	}
	return out
}

func (b *fakeBroker) Peek(_ context.Context, id core.Identity, address core.Address, state *core.State, from int64, most int) ([]core.Delivery, error) {
	ds, err := b.peek(id, address, from, most)
	return slices.DeleteFunc(ds, func(d core.Delivery) bool { return state != nil && d.State != *state }), err
}

func (b *fakeBroker) peek(id core.Identity, address core.Address, from int64, most int) ([]core.Delivery, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, err := b.queue(id, address, core.Listen)
	if err != nil {
		return nil, err
	}
	bySeq := map[int64]core.Delivery{}
	for _, d := range q.ready {
		bySeq[d.SequenceNumber] = d
	}
	for _, m := range []map[int64]core.Delivery{q.deferred, q.scheduled} {
		maps.Copy(bySeq, m)
	}
	for _, d := range q.locked {
		d.LockToken = core.LockToken{}
		bySeq[d.SequenceNumber] = d
	}
	var out []core.Delivery
	for n := from; n <= q.seq && len(out) < most; n++ {
		if d, ok := bySeq[n]; ok {
			out = append(out, d)
		}
	}
	return out, nil
}

func (b *fakeBroker) ReceiveDeferred(_ context.Context, id core.Identity, address core.Address, numbers []int64, mode core.ReceiveMode) ([]core.Delivery, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, err := b.queue(id, address, core.Listen)
	if err != nil {
		return nil, err
	}
	var out []core.Delivery
	for _, n := range numbers {
		d, ok := q.deferred[n]
		if !ok {
			return nil, core.MessageNotFound
		}
		delete(q.deferred, n)
		if mode == core.PeekLock {
			d = q.lock(d)
		}
		out = append(out, d)
	}
	return out, nil
}

func (b *fakeBroker) Cancel(_ context.Context, id core.Identity, address core.Address, numbers []int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, err := b.queue(id, address, core.Send)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if _, ok := q.scheduled[n]; !ok {
			return core.MessageNotFound
		}
		delete(q.scheduled, n)
	}
	return nil
}

func (b *fakeBroker) Purge(_ context.Context, id core.Identity, address core.Address, before time.Time, most int) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, err := b.queue(id, address, core.Listen)
	if err != nil {
		return 0, err
	}
	n := 0
	for len(q.ready) > 0 && n < most && q.ready[0].EnqueuedTime.Before(before) {
		q.ready = q.ready[1:]
		n++
	}
	return n, nil
}

func (b *fakeBroker) Health(context.Context) (core.About, error) { return core.About{}, nil }

// disable ends all links of a queue with err.
func (b *fakeBroker) disable(name string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[name]
	for _, s := range q.senders {
		if s.closed != nil {
			s.closed(err)
		}
	}
	for _, r := range q.receivers {
		if r.o.Closed != nil {
			r.o.Closed(err)
		}
	}
}

// settled returns the settlements of a queue so far.
func (b *fakeBroker) settled(name string) []core.Settlement {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]core.Settlement(nil), b.queues[name].outcomes...)
}

// fakeAuthority grants all rights for every token but those that say otherwise.
type fakeAuthority struct {
	life time.Duration // of grants; 0 is for ever
	full bool          // no connection may enter

	mu     sync.Mutex
	called [][]string    // hosts, by proofs
	inside []func(error) // closed, of those that have entered
	left   int           // of inside
}

// heard notes by what names a peer calls.
func (a *fakeAuthority) heard(hosts []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.called = append(a.called, hosts)
}

func (a *fakeAuthority) Enter(_ core.Identity, closed func(error)) (leave func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.full {
		return nil, core.Refuse(core.QuotaExceeded, "There are 0 connections.")
	}
	a.inside = append(a.inside, closed)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.left++
	}, nil
}

func (a *fakeAuthority) Token(_ context.Context, hosts []string, token, audience string) (core.Grant, error) {
	a.heard(hosts)
	switch token {
	case "elsewhere":
		return core.Grant{Namespace: "other", NamespaceID: "other", Policy: "root", Rights: core.AllRights}, nil
	case "forged":
		return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidSignature: The token has an invalid signature.")
	case "listen":
		return core.Grant{Policy: "listen", Rights: core.Listen, Scope: ""}, nil
	}
	path := core.ResourcePath(audience)
	if addr, err := core.ParseAddress(audience); err == nil {
		path = addr.Entity
	}
	g := core.Grant{Policy: "root", Rights: core.AllRights, Scope: core.FoldName(path)}
	if a.life > 0 {
		g.Expires = time.Now().Add(a.life)
	}
	return g, nil
}

func (a *fakeAuthority) Key(_ context.Context, hosts []string, policy, key string) (core.Grant, error) {
	a.heard(hosts)
	if key != "secret" {
		return core.Grant{}, core.Unauthorized
	}
	return core.Grant{Policy: policy, Rights: core.AllRights}, nil
}

// serve runs a bridge on a loopback port for the length of the test and returns its address.
func serve(tb testing.TB, b bridges.Front, a core.Authority, o Options) string {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- New(b, a, o).Serve(ctx, ln) }()
	tb.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				tb.Errorf("Serve: got %v, want nil", err)
			}
		case <-time.After(eventually.Bound):
			tb.Error("Serve does not return")
		}
	})
	return ln.Addr().String()
}
