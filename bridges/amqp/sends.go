package amqp

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/turn"
)

// senderLink has at most one call of its Sender in flight, which keeps the order. Messages that
// arrive meanwhile go into the next call.
type senderLink struct {
	end
	sender core.Sender

	destination core.Address
	via         core.Address  // the entity whose transfer queue messages pass through, or zero
	lasting     core.Identity // the client's identity at the attach, without expiry, for sending to destination

	queue    []engine.Message
	spare    []engine.Message // memory for the next queue
	sending  bool
	released bool
}

func (c *conn) attachSender(l *engine.Link, addr core.Address) {
	s := &senderLink{end: end{conn: c, link: l, addr: addr}, destination: addr}
	l.Data = s
	closed := func(err error) { c.Owner.Post(func() { s.close(err) }) }
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

// attach answers the attach. It returns false if the client or the broker has ended the link since.
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
		Credit:         1000, // messages that are not stored yet
	})
}

// properties returns linkProperties and the client's transfer destination, which clients check.
func (s *senderLink) properties(size int64) value.Map {
	p := linkProperties(size)
	if s.isVia() {
		p = append(p, value.Entry{Key: transferDestination, Value: s.link.Attach().Properties.At(string(transferDestination))})
	}
	return p
}

func (s *senderLink) detached() {
	s.released = true
	s.finish()
}

func (s *senderLink) finish() {
	if !s.released || s.sending || len(s.queue) > 0 || s.sender == nil {
		return
	}
	sender := s.sender
	s.sender = nil
	s.conn.Calls.Begin(func(context.Context) func() {
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
		// Clients then send the message again over a new connection. The outcome is not Released:
		// go-amqp, and so the Go SDK, takes all outcomes but a rejection for success.
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

func (s *senderLink) affords(m *engine.Message) bool {
	err := s.conn.afford(m.Cost)
	if err == nil {
		return true
	}
	s.conn.next.rests = true
	if !m.Settled {
		s.link.Settle(m.ID, s.conn.rejected(s.link, err, s.addr, "delivery", m.ID))
	}
	s.link.Replenish(1)
	return false
}

func (s *senderLink) start() {
	batch := s.queue
	s.queue, s.spare = s.spare[:0], nil
	s.sending = true
	sender := s.sender
	s.conn.Calls.Begin(func(ctx context.Context) func() {
		states := carry(ctx, sender, batch, s)
		return func() { s.sent(batch, states) }
	})
}

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

// carry sends batch, and returns the outcome of each message. It runs in its own goroutine.
func carry(ctx context.Context, sender core.Sender, batch []engine.Message, s *senderLink) []wire.DeliveryState {
	states := make([]wire.DeliveryState, len(batch))
	groups := make([][]*core.Message, 0, len(batch))
	singles := make([]*core.Message, 0, len(batch)) // backing array for groups of one message: saves an allocation for each group
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
		case len(results) == 0: // the broker should have returned a result for each group
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
		var large turn.Turn
		large.Take(int(m.Cost / fair.Message))
		defer large.End()
		return decodeBatch(m.Payload)
	default:
		return nil, core.Refuse(core.NotImplemented, "The message format 0x%x is not supported: use 0 for a message, or 0x80013700 for a batch.", m.Format)
	}
}

// transferDestination is the property of an attach with the address to which messages finally go,
// after the transfer queue of the link's target.
const transferDestination value.Symbol = "com.microsoft:transfer-destination-address"

// finalDestination reads transferDestination from the attach. ok is false if there is none.
func finalDestination(a *wire.Attach) (address core.Address, ok bool, err error) {
	v, ok := a.Properties.Get(string(transferDestination))
	if !ok || v == nil {
		return address, false, nil
	}
	spelled, isText := text(v)
	if !isText {
		return address, true, core.Refuse(core.InvalidArgument, "The link property %s is not a string.", transferDestination)
	}
	address, err = core.ParseAddress(spelled)
	return address, true, err
}

// openVia opens a sender to s.via. The broker calls closed when the client's rights on it end.
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

// send sends groups. If messages pass through a transfer queue, each group is a transaction.
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
