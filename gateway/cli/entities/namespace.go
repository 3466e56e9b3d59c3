package entities

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

func Namespace(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{
		Use: "namespace", Short: "Create, list, show, update, reset and delete namespaces",
		Long: `Create, list, show, update, reset and delete namespaces.

A policy with Manage on the gateway's own namespace allows all of these commands.
A policy with Manage on another namespace allows show, reset and rotate there.`,
	})
	c.AddCommand(
		namespaceCreateCommand(environ), namespaceUpdateCommand(environ), namespaceListCommand(environ),
		command.Asking(&cobra.Command{Use: "show NAME", Short: "Show a namespace with its policies and connection strings", Args: cobra.ExactArgs(1)}, environ,
			command.About(http.MethodGet, api.NamespacesPath), printNamespace),
		doneToNamespace(environ, "reset NAME", "Remove all messages of a namespace and keep its entities", `Remove all messages of a namespace and keep its entities.

All messages are removed, whatever their state, with session states, schedules and the history
of duplicate detection. Clients stay connected. The time that a reset takes does not depend on
the number of messages.`, http.MethodPost, "reset"),
		doneToNamespace(environ, "delete NAME", "Delete a namespace with all entities and messages", `Delete a namespace with all entities and messages.

The gateway disconnects the clients of the namespace at once. Only namespaces that were created
at run time can be deleted.`, http.MethodDelete, "deleted"),
		command.Asking(&cobra.Command{Use: "rotate NAME POLICY", Short: "Give a policy a new primary key; the old one stays valid as the secondary", Args: cobra.ExactArgs(2)}, environ,
			func(args []string) (command.Inquiry, error) {
				return command.Inquiry{Method: http.MethodPost, Path: api.NamespacesPath, Names: []string{args[0], "policies", args[1], api.Rotate}}, nil
			}, printNamespace),
	)
	return c
}

func namespaceCreateCommand(environ []string) *cobra.Command {
	var (
		hosts    []string
		policies []string
		quotas   api.Quotas
		virtual  bool
		faulty   bool
	)
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a namespace and print its connection strings",
		Long: `Create a namespace and print its connection strings.

Without --policy the namespace gets one policy with all rights,
` + "RootManageSharedAccessKey" + `, with random keys. Clients connect with a policy's
connection string through any host of the gateway, or through a host of the namespace:
NAME.localhost, NAME.servicebus.windows.net and those of --host.`,
		Example: `  crosstown namespace create suite-17
  crosstown namespace create billing --host billing.example.com --policy app:Send,Listen --policy ops=KEY:Manage`,
		Args: cobra.ExactArgs(1),
	}
	f := c.Flags()
	f.StringArrayVar(&hosts, "host", nil, "`host` name by which clients connect to the namespace; repeatable")
	f.StringArrayVar(&policies, "policy", nil, "shared access policy as `NAME[=KEY]:RIGHTS`, such as app:Send,Listen; without a key the gateway generates keys; repeatable")
	f.BoolVar(&virtual, "virtual-time", false, "for tests: allow the namespace's time to be frozen and moved: see crosstown clock")
	f.BoolVar(&faulty, "allow-faults", false, "for tests: allow clients' operations to fail on demand: see crosstown fault")
	bindQuotas(c, &quotas)
	return command.Asking(c, environ, func(args []string) (q command.Inquiry, err error) {
		request := api.NamespaceRequest{Quotas: &quotas}
		if faulty {
			request.AllowFaults = &faulty
		}
		if virtual {
			request.VirtualTime = &virtual
		}
		if hosts != nil {
			request.Hosts = &hosts
		}
		if policies != nil {
			read, err := readPolicies(policies)
			if err != nil {
				return q, err
			}
			request.Policies = &read
		}
		only := http.Header{"If-None-Match": {"*"}}
		return command.Inquiry{Method: http.MethodPut, Path: api.NamespacesPath, Names: args, Header: only, Body: request}, nil
	}, func(w io.Writer, _ []string, n *api.Namespace) error {
		if _, err := fmt.Fprintf(w, "created namespace %s\n", n.Name); err != nil {
			return err
		}
		return printPolicies(w, n.Policies)
	})
}

func bindQuotas(c *cobra.Command, q *api.Quotas) {
	f := c.Flags()
	f.IntVar(&q.MaxEntities, "max-entities", 0, "maximum number of queues and topics; 0: no limit")
	f.IntVar(&q.MaxConnections, "max-connections", 0, "maximum number of simultaneous connections to each gateway; 0: no limit")
	f.Int64Var(&q.MaxSizeMegabytes, "max-size-megabytes", 0, "maximum sum of the sizes of all queues and topics, in MiB; 0: no limit")
}

func namespaceUpdateCommand(environ []string) *cobra.Command {
	var hosts []string
	var quotas api.Quotas
	c := &cobra.Command{
		Use:   "update NAME",
		Short: "Change the given hosts and quotas of a namespace",
		Long: `Change the given hosts and quotas of a namespace.

Only namespaces that were created at run time can be changed. --host replaces all hosts
of the namespace; --host "" leaves only the hosts derived from the namespace's name.`,
		Example: `  crosstown namespace update billing --host billing.example.com --max-entities 100`,
		Args:    cobra.ExactArgs(1),
	}
	c.Flags().StringArrayVar(&hosts, "host", nil, "`host` name by which clients connect to the namespace; repeatable")
	bindQuotas(c, &quotas)
	c.MarkFlagsOneRequired("host", "max-entities", "max-connections", "max-size-megabytes")
	return command.Asking(c, environ, func(args []string) (command.Inquiry, error) {
		var n api.Namespace
		err := command.FlagsOf(c, environ).Ask(c.Context(), command.Inquiry{Method: http.MethodGet, Path: api.NamespacesPath, Names: args}, &n)
		return command.Inquiry{Method: http.MethodPut, Path: api.NamespacesPath, Names: args, Body: requestOf(c, hosts, quotas, n.Quotas)}, err
	}, printNamespace)
}

// requestOf returns a request that changes the hosts and quotas whose flags are set. given has the
// quotas from the flags. quotas has the namespace's current quotas.
func requestOf(c *cobra.Command, hosts []string, given, quotas api.Quotas) (request api.NamespaceRequest) {
	f := c.Flags()
	if f.Changed("host") {
		named := slices.DeleteFunc(hosts, func(h string) bool { return h == "" })
		request.Hosts = &named
	}
	for _, q := range []struct {
		flag string
		set  func()
	}{
		{"max-entities", func() { quotas.MaxEntities = given.MaxEntities }},
		{"max-connections", func() { quotas.MaxConnections = given.MaxConnections }},
		{"max-size-megabytes", func() { quotas.MaxSizeMegabytes = given.MaxSizeMegabytes }},
	} {
		if f.Changed(q.flag) {
			q.set()
			request.Quotas = &quotas
		}
	}
	return request
}

func readPolicies(texts []string) ([]api.Policy, error) {
	var all []api.Policy
	for _, text := range texts {
		colon := strings.LastIndexByte(text, ':')
		if colon < 0 {
			return nil, command.Usagef("--policy %.40q has no rights: write NAME:RIGHTS or NAME=KEY:RIGHTS, such as app:Send,Listen", text)
		}
		if _, err := core.ParseRights(text[colon+1:]); err != nil {
			return nil, command.Usagef("--policy: %w", err)
		}
		name, key, _ := strings.Cut(text[:colon], "=")
		all = append(all, api.Policy{Name: name, PrimaryKey: key, Rights: text[colon+1:]})
	}
	return all, nil
}

func namespaceListCommand(environ []string) *cobra.Command {
	var o command.Flags
	c := &cobra.Command{Use: "list", Short: "List the namespaces of a gateway", Args: cobra.NoArgs}
	o.Bind(c, environ)
	c.RunE = func(c *cobra.Command, _ []string) error {
		rows := o.Rows(c, "NAMESPACE", "KIND", "CONNECTIONS", "HOSTS")
		for after := ""; ; {
			var page api.NamespaceList
			if err := o.Ask(c.Context(), command.Inquiry{Method: http.MethodGet, Path: api.NamespacesPath, Query: url.Values{"after": {after}, "top": {"1000"}}}, &page); err != nil {
				return err
			}
			for _, n := range page.Namespaces {
				rows.Add(n, n.Name, n.Kind, n.Connections, strings.Join(n.Hosts, " "))
			}
			if after = page.Next; after == "" {
				return rows.Flush()
			}
		}
	}
	return c
}

// doneToNamespace returns a command for one namespace. did says what it did, such as "deleted".
func doneToNamespace(environ []string, use, short, long, method, did string) *cobra.Command {
	var sure command.Confirmation
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.ExactArgs(1)}
	sure.Bind(c)
	return command.Asking(c, environ, func(args []string) (command.Inquiry, error) {
		err := sure.ConfirmDelete(c, c.Name()+" the namespace "+args[0], func() (n int64, err error) {
			var all api.EntityList
			err = command.FlagsOf(c, environ).Ask(c.Context(), command.Inquiry{Method: http.MethodGet, Path: api.EntitiesPath, Header: http.Header{api.NamespaceHeader: args}}, &all)
			for i := range all.Entities {
				n += all.Entities[i].Messages()
			}
			return n, err
		})
		names := args[:1:1]
		if method == http.MethodPost {
			names = append(names, api.Reset)
		}
		return command.Inquiry{Method: method, Path: api.NamespacesPath, Names: names}, err
	}, func(w io.Writer, args []string, _ *map[string]string) error {
		return command.Line(w, "%s namespace %s", did, args[0])
	})
}

func printNamespace(out io.Writer, _ []string, n *api.Namespace) error {
	w := command.NewTable(out)
	w.Row("name", n.Name)
	w.Row("kind", n.Kind)
	if !n.CreatedAt.IsZero() {
		w.Row("created", n.CreatedAt.Format("2006-01-02 15:04:05Z07:00"))
	}
	w.Row("hosts", strings.Join(n.Hosts, " "))
	w.Row("connections", n.Connections)
	if n.VirtualTime {
		w.Row("time", "virtual")
	}
	if n.AllowFaults {
		w.Row("faults", "allowed")
	}
	for _, q := range []struct {
		name string
		v    int64
	}{{"max-entities", int64(n.Quotas.MaxEntities)}, {"max-connections", int64(n.Quotas.MaxConnections)}, {"max-size-megabytes", n.Quotas.MaxSizeMegabytes}} {
		if q.v > 0 {
			w.Row(q.name, q.v)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printPolicies(out, n.Policies)
}

func printPolicies(out io.Writer, policies []api.Policy) error {
	for _, p := range policies {
		text := fmt.Sprintf("policy %s (%s)\n", p.Name, p.Rights)
		if p.ConnectionString != "" {
			text += "  connect   " + p.ConnectionString + "\n"
		}
		if p.HostConnectionString != "" {
			text += "  by host   " + p.HostConnectionString + "\n"
		}
		if p.SecondaryKey != "" {
			text += "  also key  " + p.SecondaryKey + "\n"
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
	}
	return nil
}
