package client

import (
	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// Commands returns the client's commands, whose defaults come from an
// environment of NAME=VALUE entries.
func Commands(environ []string) []*cobra.Command {
	return []*cobra.Command{
		sendCommand(environ), receiveCommand(environ), peekCommand(environ), explainCommand(environ),
		queueCommand(environ), topicCommand(environ), subscriptionCommand(environ), ruleCommand(environ), pluginCommand(environ),
		namespaceCommand(environ), remoteCommand(environ),
	}
}

// common are the flags of every client command.
type common struct {
	connectionString string
	ca               string
	data             string
	json             bool
}

func (o *common) bind(c *cobra.Command, environ []string) {
	f := c.Flags()
	f.StringVar(&o.connectionString, "connection-string", "", "namespace to use, as a Service Bus connection `string` (default $"+connectionVariable+", else a local gateway's)")
	f.StringVar(&o.ca, "ca", "", "PEM `file` of an authority to trust for TLS")
	f.StringVar(&o.data, "data", config.Data(environ), "data `directory` of the local gateway, whose development CA is trusted for this machine")
	f.BoolVar(&o.json, "json", false, "print JSON")
	c.PreRun = func(*cobra.Command, []string) {
		if o.connectionString == "" {
			o.connectionString = config.Variable(environ, connectionVariable)
		}
	}
}
