package local

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main is the main function of an example: it parses the command line with the flag -gateway, and
// calls run. binary is for Start. At SIGINT or SIGTERM, run's context ends, and the program exits
// with 0 when run returns. A second signal ends it immediately.
func Main(name string, run func(ctx context.Context, binary string, out io.Writer) error) {
	gateway := flag.String("gateway", "", "crosstown `binary` to start (default: build one)")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, cancel) // a second signal is not caught
	err := run(ctx, *gateway, os.Stdout)
	if ctx.Err() == nil && err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}
