// Crosstown is a message gateway with the protocols of Azure Service Bus.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
)

func main() {
	memory.Pace()
	logging.Disable() // disable go-redis's own log, because the Redis store logs errors itself
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		s := <-signals
		fmt.Fprintf(os.Stderr, "crosstown: second signal %v: exiting at once\n", s)
		os.Exit(exitFailure)
	}()
	code := run(ctx, os.Args[1:], &command.Input{Context: ctx, File: os.Stdin}, os.Stdout, os.Stderr, os.Environ())
	os.Exit(code)
}
