package metrics

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/crosstown-mq/crosstown/core"
)

// operation is something that bridges ask the broker for.
type operation int

const (
	opOpenSender operation = iota
	opOpenReceiver
	opAcceptSession
	opSend
	opSettle
	opRenew
	opRenewSession
	opSessionState
	opPeek
	opReceiveDeferred
	opCancel
	opPurge
	opListSessions
	opCommit
	operations // how many there are
)

func (o operation) String() string {
	return [...]string{
		"open_sender", "open_receiver", "accept_session", "send", "settle", "renew", "renew_session", "session_state",
		"peek", "receive_deferred", "cancel", "purge", "list_sessions", "commit",
	}[o]
}

// codes are the refusals, in the order in which they are counted.
var codes = core.Codes()

// codeIndex is the place of each in codes.
var codeIndex = func() map[core.Code]int {
	index := make(map[core.Code]int, len(codes))
	for i, c := range codes {
		index[c] = i
	}
	return index
}()

// front counts what one bridge asks the broker behind it for.
type front struct {
	core.Broker
	protocol        string
	sent, delivered atomic.Uint64 // messages
	operations      [operations]struct {
		asked   atomic.Uint64
		refused []atomic.Uint64 // by codes
	}
}

// Broker returns inner with what is asked of it counted, for a bridge of the
// named protocol. Sends count by group, settlements and renewals each.
func (m *Metrics) Broker(inner core.Broker, protocol string) core.Broker {
	b := &front{Broker: inner, protocol: protocol}
	for i := range b.operations {
		b.operations[i].refused = make([]atomic.Uint64, len(codes))
	}
	m.registry.MustRegister(newOperations(b))
	return b
}

// count counts one operation, and returns err.
func (b *front) count(o operation, err error) error {
	b.operations[o].asked.Add(1)
	if err != nil {
		b.refuse(o, err)
	}
	return err
}

func (b *front) refuse(o operation, err error) {
	if i, ok := codeIndex[core.CodeOf(err)]; ok {
		b.operations[o].refused[i].Add(1)
	}
}

// deliver counts what comes to a receiver.
func (b *front) deliver(o *core.ReceiverOptions) {
	inner := o.Deliver
	o.Deliver = func(ds []core.Delivery) {
		b.delivered.Add(uint64(len(ds)))
		inner(ds)
	}
}

func (b *front) OpenSender(ctx context.Context, id core.Identity, address string, closed func(error)) (core.Sender, error) {
	s, err := b.Broker.OpenSender(ctx, id, address, closed)
	if b.count(opOpenSender, err) != nil {
		return nil, err
	}
	return &sender{s, b}, nil
}

func (b *front) OpenReceiver(ctx context.Context, id core.Identity, address string, o core.ReceiverOptions) (core.Receiver, error) {
	b.deliver(&o)
	r, err := b.Broker.OpenReceiver(ctx, id, address, o)
	return r, b.count(opOpenReceiver, err)
}

func (b *front) AcceptSession(ctx context.Context, id core.Identity, address string, o core.SessionOptions) (core.Session, error) {
	b.deliver(&o.ReceiverOptions)
	s, err := b.Broker.AcceptSession(ctx, id, address, o)
	if b.count(opAcceptSession, err) != nil {
		return nil, err
	}
	return &session{s, b}, nil
}

func (b *front) Settle(ctx context.Context, id core.Identity, address string, settlements []core.Settlement) []error {
	errs := b.Broker.Settle(ctx, id, address, settlements)
	b.operations[opSettle].asked.Add(uint64(len(errs)))
	for _, err := range errs {
		if err != nil {
			b.refuse(opSettle, err)
		}
	}
	return errs
}

func (b *front) Renew(ctx context.Context, id core.Identity, address string, tokens []core.LockToken) []core.Renewal {
	renewals := b.Broker.Renew(ctx, id, address, tokens)
	for i := range renewals {
		_ = b.count(opRenew, renewals[i].Err) // it is in the answer
	}
	return renewals
}

func (b *front) Peek(ctx context.Context, id core.Identity, address string, from int64, most int) ([]core.Delivery, error) {
	ds, err := b.Broker.Peek(ctx, id, address, from, most)
	return ds, b.count(opPeek, err)
}

func (b *front) PeekState(ctx context.Context, id core.Identity, address string, state core.State, from int64, most int) ([]core.Delivery, error) {
	ds, err := b.Broker.PeekState(ctx, id, address, state, from, most)
	return ds, b.count(opPeek, err)
}

func (b *front) ReceiveDeferred(ctx context.Context, id core.Identity, address string, numbers []int64, mode core.ReceiveMode) ([]core.Delivery, error) {
	ds, err := b.Broker.ReceiveDeferred(ctx, id, address, numbers, mode)
	b.delivered.Add(uint64(len(ds)))
	return ds, b.count(opReceiveDeferred, err)
}

func (b *front) Cancel(ctx context.Context, id core.Identity, address string, numbers []int64) error {
	return b.count(opCancel, b.Broker.Cancel(ctx, id, address, numbers))
}

func (b *front) Purge(ctx context.Context, id core.Identity, address string, before time.Time, most int) (int, error) {
	n, err := b.Broker.Purge(ctx, id, address, before, most)
	return n, b.count(opPurge, err)
}

func (b *front) ListSessions(ctx context.Context, id core.Identity, address string, since time.Time, skip, top int) ([]string, error) {
	ids, err := b.Broker.ListSessions(ctx, id, address, since, skip, top)
	return ids, b.count(opListSessions, err)
}

func (b *front) Begin() core.Transaction { return &transaction{b.Broker.Begin(), b} }

// sender counts what goes through a core.Sender.
type sender struct {
	core.Sender
	b *front
}

func (s *sender) Send(ctx context.Context, groups [][]*core.Message) []core.Appended {
	answers := s.Sender.Send(ctx, groups)
	s.b.operations[opSend].asked.Add(uint64(len(answers)))
	sent := 0
	for i := range answers {
		if err := answers[i].Err; err != nil {
			s.b.refuse(opSend, err)
		} else {
			sent += len(answers[i].Numbers)
		}
	}
	s.b.sent.Add(uint64(sent))
	return answers
}

// session counts what is asked of a core.Session.
type session struct {
	core.Session
	b *front
}

func (s *session) Renew(ctx context.Context) (time.Time, error) {
	until, err := s.Session.Renew(ctx)
	return until, s.b.count(opRenewSession, err)
}

func (s *session) State(ctx context.Context) ([]byte, error) {
	state, err := s.Session.State(ctx)
	return state, s.b.count(opSessionState, err)
}

func (s *session) SetState(ctx context.Context, state []byte) error {
	return s.b.count(opSessionState, s.Session.SetState(ctx, state))
}

func (s *session) ReceiveDeferred(ctx context.Context, numbers []int64, mode core.ReceiveMode) ([]core.Delivery, error) {
	ds, err := s.Session.ReceiveDeferred(ctx, numbers, mode)
	s.b.delivered.Add(uint64(len(ds)))
	return ds, s.b.count(opReceiveDeferred, err)
}

func (s *session) Peek(ctx context.Context, from int64, most int) ([]core.Delivery, error) {
	ds, err := s.Session.Peek(ctx, from, most)
	return ds, s.b.count(opPeek, err)
}

func (s *session) Purge(ctx context.Context, before time.Time, most int) (int, error) {
	n, err := s.Session.Purge(ctx, before, most)
	return n, s.b.count(opPurge, err)
}

// transaction counts the end of a core.Transaction, and what is refused before.
type transaction struct {
	core.Transaction
	b *front
}

func (t *transaction) refused(o operation, err error) error {
	if err != nil {
		t.b.refuse(o, err)
	}
	return err
}

func (t *transaction) Send(ctx context.Context, id core.Identity, address, via string, group []*core.Message) error {
	return t.refused(opSend, t.Transaction.Send(ctx, id, address, via, group))
}

func (t *transaction) Settle(ctx context.Context, id core.Identity, address string, settlements []core.Settlement) error {
	return t.refused(opSettle, t.Transaction.Settle(ctx, id, address, settlements))
}

func (t *transaction) Cancel(ctx context.Context, id core.Identity, address string, numbers []int64) error {
	return t.refused(opCancel, t.Transaction.Cancel(ctx, id, address, numbers))
}

func (t *transaction) Schedule(ctx context.Context, id core.Identity, address string, group []*core.Message) ([]int64, error) {
	numbers, err := t.Transaction.Schedule(ctx, id, address, group)
	return numbers, t.refused(opSend, err)
}

func (t *transaction) SetSessionState(ctx context.Context, id core.Identity, address string, lock core.SessionLock, state []byte) error {
	return t.refused(opSessionState, t.Transaction.SetSessionState(ctx, id, address, lock, state))
}

func (t *transaction) Commit(ctx context.Context) error {
	return t.b.count(opCommit, t.Transaction.Commit(ctx))
}

// operationCounts shows what a broker has counted.
type operationCounts struct {
	b                              *front
	asked, refused, sent, received *prometheus.Desc
}

func newOperations(b *front) *operationCounts {
	labels := prometheus.Labels{"protocol": b.protocol}
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+"_"+name, help, more, labels)
	}
	return &operationCounts{
		b:        b,
		asked:    desc("operations_total", "What clients asked for: sends, settlements, renewals and so on.", "operation"),
		refused:  desc("refusals_total", "Operations that were refused or failed.", "operation", "code"),
		sent:     desc("sent_messages_total", "Messages that were taken from clients outside of transactions."),
		received: desc("received_messages_total", "Messages that were delivered to clients."),
	}
}

// Describe implements prometheus.Collector.
func (c *operationCounts) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.asked, c.refused, c.sent, c.received} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. There is a series for what has
// happened at least once.
func (c *operationCounts) Collect(ch chan<- prometheus.Metric) {
	counter(ch, c.sent, float64(c.b.sent.Load()))
	counter(ch, c.received, float64(c.b.delivered.Load()))
	for o := range operations {
		counts := &c.b.operations[o]
		if n := counts.asked.Load(); n > 0 {
			counter(ch, c.asked, float64(n), o.String())
		}
		for i := range counts.refused {
			if n := counts.refused[i].Load(); n > 0 {
				counter(ch, c.refused, float64(n), o.String(), string(codes[i]))
			}
		}
	}
}
