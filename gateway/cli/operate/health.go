package operate

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

const healthTimeout = 5 * time.Second

func Health(environ []string) *cobra.Command {
	var named command.Flags
	c := &cobra.Command{
		Use:   "health [HOST:PORT]",
		Short: "Ask a gateway whether it is healthy",
		Long: `Ask a gateway whether it is healthy, and print its answer. The exit code is 0 if the gateway is
healthy, for health checks of containers.

If HOST:PORT, --context and --connection-string are not given, the command asks the first
listener of the gateway's configuration, which it reads from flags, environment and file as the
gateway does. It ignores CROSSTOWN_CONNECTION_STRING and the current context, because they may
specify another gateway than that of this container.`,
		Example: `  crosstown health
  crosstown health localhost:5300
  crosstown health --context staging`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if named.Given() {
				if len(args) > 0 {
					return command.Usagef("the gateway is specified twice: use only one of HOST:PORT, --context and --connection-string")
				}
				named.Data = config.Data(environ)
				t, err := named.Target()
				if err != nil {
					return err
				}
				return printHealth(c.Context(), t.HTTP(), t.URL(), c.OutOrStdout())
			}
			if len(args) > 0 {
				return askHealth(c.Context(), args[0], c.OutOrStdout())
			}
			settings, err := config.Load(c.Flags(), environ)
			if err != nil {
				return err
			}
			return askHealth(c.Context(), settings.Listen[0], c.OutOrStdout())
		},
	}
	config.Bind(c.Flags())
	named.BindWhere(c, environ)
	c.Flags().Lookup("connection-string").Usage = "gateway to ask, by the connection `string` of a namespace"
	return c
}

func askHealth(ctx context.Context, listener string, out io.Writer) error {
	host, port, err := net.SplitHostPort(listener)
	if err != nil {
		return fmt.Errorf("%q is not an address: use host:port, such as localhost:5300", listener)
	}
	switch ip := net.ParseIP(host); { // connect to a numeric address, because a container may be unable to resolve names
	case host == "", ip.Equal(net.IPv4zero):
		host = "127.0.0.1"
	case ip.IsUnspecified():
		host = "::1"
	}
	return printHealth(ctx, http.DefaultClient, "http://"+net.JoinHostPort(host, port), out)
}

// printHealth prints the health of a gateway. origin is its URL, such as http://localhost:5672.
func printHealth(ctx context.Context, by *http.Client, origin string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, origin+"/health", nil)
	if err != nil {
		return err
	}
	answer, err := by.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.Copy(out, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", origin, answer.Status)
	}
	return nil
}
