package amqp

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// transferDestination is the property of an attach that names where the messages of the link go: through the transfer
// queue of the link's target.
const transferDestination value.Symbol = "com.microsoft:transfer-destination-address"

// finalDestination is what the attach names as transferDestination, parsed.
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
