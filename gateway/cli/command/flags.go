package command

import (
	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// Flags are the flags of every client command.
type Flags struct {
	Environ          []string // NAME=VALUE entries
	ConnectionString string   // "": not given
	Context          string   // name, "": not given
	CA               string   // PEM file of a trusted authority, "": none
	Data             string   // directory of the local gateway
	Format
}

// Bind adds the flags for the connection, and --json.
func (o *Flags) Bind(c *cobra.Command, environ []string) {
	o.BindConnection(c, environ)
	o.Format.Bind(c)
}

// FlagsOf returns the flags in an incomplete command line, for its completion. The command may lack
// some of the flags.
func FlagsOf(c *cobra.Command, environ []string) *Flags {
	text := func(name string) string {
		if f := c.Flags().Lookup(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	return &Flags{Environ: environ, ConnectionString: text("connection-string"), Context: text("context"), CA: text("ca"), Data: text("data")}
}

// BindConnection adds the flags for the connection.
func (o *Flags) BindConnection(c *cobra.Command, environ []string) {
	o.BindWhere(c, environ)
	c.Flags().StringVar(&o.Data, "data", config.Data(environ), "data `directory` of the local gateway, whose development CA is trusted for this machine")
}

// BindWhere adds the flags that choose a namespace.
func (o *Flags) BindWhere(c *cobra.Command, environ []string) {
	o.Environ = environ
	f := c.Flags()
	f.StringVar(&o.ConnectionString, "connection-string", "", "namespace to use, as a Service Bus connection `string` (default $"+ConnectionVariable+", else the current context, else a local gateway)")
	f.StringVar(&o.Context, "context", "", "`name` of the context to use (crosstown context list)")
	f.StringVar(&o.CA, "ca", "", "PEM `file` of an authority to trust for TLS")
	c.MarkFlagsMutuallyExclusive("connection-string", "context")
}

// Given reports whether one of the flags chooses the namespace.
func (o *Flags) Given() bool { return o.ConnectionString != "" || o.Context != "" }
