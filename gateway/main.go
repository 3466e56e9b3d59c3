// Crosstown is a message gateway that speaks the protocols of Azure Service Bus.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	// Never touched, the ballast takes no memory. It counts as heap, though: the
	// collector starts once as much again was allocated, not at every 4 MB of a
	// small heap. Under load that saves a sixth of the gateway's CPU.
	ballast := make([]byte, 64<<20)
	logging.Disable() // go-redis' own: the store reports what matters
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		s := <-signals
		fmt.Fprintf(os.Stderr, "crosstown: %v again: leaving at once\n", s)
		os.Exit(exitFailure)
	}()
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())
	runtime.KeepAlive(ballast)
	os.Exit(code)
}
