package setup

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

const maxConnectionString = 1 << 16

func Context(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{
		Use: "context", Short: "Save and choose the namespaces that commands connect to",
		Long: `Save and choose the namespaces that commands connect to.

A context is a connection string with a name. It can also contain the file of a certificate
authority to trust for TLS. A command connects to the namespace that the first of these
settings selects:
  1. --connection-string
  2. --context
  3. CROSSTOWN_CONNECTION_STRING
  4. the context that CROSSTOWN_CONTEXT names
  5. the current context: crosstown context use
  6. a gateway on this machine, localhost:5672, with the development key

Contexts are in the user's configuration directory, in crosstown/contexts.json, or in the file
that CROSSTOWN_CONTEXTS names. They hold keys: only their owner may read the file.`,
		Example: `  crosstown context save staging --from-stdin --ca staging-ca.pem < connection-string
  crosstown context use staging
  crosstown queue list
  crosstown queue list --context production`,
	})
	c.AddCommand(contextSaveCommand(environ), contextUseCommand(environ), contextListCommand(environ),
		contextShowCommand(environ), contextRemoveCommand(environ), contextCurrentCommand(environ))
	return c
}

func contextSaveCommand(environ []string) *cobra.Command {
	var connection, ca string
	var stdin, use bool
	c := &cobra.Command{
		Use: "save NAME", Short: "Save a context, or replace it",
		Long: `Save a context, or replace it. Without --connection-string and --from-stdin the context gets
the connection string in CROSSTOWN_CONNECTION_STRING. --from-stdin keeps the key out of the
list of processes and of the shell's history. The command does not connect to the gateway.`,
		Example: `  crosstown context save staging --from-stdin --use < connection-string
  crosstown context save production --connection-string "$PRODUCTION" --ca production-ca.pem`,
		Args: cobra.ExactArgs(1),
		RunE: changing(environ, func(c *cobra.Command, f *command.Contexts, args []string) (did string, err error) {
			if err := command.CheckContextName(args[0]); err != nil {
				return "", command.Usage(err)
			}
			if f.Named[args[0]], err = readContext(c.InOrStdin(), stdin, cmp.Or(connection, config.Variable(environ, command.ConnectionVariable)), ca); err != nil {
				return "", err
			}
			if use {
				f.Current = args[0]
			}
			return fmt.Sprintf("saved context %s in %s", args[0], f.Path), nil
		}),
	}
	f := c.Flags()
	f.StringVar(&connection, "connection-string", "", "namespace, as a Service Bus connection `string` (default $"+command.ConnectionVariable+")")
	f.BoolVar(&stdin, "from-stdin", false, "read the connection string from standard input")
	f.StringVar(&ca, "ca", "", "PEM `file` of an authority to trust for TLS")
	f.BoolVar(&use, "use", false, "make this context the current one")
	c.MarkFlagsMutuallyExclusive("connection-string", "from-stdin")
	return c
}

func readContext(stdin io.Reader, fromStdin bool, connection, ca string) (made command.Context, err error) {
	made.ConnectionString = connection
	if fromStdin {
		text, err := io.ReadAll(io.LimitReader(stdin, maxConnectionString))
		if err != nil {
			return made, err
		}
		made.ConnectionString = strings.TrimSpace(string(text))
	}
	if made.ConnectionString == "" {
		return made, command.Usagef("no connection string is specified: use --connection-string or --from-stdin, or set %s", command.ConnectionVariable)
	}
	if ca != "" {
		if made.CA, err = filepath.Abs(ca); err != nil {
			return made, err
		}
	}
	return made, command.CheckConnection(made.ConnectionString, made.CA)
}

func reading(environ []string, run func(c *cobra.Command, f *command.Contexts, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		f, err := command.LoadContexts(environ)
		if err != nil {
			return err
		}
		return run(c, f, args)
	}
}

// changing also saves the contexts, and prints what the command did.
func changing(environ []string, change func(c *cobra.Command, f *command.Contexts, args []string) (did string, err error)) func(*cobra.Command, []string) error {
	return reading(environ, func(c *cobra.Command, f *command.Contexts, args []string) error {
		did, err := change(c, f, args)
		if err == nil {
			err = f.Save()
		}
		if err != nil {
			return err
		}
		return command.Line(c.OutOrStdout(), "%s", did)
	})
}

func contextUseCommand(environ []string) *cobra.Command {
	var none bool
	c := &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one, or none with --none",
		Args: func(c *cobra.Command, args []string) error {
			if none {
				return cobra.NoArgs(c, args)
			}
			return cobra.ExactArgs(1)(c, args)
		},
		RunE: changing(environ, func(c *cobra.Command, f *command.Contexts, args []string) (did string, err error) {
			if none {
				f.Current = ""
				return "no context is current: commands connect to a local gateway", nil
			}
			held, err := f.Get(args[0])
			if err != nil {
				return "", err
			}
			f.Current = args[0]
			tellOverruled(c, environ)
			return fmt.Sprintf("commands connect to context %s: %s", args[0], held.Endpoint()), nil
		}),
	}
	c.Flags().BoolVar(&none, "none", false, "have no current context: commands then connect to a local gateway")
	return c
}

func tellOverruled(c *cobra.Command, environ []string) {
	for _, before := range []string{command.ConnectionVariable, command.ContextVariable} {
		if config.Variable(environ, before) != "" {
			_, _ = fmt.Fprintf(c.ErrOrStderr(), "note: %s is set, and commands use it instead of the current context\n", before)
		}
	}
}

func contextRemoveCommand(environ []string) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove a context",
		Args: cobra.ExactArgs(1),
		RunE: changing(environ, func(_ *cobra.Command, f *command.Contexts, args []string) (did string, err error) {
			if _, err := f.Get(args[0]); err != nil {
				return "", err
			}
			delete(f.Named, args[0])
			did = "removed context " + args[0]
			if f.Current == args[0] {
				f.Current = ""
				did += "; no context is current: commands connect to a local gateway"
			}
			return did, nil
		}),
	}
}

type shownContext struct {
	Name             string `json:"name"`
	Current          bool   `json:"current"`
	Endpoint         string `json:"endpoint"`
	Policy           string `json:"policy,omitempty"`
	ConnectionString string `json:"connectionString"` // without secrets, unless the command line requests them
	CA               string `json:"ca,omitempty"`
}

func showContext(f *command.Contexts, name string, reveal bool) shownContext {
	held := f.Named[name]
	parsed, _ := auth.ParseConnectionString(held.ConnectionString) // ignore an error: the command shows an invalid string unchanged
	s := shownContext{
		Name: name, Current: name == f.Current, Endpoint: held.Endpoint(), Policy: parsed.KeyName,
		ConnectionString: held.ConnectionString, CA: held.CA,
	}
	if !reveal {
		s.ConnectionString = config.MaskConnection(held.ConnectionString)
	}
	return s
}

func contextListCommand(environ []string) *cobra.Command {
	var format command.Format
	c := &cobra.Command{
		Use: "list", Short: "List the contexts, without keys",
		Args: cobra.NoArgs,
		RunE: reading(environ, func(c *cobra.Command, f *command.Contexts, _ []string) error {
			all := []shownContext{}
			for _, name := range f.Names() {
				all = append(all, showContext(f, name, false))
			}
			return format.Print(c, all, func(w io.Writer) error {
				tellOverruled(c, environ)
				if len(all) == 0 {
					return command.Line(c.ErrOrStderr(), "there are no contexts in %s: create one with crosstown context save", f.Path)
				}
				table := command.NewTable(w, "CURRENT", "CONTEXT", "ENDPOINT", "POLICY", "CA")
				for _, s := range all {
					table.Row(map[bool]string{true: "*"}[s.Current], s.Name, s.Endpoint, s.Policy, s.CA)
				}
				return table.Flush()
			})
		}),
	}
	format.Bind(c)
	return c
}

func contextShowCommand(environ []string) *cobra.Command {
	var reveal bool
	var format command.Format
	c := &cobra.Command{
		Use: "show [NAME]", Short: "Show a context, by default the current one; --reveal prints its key",
		Example: `  crosstown context show staging --reveal`,
		Args:    cobra.MaximumNArgs(1),
		RunE: reading(environ, func(c *cobra.Command, f *command.Contexts, args []string) error {
			name := cmp.Or(strings.Join(args, ""), f.Current)
			if name == "" {
				return noContext(f)
			}
			if _, err := f.Get(name); err != nil {
				return err
			}
			s := showContext(f, name, reveal)
			return format.Print(c, s, func(w io.Writer) error {
				table := command.NewTable(w)
				table.Row("context", s.Name)
				table.Row("endpoint", s.Endpoint)
				table.Row("policy", s.Policy)
				table.Row("connect", s.ConnectionString)
				if s.CA != "" {
					table.Row("ca", s.CA)
				}
				return table.Flush()
			})
		}),
	}
	c.Flags().BoolVar(&reveal, "reveal", false, "print the key")
	format.Bind(c)
	return c
}

func noContext(f *command.Contexts) error {
	return fmt.Errorf("no context is current in %s, so commands connect to a local gateway: choose a context with crosstown context use NAME", f.Path)
}

func contextCurrentCommand(environ []string) *cobra.Command {
	return &cobra.Command{
		Use: "current", Short: "Print the name of the current context",
		Args: cobra.NoArgs,
		RunE: reading(environ, func(c *cobra.Command, f *command.Contexts, _ []string) error {
			if f.Current == "" {
				return noContext(f)
			}
			tellOverruled(c, environ)
			return command.Line(c.OutOrStdout(), "%s", f.Current)
		}),
	}
}
