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

// finalDestination is what the attach names as transferDestination, in the spelling of the broker.
func finalDestination(a *wire.Attach) (address string, ok bool, err error) {
	v, ok := a.Properties.Get(string(transferDestination))
	if !ok || v == nil {
		return "", false, nil
	}
	spelled, isText := text(v)
	if !isText {
		return "", true, core.Refuse(core.InvalidArgument, "The property %s is not a string.", transferDestination)
	}
	addr, err := core.ParseAddress(spelled)
	return addr.String(), true, err
}

// viaSender sends through the transfer queue of the entity that its Sender is of.
type viaSender struct {
	core.Sender
	broker       core.Broker
	id           core.Identity
	address, via string
}

// openVia opens a sender to address through via. The link that it is for ends with the rights of its client.
func (c *conn) openVia(ctx context.Context, id core.Identity, address, via string, closed func(error)) (core.Sender, error) {
	destination, err := c.bridge.broker.OpenSender(ctx, id, address, nil)
	if err != nil {
		return nil, err
	}
	destination.Close()
	s, err := c.bridge.broker.OpenSender(ctx, id, via, closed)
	if err != nil {
		return nil, err
	}
	lasting := make(core.Identity, len(id))
	for i, g := range id {
		g.Expires = time.Time{}
		lasting[i] = g
	}
	return &viaSender{s, c.bridge.broker, lasting, address, via}, nil
}

// Send puts each group into the transfer queue in a transaction of its own.
func (s *viaSender) Send(ctx context.Context, groups [][]*core.Message) []core.Appended {
	answers := make([]core.Appended, len(groups))
	for i, g := range groups {
		t := s.broker.Begin()
		err := t.Send(ctx, s.id, s.address, s.via, g)
		if err == nil {
			err = t.Commit(ctx)
		}
		answers[i].Err = err
	}
	return answers
}
