// Autoforward-chain sends orders to an intake queue and receives them at the end of a chain that
// includes a topic and its subscriptions. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/examples/internal/local"
)

const (
	intake     = "intake"
	orders     = "orders"
	audit      = "audit"
	fulfilment = "fulfilment"
)

var regions = []struct{ name, warehouse string }{{"eu", "Dublin"}, {"us", "Reno"}}

func main() { local.Main("autoforward-chain", run) }

func run(ctx context.Context, binary string, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	g, err := local.Start(ctx, binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Stop()) }()
	manager, err := g.Admin()
	if err != nil {
		return err
	}
	if err := build(ctx, manager); err != nil {
		return fmt.Errorf("build the chain: %w", err)
	}
	client, err := g.Client()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close(context.WithoutCancel(ctx))) }()

	placed := []order{{"o-1", "eu"}, {"o-2", "us"}, {"o-3", "mars"}, {"o-4", "eu"}}
	if err := place(ctx, client, placed, out); err != nil {
		return fmt.Errorf("place the orders: %w", err)
	}
	if err := pack(ctx, client, 3, out); err != nil {
		return fmt.Errorf("pack the orders: %w", err)
	}
	return count(ctx, manager, out)
}

// build creates the chain from its end to its beginning, because a destination must exist first.
func build(ctx context.Context, manager *admin.Client) error {
	if _, err := manager.CreateQueue(ctx, fulfilment, nil); err != nil {
		return err
	}
	if _, err := manager.CreateTopic(ctx, orders, nil); err != nil {
		return err
	}
	for _, r := range regions {
		_, err := manager.CreateSubscription(ctx, orders, r.name, &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{
			ForwardTo: new(fulfilment),
			DefaultRule: &admin.RuleProperties{
				Name:   r.name,
				Filter: &admin.SQLFilter{Expression: "region = @region", Parameters: map[string]any{"@region": r.name}},
				Action: &admin.SQLAction{Expression: "SET warehouse = '" + r.warehouse + "'"},
			},
		}})
		if err != nil {
			return err
		}
	}
	if _, err := manager.CreateSubscription(ctx, orders, audit, nil); err != nil {
		return err
	}
	_, err := manager.CreateQueue(ctx, intake, &admin.CreateQueueOptions{Properties: &admin.QueueProperties{ForwardTo: new(orders)}})
	return err
}

type order struct{ id, region string }

func place(ctx context.Context, client *azservicebus.Client, placed []order, out io.Writer) error {
	sender, err := client.NewSender(intake, nil)
	if err != nil {
		return err
	}
	for _, o := range placed {
		m := &azservicebus.Message{MessageID: &o.id, ApplicationProperties: map[string]any{"region": o.region}}
		if err := sender.SendMessage(ctx, m, nil); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "placed %s for region %s at %s\n", o.id, o.region, intake)
	}
	return sender.Close(ctx)
}

func pack(ctx context.Context, client *azservicebus.Client, n int, out io.Writer) error {
	receiver, err := client.NewReceiverForQueue(fulfilment, nil)
	if err != nil {
		return err
	}
	for packed := 0; packed < n; {
		ms, err := receiver.ReceiveMessages(ctx, n-packed, nil)
		if err != nil {
			return err
		}
		for _, m := range ms {
			_, _ = fmt.Fprintf(out, "packed %s for region %s in %s: number %d of %s, %d of %s\n", m.MessageID, m.ApplicationProperties["region"],
				m.ApplicationProperties["warehouse"], *m.EnqueuedSequenceNumber, intake, *m.SequenceNumber, fulfilment)
			if err := receiver.CompleteMessage(ctx, m, nil); err != nil {
				return err
			}
			packed++
		}
	}
	return receiver.Close(ctx)
}

func count(ctx context.Context, manager *admin.Client, out io.Writer) error {
	for pages := manager.NewListSubscriptionsRuntimePropertiesPager(orders, nil); pages.More(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, s := range page.SubscriptionRuntimeProperties {
			_, _ = fmt.Fprintf(out, "subscription %s holds %d\n", s.SubscriptionName, s.TotalMessageCount)
		}
	}
	return nil
}
