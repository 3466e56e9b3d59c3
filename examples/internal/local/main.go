package local

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// Main is an example's program: it reads the command line, to which -gateway
// belongs, and has run tell the story until it ends or is interrupted. binary is
// what Start takes.
func Main(name string, run func(ctx context.Context, binary string, out io.Writer) error) {
	gateway := flag.String("gateway", "", "crosstown `binary` to start (default: build one)")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx, *gateway, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}
