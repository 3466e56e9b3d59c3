// Hybrid runs two gateways, a branch and headquarters, and cuts and restores the link between them.
// See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/examples/internal/local"
)

const (
	orders = "orders" // placed at the branch, packed at headquarters
	prices = "prices" // set at headquarters, shown at the branch
)

// configuration is that of the branch. %s is the connection string of headquarters.
const configuration = `remotes:
  - name: hq
    connection-string: %s
    pull: [{from: prices, into: prices}]
queues:
  - {name: orders, forward-to: "hq:orders"}
  - {name: prices}
`

func main() { local.Main("hybrid", run) }

func run(ctx context.Context, binary string, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	hq, err := local.Start(ctx, binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hq.Stop()) }()
	if err := equip(ctx, hq); err != nil {
		return fmt.Errorf("equip headquarters: %w", err)
	}
	line, err := lay(strings.TrimPrefix(hq.Address, "http://"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, line.remove()) }()
	branch, err := open(ctx, binary, hq, line)
	if err != nil {
		return fmt.Errorf("open the branch: %w", err)
	}
	defer func() { err = errors.Join(err, branch.Stop()) }()
	here, err := branch.Client()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, here.Close(context.WithoutCancel(ctx))) }()
	there, err := hq.Client()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, there.Close(context.WithoutCancel(ctx))) }()
	return trade(ctx, &site{"branch", here}, &site{"headquarters", there}, line, out)
}

// trade is a day of business with a cut of the link.
func trade(ctx context.Context, branch, hq *site, line *link, out io.Writer) error {
	if err := branch.send(ctx, orders, out, "o-1"); err != nil {
		return err
	}
	if err := hq.receive(ctx, orders, out, 1); err != nil {
		return err
	}
	line.cut()
	_, _ = fmt.Fprintln(out, "the link is cut")
	if err := branch.send(ctx, orders, out, "o-2", "o-3", "o-4"); err != nil {
		return err
	}
	if err := hq.send(ctx, prices, out, "p-1", "p-2"); err != nil {
		return err
	}
	line.restore()
	_, _ = fmt.Fprintln(out, "the link is restored")
	if err := hq.receive(ctx, orders, out, 3); err != nil {
		return err
	}
	return branch.receive(ctx, prices, out, 2)
}

// equip creates the queues of headquarters. Duplicate detection drops orders that the branch sends
// twice because it did not receive the acknowledgement.
func equip(ctx context.Context, hq *local.Gateway) error {
	manager, err := hq.Admin()
	if err != nil {
		return err
	}
	once := &admin.QueueProperties{RequiresDuplicateDetection: new(true)}
	if _, err := manager.CreateQueue(ctx, orders, &admin.CreateQueueOptions{Properties: once}); err != nil {
		return err
	}
	_, err = manager.CreateQueue(ctx, prices, nil)
	return err
}

func open(ctx context.Context, binary string, hq *local.Gateway, line *link) (*local.Gateway, error) {
	dir, err := os.MkdirTemp("", "crosstown-example-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the gateway has read it by then
	_, key, _ := strings.Cut(hq.Connection, ";")
	through := fmt.Sprintf("Endpoint=sb://%s;%s;UseDevelopmentEmulator=true", line.ln.Addr(), strings.TrimSuffix(key, ";"))
	file := filepath.Join(dir, "branch.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, configuration, through), 0o600); err != nil {
		return nil, err
	}
	return local.Start(ctx, binary, "--config", file)
}

type site struct {
	name   string
	client *azservicebus.Client
}

func (p *site) send(ctx context.Context, queue string, out io.Writer, ids ...string) error {
	sender, err := p.client.NewSender(queue, nil)
	if err != nil {
		return err
	}
	for _, id := range ids {
		// Messages with the same key stay in order.
		if err := sender.SendMessage(ctx, &azservicebus.Message{MessageID: &id, PartitionKey: &queue}, nil); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "%s sends %s\n", p.name, id)
	}
	return sender.Close(ctx)
}

func (p *site) receive(ctx context.Context, queue string, out io.Writer, n int) error {
	receiver, err := p.client.NewReceiverForQueue(queue, nil)
	if err != nil {
		return err
	}
	for n > 0 {
		ms, err := receiver.ReceiveMessages(ctx, n, nil)
		if err != nil {
			return err
		}
		for _, m := range ms {
			_, _ = fmt.Fprintf(out, "%s receives %s\n", p.name, m.MessageID)
			if err := receiver.CompleteMessage(ctx, m, nil); err != nil {
				return err
			}
			n--
		}
	}
	return receiver.Close(ctx)
}
