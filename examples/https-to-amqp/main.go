// The same message over two protocols: posted over HTTPS it is received with the official Go SDK
// over AMQP, and sent with the SDK it is received over HTTPS. The example prints both pairs side by
// side.
//
// Without arguments the example builds and starts its own gateway with the default store, on a free
// port, in a temporary directory. With -running it uses a gateway that already runs on this machine
// with its defaults.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/examples/internal/local"
)

// queue is created by the example, and finally removed.
var queue = fmt.Sprintf("demo-%08x", rand.Uint32())

var running = flag.Bool("running", false, "use the gateway that runs on this machine with its defaults, if there is one")

func main() { local.Main("https-to-amqp", run) }

func run(ctx context.Context, binary string, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	g, err := gateway(ctx, binary, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Stop()) }()
	return tell(ctx, g, out)
}

// gateway returns the running gateway if -running is set and there is one, or else starts one.
func gateway(ctx context.Context, binary string, out io.Writer) (*local.Gateway, error) {
	if *running {
		g, err := local.Running(ctx, local.DefaultAddress, local.DefaultCA())
		if err == nil {
			_, _ = fmt.Fprintf(out, "This is the gateway that runs at %s.\n", local.DefaultAddress)
			return g, nil
		}
		_, _ = fmt.Fprintf(out, "No gateway with its defaults answers at %s (%v).\nThe example starts one of its own. \"make run\" starts one to look at.\n", local.DefaultAddress, err)
	}
	return local.Start(ctx, binary)
}

func tell(ctx context.Context, g *local.Gateway, out io.Writer) (err error) {
	_, _ = fmt.Fprintf(out, "The gateway keeps messages in: %s\nOne connection string for both protocols:\n  %s\n", g.Store, g.Connection)
	rest, err := newREST(g.Connection, g.TLS)
	if err != nil {
		return err
	}
	manager, err := g.Admin()
	if err != nil {
		return err
	}
	if _, err := manager.CreateQueue(ctx, queue, nil); err != nil {
		return err
	}
	defer func() {
		_, gone := manager.DeleteQueue(context.WithoutCancel(ctx), queue, nil)
		err = errors.Join(err, gone)
	}()
	client, err := g.Client()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close(context.WithoutCancel(ctx))) }()

	if err := httpsToAMQP(ctx, rest, client, out); err != nil {
		return fmt.Errorf("from HTTPS to AMQP: %w", err)
	}
	if err := amqpToHTTPS(ctx, client, rest, out); err != nil {
		return fmt.Errorf("from AMQP to HTTPS: %w", err)
	}
	return nil
}

func httpsToAMQP(ctx context.Context, rest *rest, client *azservicebus.Client, out io.Writer) error {
	posted := view{
		{"body", `{"order":1}`},
		{"Content-Type", "application/json"},
		{"BrokerProperties", `{"MessageId":"order-1","Label":"new","TimeToLive":3600}`},
		{"Colour", `"red"`},
		{"Count", "42"},
		{"Weight", "2.5"},
		{"Express", "true"},
		{"Placed", `"Sun, 06 Nov 1994 08:49:37 GMT"`},
	}
	if err := rest.post(ctx, posted); err != nil {
		return err
	}
	receiver, err := client.NewReceiverForQueue(queue, nil)
	if err != nil {
		return err
	}
	messages, err := receiver.ReceiveMessages(ctx, 1, nil)
	if err != nil {
		return err
	}
	if err := receiver.CompleteMessage(ctx, messages[0], nil); err != nil {
		return err
	}
	sideBySide(out, "posted over HTTPS", posted, "received over AMQP, and completed", viewOf(messages[0]))
	return receiver.Close(ctx)
}

func amqpToHTTPS(ctx context.Context, client *azservicebus.Client, rest *rest, out io.Writer) error {
	sender, err := client.NewSender(queue, nil)
	if err != nil {
		return err
	}
	message := &azservicebus.Message{
		Body:        []byte("a parcel"),
		ContentType: new("text/plain"),
		MessageID:   new("parcel-7"),
		Subject:     new("returned"),
		ApplicationProperties: map[string]any{
			"Colour":  "blue",
			"Count":   int64(43),
			"Weight":  2.25,
			"Express": false,
			"Placed":  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		},
	}
	if err := sender.SendMessage(ctx, message, nil); err != nil {
		return err
	}
	received, err := rest.receive(ctx)
	if err != nil {
		return err
	}
	sideBySide(out, "sent over AMQP", viewOfSent(message), "received over HTTPS, and completed", received)
	return sender.Close(ctx)
}
