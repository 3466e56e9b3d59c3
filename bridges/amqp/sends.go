package amqp

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// senderLink is a link on which the client sends to an entity. At most one call of its Sender is in
// flight, which keeps the order; messages that arrive during it go into the next.
type senderLink struct {
	conn   *conn
	link   *engine.Link
	addr   core.Address
	sender core.Sender

	destination core.Address  // where messages go
	via         core.Address  // the entity through whose transfer queue they go; zero is none
	lasting     core.Identity // the client's identity, without expiry, for sending to destination

	queue    []engine.Message
	spare    []engine.Message // room for queue
	sending  bool
	released bool // the client has detached
	closed   error
}

func (c *conn) attachSender(l *engine.Link, addr core.Address) {
	s := &senderLink{conn: c, link: l, addr: addr, destination: addr}
	l.Data = s
	closed := func(err error) { c.owner.Post(func() { s.close(err) }) }
	final, isVia, err := finalDestination(l.Attach())
	if err != nil {
		l.Refuse(c.refusal(l, err, final))
		return
	}
	if isVia {
		s.destination, s.via = final, addr
	}
	if err := checkScope(l, addr); err != nil {
		l.Refuse(c.refusal(l, err, addr))
		return
	}
	open(c, l, addr, func(ctx context.Context, id core.Identity) (core.Sender, error) {
		if s.isVia() {
			return s.openVia(ctx, id, closed)
		}
		return c.bridge.front.OpenSender(ctx, id, s.destination, closed)
	}, s.attach, core.Sender.Close)
}

// attach completes the attach, or returns false if the client or the broker has detached since.
func (s *senderLink) attach(sender core.Sender) bool {
	if s.closed != nil {
		s.link.Refuse(s.conn.refusal(s.link, s.closed, s.addr))
		return false
	}
	if s.released {
		return false
	}
	s.sender = sender
	size := sender.MaxMessageSize()
	return s.link.Accept(engine.Terms{
		MaxMessageSize: uint64(max(size, 0)),
		Properties:     s.properties(size),
		Credit:         uint32(s.conn.bridge.opts.SenderCredit),
	})
}

// properties returns the properties of the answering attach; clients look for their destination.
func (s *senderLink) properties(size int64) value.Map {
	p := linkProperties(size)
	if s.isVia() {
		named, _ := s.link.Attach().Properties.Get(string(transferDestination))
		p = append(p, value.Entry{Key: transferDestination, Value: named})
	}
	return p
}

// close detaches because the entity no longer takes messages.
func (s *senderLink) close(err error) {
	s.closed = err
	if s.link.Open() {
		s.link.Detach(s.conn.refusal(s.link, err, s.addr))
		s.detached()
	}
}

func (s *senderLink) detached() {
	s.released = true
	s.finish()
}

// finish closes the Sender once the client has detached and everything it sent is stored.
func (s *senderLink) finish() {
	if !s.released || s.sending || len(s.queue) > 0 || s.sender == nil {
		return
	}
	sender := s.sender
	s.sender = nil
	s.conn.async(func(context.Context) func() {
		sender.Close()
		return func() {}
	})
}

func (s *senderLink) received(m engine.Message) {
	if state, ok := m.State.(wire.TransactionalState); ok {
		s.enlist(m, state)
		return
	}
	if s.conn.drains != "" && !m.Settled {
		// Clients try again over a new connection. The outcome is not released, because go-amqp,
		// and so the Go SDK, takes any outcome but a rejection for a success.
		s.link.Settle(m.ID, wire.Rejected{Error: &wire.Error{Condition: wire.CondConnectionForced, Description: s.conn.drains}})
		return
	}
	if m.Cost = costOf(&m); !s.affords(&m) {
		return
	}
	s.queue = append(s.queue, m)
	s.conn.buffered += int64(len(m.Payload)) + m.Cost
	if len(s.queue) == 1 && !s.sending {
		s.conn.sends = append(s.conn.sends, s)
	}
}

// affords reserves memory for the messages of a batch, or refuses the batch.
func (s *senderLink) affords(m *engine.Message) bool {
	err := s.conn.afford(m.Cost)
	if err == nil {
		return true
	}
	if !m.Settled {
		s.link.Settle(m.ID, s.conn.rejected(s.link, err, s.addr, "delivery", m.ID))
	}
	s.link.Replenish(1)
	return false
}

// start sends the queued messages.
func (s *senderLink) start() {
	batch := s.queue
	s.queue, s.spare = s.spare[:0], nil
	s.sending = true
	sender := s.sender
	s.conn.async(func(ctx context.Context) func() {
		states := carry(ctx, sender, batch, s)
		return func() { s.sent(batch, states) }
	})
}

// sent tells the client the outcome of a batch.
func (s *senderLink) sent(batch []engine.Message, states []wire.DeliveryState) {
	s.sending = false
	for i := range batch {
		if !batch[i].Settled {
			s.link.Settle(batch[i].ID, states[i])
		}
		s.conn.buffered -= int64(len(batch[i].Payload)) + batch[i].Cost
	}
	s.link.Replenish(len(batch))
	clear(batch)
	s.spare = batch
	if len(s.queue) > 0 {
		s.conn.sends = append(s.conn.sends, s)
	}
	s.finish()
}

// carry decodes and sends messages, and returns the outcome of each. It runs outside the owner.
func carry(ctx context.Context, sender core.Sender, batch []engine.Message, s *senderLink) []wire.DeliveryState {
	states := make([]wire.DeliveryState, len(batch))
	groups := make([][]*core.Message, 0, len(batch))
	singles := make([]*core.Message, 0, len(batch)) // the messages of groups that have only one
	for i := range batch {
		group, err := decodeGroup(&batch[i], &singles)
		if err != nil {
			states[i] = s.conn.rejected(s.link, err, s.addr, "delivery", batch[i].ID)
			continue
		}
		groups = append(groups, group)
	}
	if len(groups) == 0 {
		return states
	}
	results := s.send(ctx, sender, groups)
	for i := range states {
		switch {
		case states[i] != nil:
			continue
		case len(results) == 0: // the broker must return a result for each group
			states[i] = s.conn.rejected(s.link, core.Internal, s.addr, "delivery", batch[i].ID)
			continue
		case results[0].Err == nil:
			states[i] = wire.Accepted{}
		default:
			states[i] = s.conn.rejected(s.link, results[0].Err, s.addr, "delivery", batch[i].ID)
		}
		results = results[1:]
	}
	return states
}

// decodeGroup decodes what one transfer carries: a message, or a batch that is stored all or nothing.
func decodeGroup(m *engine.Message, singles *[]*core.Message) ([]*core.Message, error) {
	switch m.Format {
	case wire.FormatMessage:
		msg, err := decodeMessage(m.Payload)
		if err != nil {
			return nil, err
		}
		*singles = append(*singles, msg)
		n := len(*singles)
		return (*singles)[n-1 : n : n], nil
	case wire.FormatBatch:
		return decodeBatch(m.Payload)
	default:
		return nil, core.Refuse(core.NotImplemented, "Messages of format 0x%x are not supported.", m.Format)
	}
}

// transferDestination is the property of an attach that names where messages go to from the
// transfer queue of the link's target.
const transferDestination value.Symbol = "com.microsoft:transfer-destination-address"

// finalDestination parses the address that the attach names as transferDestination.
func finalDestination(a *wire.Attach) (address core.Address, ok bool, err error) {
	v, ok := a.Properties.Get(string(transferDestination))
	if !ok || v == nil {
		return address, false, nil
	}
	spelled, isText := text(v)
	if !isText {
		return address, true, core.Refuse(core.InvalidArgument, "The property %s is not a string.", transferDestination)
	}
	address, err = core.ParseAddress(spelled)
	return address, true, err
}

// openVia opens the sender of the entity that messages go through. The link ends with the rights of its client.
func (s *senderLink) openVia(ctx context.Context, id core.Identity, closed func(error)) (core.Sender, error) {
	broker := s.conn.bridge.front
	destination, err := broker.OpenSender(ctx, id, s.destination, nil)
	if err != nil {
		return nil, err
	}
	destination.Close()
	s.lasting = make(core.Identity, len(id))
	for i, g := range id {
		g.Expires = time.Time{}
		s.lasting[i] = g
	}
	return broker.OpenSender(ctx, id, s.via, closed)
}

func (s *senderLink) isVia() bool { return s.via.Entity != "" }

// send sends groups, each in a transaction of its own if they go through a transfer queue.
func (s *senderLink) send(ctx context.Context, sender core.Sender, groups [][]*core.Message) []core.Appended {
	if !s.isVia() {
		return sender.Send(ctx, groups)
	}
	answers := make([]core.Appended, len(groups))
	for i, g := range groups {
		t := s.conn.bridge.front.Begin()
		err := t.Send(ctx, s.lasting, s.destination, s.via, g)
		if err == nil {
			err = t.Commit(ctx)
		}
		answers[i].Err = err
	}
	return answers
}
