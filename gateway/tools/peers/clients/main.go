// Clients is `crosstown bench` for other brokers: the same load driver with their
// own clients. With a nats:// URL an entity is a stream of NATS, kept in a file, whose
// messages leave it when they are acknowledged. With an amqp091:// URL it is a queue
// of RabbitMQ, by AMQP 0-9-1.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/internal/bench"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	root := &cobra.Command{Use: "clients", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(bench.Command(map[string]bench.Dialer{"nats": dialNATS, "amqp091": dialRabbitMQ}, nil))
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
