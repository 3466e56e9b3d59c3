package move

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
)

func Export(environ []string) *cobra.Command {
	var o command.Flags
	var output string
	var short bool
	var whole command.Output
	c := &cobra.Command{
		Use:   "export",
		Short: "Print the queues, topics, subscriptions and rules of a namespace as a configuration file",
		Long: `Print the queues, topics, subscriptions and rules of a namespace, of a gateway or of Azure,
as a configuration file for crosstown --config, crosstown import and crosstown diff.

The file has every setting, and policies of queues and topics with their keys: keep it secret.
The management API does not return policies of the namespace itself. The file has no messages:
use crosstown backup or crosstown record for those.`,
		Example: `  crosstown export > crosstown.yaml
  crosstown export --json
  crosstown export --connection-string "$AZURE_CONNECTION_STRING" --short --output crosstown.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := o.Target()
			if err = errors.Join(err, whole.Check(output)); err != nil {
				return err
			}
			contents, err := liveContents(c.Context(), t, !short, &notes{out: c.ErrOrStderr()})
			if err != nil {
				return t.Explain(err)
			}
			_, _ = fmt.Fprintln(c.ErrOrStderr(), untoldPolicies)
			return writeContents(contents, output, t.Host, o.JSON, c)
		},
	}
	o.Bind(c, environ)
	c.Flags().Lookup("json").Usage = "print the file as one document of JSON"
	c.Flags().StringVar(&output, "output", "-", "`file` to write; - is standard output")
	whole.Bind(c)
	c.Flags().BoolVar(&short, "short", false, "leave out the settings that have their default value")
	return c
}
