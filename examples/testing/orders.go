// Package orders is a small program whose tests run a gateway in their own process: see
// orders_test.go. It charges orders, with three attempts each, and sends reminders for unpaid ones.
package orders

import (
	"context"
	"errors"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const (
	Orders    = "orders"    // with a session for each customer
	Reminders = "reminders" // scheduled messages
)

var ErrHopeless = errors.New("the order can never be charged")

// Charger charges an order. If it returns an error other than ErrHopeless, the program tries again.
type Charger func(ctx context.Context, customer, order string) error

func Place(ctx context.Context, c *azservicebus.Client, customer, order string, remindAt time.Time) error {
	if err := send(ctx, c, Orders, &azservicebus.Message{Body: []byte(order), SessionID: &customer}); err != nil {
		return err
	}
	return send(ctx, c, Reminders, &azservicebus.Message{Body: []byte("pay " + order), ScheduledEnqueueTime: &remindAt})
}

func send(ctx context.Context, c *azservicebus.Client, entity string, m *azservicebus.Message) error {
	s, err := c.NewSender(entity, nil)
	if err != nil {
		return err
	}
	return errors.Join(s.SendMessage(ctx, m, nil), s.Close(ctx))
}

// ChargeCustomer charges the next n deliveries of a customer's orders, in order.
func ChargeCustomer(ctx context.Context, c *azservicebus.Client, customer string, n int, charge Charger) error {
	r, err := c.AcceptSessionForQueue(ctx, Orders, customer, nil)
	if err != nil {
		return err
	}
	for n > 0 {
		got, err := r.ReceiveMessages(ctx, 1, nil) // none, after a connection has broken
		if err != nil {
			return errors.Join(err, r.Close(ctx))
		}
		for _, m := range got {
			if err := settle(ctx, r, m, charge(ctx, customer, string(m.Body))); err != nil {
				return errors.Join(err, r.Close(ctx))
			}
			n--
		}
	}
	return r.Close(ctx)
}

func settle(ctx context.Context, r *azservicebus.SessionReceiver, m *azservicebus.ReceivedMessage, failure error) error {
	switch {
	case failure == nil:
		return r.CompleteMessage(ctx, m, nil)
	case errors.Is(failure, ErrHopeless):
		reason := "Hopeless"
		return r.DeadLetterMessage(ctx, m, &azservicebus.DeadLetterOptions{Reason: &reason})
	default:
		return r.AbandonMessage(ctx, m, nil)
	}
}
