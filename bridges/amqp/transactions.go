package amqp

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

type openTransactions struct {
	transactions map[string]*transaction
	enlisted     int64 // bytes of their messages and properties
}

const (
	maxTransactions = 1000
	// maxEnlistedBytes bounds a connection's open transactions; a single message may be larger.
	maxEnlistedBytes  = 32 << 20
	coordinatorCredit = 100     // requests in flight on one coordinator link
	maxRequestBytes   = 4 << 10 // largest declare or discharge
)

type coordinatorLink struct{ end }

type transaction struct {
	conn        *conn
	coordinator *coordinatorLink
	id          []byte
	work        core.Transaction
	jobs        []func(ctx context.Context) (then func()) // calls of work, which must not overlap
	running     bool
	bytes       int64     // memory of the messages, and of the properties that the settlements set
	ends        time.Time // when the transaction expires; zero while it has no operations
	failed      error     // why the transaction can no longer be committed, or nil
	discharged  bool
	over        bool // it is committed or rolled back

	entity      string
	provisional []*provisional
	after       []func()      // answers to outcomes that the client sent for deliveries in provisional after the discharge
	ended       chan struct{} // closes when over is set
}

// provisional is a delivery whose outcome takes effect with the commit of a transaction, AMQP 1.0
// §4.4.3. Until then it stays unsettled and locked; after a rollback the client may give it another
// outcome. If the client settled it with the outcome, a rollback abandons it, because the client no
// longer knows it.
type provisional struct {
	in         *transaction
	link       *receiverLink
	id         uint32 // delivery-id
	settlement core.Settlement
	forgotten  bool // the client has settled the delivery, and no longer knows it
	// state came with the client's outcome. The answer has a state of the same kind, which the Java
	// SDK expects; it fails on a rejection without an error.
	state wire.TransactionalState
}

// coordinatorServes are the coordinator's capabilities, AMQP 1.0 §4.5.2.
var coordinatorServes = map[value.Symbol]bool{
	"amqp:local-transactions": true,
	"amqp:multi-txns-per-ssn": true,
	"amqp:multi-ssns-per-txn": true,
}

func (c *conn) attachCoordinator(l *engine.Link) {
	a := l.Attach()
	if a.Role != wire.RoleSender {
		l.Refuse(c.refusal(l, &wire.Error{Condition: wire.CondInvalidField, Description: "A coordinator can only be the target of a link: attach the link as a sender."}, core.Address{}))
		return
	}
	l.Data = &coordinatorLink{end{conn: c, link: l}}
	scopeOf(l).transacted = true
	served := slices.DeleteFunc(slices.Clone(a.Coordinator.Capabilities), func(c value.Symbol) bool { return !coordinatorServes[c] })
	l.Accept(engine.Terms{MaxMessageSize: maxRequestBytes, Properties: value.Map{}, Credit: coordinatorCredit, Capabilities: served})
}

// detached rolls back the transactions that were declared on the link, AMQP 1.0 §4.3.
func (k *coordinatorLink) detached() {
	for id, t := range k.conn.transactions {
		if t.coordinator == k {
			k.conn.forgetTransaction(id)
			t.rollBack()
		}
	}
}

func (k *coordinatorLink) received(m engine.Message) {
	answer := func(state wire.DeliveryState) {
		if !m.Settled {
			k.link.Settle(m.ID, state)
		}
		k.link.Replenish(1)
	}
	req, err := decodeTransactionRequest(m.Payload)
	if err != nil {
		answer(k.conn.rejected(k.link, err, core.Address{}))
		return
	}
	switch req := req.(type) {
	case *wire.Declare:
		answer(k.declare(req))
	case *wire.Discharge:
		k.discharge(req, answer)
	}
}

func decodeTransactionRequest(payload []byte) (wire.TransactionRequest, error) {
	s, err := wire.SplitMessage(payload, value.Limits{})
	if err != nil {
		return nil, err
	}
	raw, ok := s.Value()
	if !ok {
		return nil, core.Refuse(core.InvalidArgument, "A coordinator accepts only messages whose body is an AMQP value with declare or discharge.")
	}
	return wire.DecodeTransactionRequest(raw, value.Limits{})
}

func (k *coordinatorLink) declare(req *wire.Declare) wire.DeliveryState {
	c := k.conn
	if req.GlobalID != nil && !value.IsNull(req.GlobalID) {
		return c.rejected(k.link, core.Refuse(core.NotImplemented, "Distributed transactions are not supported: leave out the global-id."), core.Address{})
	}
	if len(c.transactions) >= maxTransactions {
		c.dropExpired(time.Now())
	}
	if len(c.transactions) >= maxTransactions {
		return c.rejected(k.link, core.Refuse(core.QuotaExceeded, "The connection has %d open transactions, which is the limit: commit or roll back some of them.", maxTransactions), core.Address{})
	}
	id := value.NewUUID()
	t := &transaction{conn: c, coordinator: k, id: id[:], work: c.bridge.front.Begin(), ended: make(chan struct{})}
	if c.transactions == nil {
		c.transactions = make(map[string]*transaction)
	}
	c.transactions[string(t.id)] = t
	return wire.Declared{TxnID: t.id}
}

func (c *conn) dropExpired(now time.Time) {
	for id, t := range c.transactions {
		if t.expired(now) {
			c.forgetTransaction(id)
			t.rollBack()
		}
	}
}

// expireTransactions rolls back transactions that have expired, but keeps them, so that the client
// gets an error at their next use. next is when the next one expires, or zero.
func (c *conn) expireTransactions(now time.Time) (next time.Time) {
	for _, t := range c.transactions {
		switch {
		case t.over || t.ends.IsZero():
		case t.expired(now):
			t.rollBack()
		case next.IsZero() || t.ends.Before(next):
			next = t.ends
		}
	}
	return next
}

func (c *conn) forgetTransaction(id string) {
	if t := c.transactions[id]; t != nil {
		c.enlisted -= t.bytes
		delete(c.transactions, id)
	}
}

func (t *transaction) expired(now time.Time) bool { return !t.ends.IsZero() && !now.Before(t.ends) }

// discharge ends a transaction once its operations in progress are done.
func (k *coordinatorLink) discharge(req *wire.Discharge, answer func(wire.DeliveryState)) {
	t, err := k.conn.transaction(req.TxnID)
	if t == nil {
		answer(k.conn.rejected(k.link, err, core.Address{}))
		return
	}
	k.conn.forgetTransaction(string(t.id))
	t.discharged = true
	for _, p := range t.provisional {
		p.link.settling++ // the link must keep the delivery's session until the transaction ends
	}
	t.do(func(ctx context.Context) func() {
		if err == nil {
			err = t.failed
		}
		if err == nil && !req.Fail {
			err = t.work.Commit(ctx)
		} else {
			t.work.Rollback(ctx)
		}
		return func() {
			t.end(err == nil && !req.Fail)
			if err != nil && !req.Fail { // for the client, a rollback always succeeds
				answer(k.conn.rejected(k.link, err, core.Address{}))
				return
			}
			answer(wire.Accepted{})
		}
	})
}

func (t *transaction) rollBack() {
	if t.over {
		return
	}
	t.end(false)
	t.do(func(ctx context.Context) func() {
		t.work.Rollback(ctx)
		return func() {}
	})
}

// end settles the deliveries of a committed transaction. After a rollback, the client keeps the
// deliveries, but those that it has settled are abandoned at once, before their locks end.
func (t *transaction) end(committed bool) {
	if t.over {
		return
	}
	t.over = true
	for _, p := range t.provisional {
		r := p.link
		if r.provisional[p.id] == p {
			delete(r.provisional, p.id)
		}
		switch {
		case committed:
			r.link.Session().Settle(p.id, p.state)
			r.ask()
		case p.forgotten:
			r.abandon(p.settlement)
		}
		if t.discharged {
			r.settledOne()
		}
	}
	for _, f := range t.after {
		f()
	}
	t.provisional, t.after = nil, nil
	close(t.ended)
}

func (r *receiverLink) abandon(s core.Settlement) {
	r.conn.settle(r.addr, settleItem{link: r, settled: true}, core.Settlement{Token: s.Token, Session: s.Session, Outcome: core.Abandon})
}

var (
	errMissed    = core.Refuse(core.Conflict, "The transaction is rolled back because one of its operations failed: a message was refused, a message was sent on a link that had ended, or an outcome referred to a settled or unknown delivery.")
	errNoOutcome = core.Refuse(core.InvalidArgument, "The transactional state has no outcome: set accepted, rejected, released or modified.")
)

func unknown(id []byte) error {
	return &wire.Error{
		Condition:   wire.CondTransactionUnknownID,
		Description: fmt.Sprintf("No active Transaction was found for ID '%.64x': it was not declared on this connection, has ended, or took longer than %v.", id, core.TransactionLifetime),
	}
}

// transaction finds a transaction. It returns an expired one together with an error.
func (c *conn) transaction(id []byte) (*transaction, error) {
	t := c.transactions[string(id)]
	switch {
	case t == nil:
		return nil, unknown(id)
	case t.over || t.expired(time.Now()):
		return t, unknown(id)
	}
	return t, nil
}

// do runs job after earlier jobs, and then, as a job of the connection, the result of job.
func (t *transaction) do(job func(ctx context.Context) (then func())) {
	t.jobs = append(t.jobs, job)
	if !t.running {
		t.next()
	}
}

func (t *transaction) next() {
	t.running = len(t.jobs) > 0
	if !t.running {
		return
	}
	job := t.jobs[0]
	t.jobs = t.jobs[1:]
	t.conn.Calls.Begin(func(ctx context.Context) func() {
		then := job(ctx)
		return func() {
			then()
			t.next()
		}
	})
}

// spoil makes a transaction fail, because one of its operations was not enlisted.
func (c *conn) spoil(state wire.TransactionalState, err error) {
	if t := c.transactions[string(state.TxnID)]; t != nil {
		t.failed = cmp.Or(t.failed, err)
	}
}

// enlist adds an operation of size bytes, from link l about the entity of addr, to the transaction.
// Then it runs added as a job of the connection, with the reason for a refusal or nil; a refused
// operation prevents the commit (AMQP 1.0 §4.4). It returns the transaction, or nil if it refused
// the operation at once.
func (c *conn) enlist(l *engine.Link, addr core.Address, id []byte, size int64, operation func(context.Context, core.Transaction) error, added func(*transaction, error)) *transaction {
	t, err := c.transaction(id)
	if err == nil {
		if err = t.reaches(l, addr); err == nil && c.enlisted > 0 && c.enlisted+size > maxEnlistedBytes {
			err = core.Refuse(core.QuotaExceeded, "The messages in the connection's open transactions take more than %d bytes: commit some transactions.", maxEnlistedBytes)
		}
		t.failed = cmp.Or(t.failed, err)
	}
	if err != nil {
		added(t, err)
		return nil
	}
	if t.ends.IsZero() {
		t.ends = time.Now().Add(core.TransactionLifetime)
	}
	t.bytes += size
	c.enlisted += size
	t.do(func(ctx context.Context) func() {
		err := operation(ctx, t.work)
		return func() {
			if err == nil && t.over {
				err = unknown(t.id) // the link has ended meanwhile, and the transaction with it
			}
			t.failed = cmp.Or(t.failed, err)
			added(t, err)
		}
	})
	return t
}

func (s *senderLink) enlist(m engine.Message, state wire.TransactionalState) {
	m.Cost = costOf(&m)
	id, size, txn := s.conn.Identity, int64(len(m.Payload))+m.Cost, bytes.Clone(state.TxnID)
	added := func(_ *transaction, err error) {
		if !m.Settled {
			s.link.Settle(m.ID, s.conn.enlisting(s.link, txn, wire.Accepted{}, err, s.addr))
		}
		s.link.Replenish(1)
	}
	if err := s.conn.afford(m.Cost); err != nil {
		s.conn.spoil(state, err)
		added(nil, err)
		return
	}
	s.conn.enlist(s.link, s.addr, txn, size, func(ctx context.Context, work core.Transaction) error {
		var singles []*core.Message
		group, err := decodeGroup(&m, &singles)
		if err != nil {
			return err
		}
		return work.Send(ctx, id, s.destination, s.via, group)
	}, added)
}

// enlist adds a settlement to a transaction. before is not nil if the delivery has an outcome in
// another transaction: the settlement waits for the end of that transaction. If the transaction
// refuses the settlement, the delivery counts as abandoned by the client.
func (r *receiverLink) enlist(g given, state wire.TransactionalState, before *provisional) {
	id, txn := r.conn.Identity, bytes.Clone(state.TxnID)
	p := &provisional{link: r, id: g.id, settlement: g.settlement, forgotten: g.settled, state: wire.TransactionalState{TxnID: txn, Outcome: g.item.state}}
	added := func(t *transaction, err error) {
		session, code := r.link.Session(), core.CodeOf(err)
		refused := t != nil && !t.over && !code.Retriable()
		answer := r.conn.enlisting(r.link, txn, g.item.state, err, r.addr)
		switch {
		case err == nil:
			session.Acknowledge(g.id, answer)
		case code == core.LockLost || code == core.SessionLockLost:
			session.Settle(g.id, answer)
		case refused || g.settled:
			session.Settle(g.id, answer)
			r.abandon(g.settlement)
		default: // the transaction is unknown or the store unavailable: the client may try again
			session.Acknowledge(g.id, answer)
		}
		if err != nil {
			p.drop()
		}
		if p.in != nil {
			r.settledOne()
		}
		r.ask()
	}
	if g.err != nil {
		r.conn.spoil(state, g.err)
		added(r.conn.transactions[string(txn)], g.err)
		return
	}
	p.in = r.conn.enlist(r.link, r.addr, txn, int64(len(g.settlement.Properties.Encoded())), func(ctx context.Context, work core.Transaction) error {
		if before != nil {
			select {
			case <-before.in.ended:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return work.Settle(ctx, id, r.addr, []core.Settlement{g.settlement})
	}, added)
	if p.in == nil {
		return
	}
	r.settling++
	p.in.provisional = append(p.in.provisional, p)
	if !g.settled {
		if r.provisional == nil {
			r.provisional = make(map[uint32]*provisional)
		}
		r.provisional[g.id] = p
		r.link.Session().Reopen(g.id)
	}
}

func (p *provisional) drop() {
	if p.link.provisional[p.id] == p {
		delete(p.link.provisional, p.id)
	}
	if p.in == nil {
		return
	}
	if i := slices.Index(p.in.provisional, p); i >= 0 {
		p.in.provisional = slices.Delete(p.in.provisional, i, i+1)
		if p.in.discharged {
			p.link.settledOne()
		}
	}
}

// disposedAgain answers a second outcome before the discharge: the first one stays, and the client
// is told that the lock is lost.
func (p *provisional) disposedAgain(settled bool) {
	r := p.link
	if settled {
		p.forgotten = true
		delete(r.provisional, p.id)
		return
	}
	r.link.Session().Acknowledge(p.id, r.conn.rejected(r.link, core.LockLost, r.addr))
}

func (r *requestLink) enlist(o *operation, req *request, state wire.TransactionalState, size int64, answered func(response, error, core.Address)) {
	var resp response
	r.conn.enlist(r.link, r.addr, bytes.Clone(state.TxnID), size, func(ctx context.Context, work core.Transaction) (err error) {
		o.work = work
		resp, err = r.conn.carryOut(ctx, o, req)
		return err
	}, func(_ *transaction, err error) { answered(resp, err, r.addr) })
}

func (c *conn) enlisting(l *engine.Link, txn []byte, outcome wire.DeliveryState, err error, addr core.Address) wire.DeliveryState {
	if err != nil {
		return c.rejected(l, err, addr)
	}
	return wire.TransactionalState{TxnID: txn, Outcome: outcome}
}
