package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

// Plugin is crosstown plugin.
func Plugin(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{Use: "plugin", Short: "List, reload, check and create plugins"})
	c.AddCommand(pluginListCommand(environ), pluginReloadCommand(environ), pluginCheckCommand(), pluginNewCommand(), pluginProtoCommand())
	return c
}

func pluginListCommand(environ []string) *cobra.Command {
	var o command.Flags
	c := &cobra.Command{Use: "list", Short: "List the plugins of a gateway with their state", Args: cobra.NoArgs}
	o.Bind(c, environ)
	c.RunE = func(c *cobra.Command, _ []string) error {
		var states []host.State
		if err := askPlugins(c.Context(), &o, http.MethodGet, "", nil, &states); err != nil {
			return err
		}
		if o.JSON {
			return json.NewEncoder(c.OutOrStdout()).Encode(states)
		}
		return printStates(c.OutOrStdout(), states)
	}
	return c
}

func pluginReloadCommand(environ []string) *cobra.Command {
	var (
		o   command.Flags
		sum string
	)
	c := &cobra.Command{
		Use:   "reload NAME",
		Short: "Replace a plugin's process by a new one without losing a message",
		Long: `Replace a plugin's process by a new one without losing a message.

The gateway starts and checks the new process first. If that fails, the old process goes on.`,
		Args: cobra.ExactArgs(1),
	}
	o.Bind(c, environ)
	c.Flags().StringVar(&sum, "sha256", "", "SHA-256 `checksum` of the new program; needed if the configuration has a checksum")
	c.RunE = func(c *cobra.Command, args []string) error {
		var s host.State
		if err := askPlugins(c.Context(), &o, http.MethodPost, args[0], api.ReloadRequest{SHA256: sum}, &s); err != nil {
			return err
		}
		if o.JSON {
			return json.NewEncoder(c.OutOrStdout()).Encode(s)
		}
		_, err := fmt.Fprintf(c.OutOrStdout(), "reloaded plugin %s\n", strings.Join(append([]string{s.Name}, describe(s.Description)...), ", "))
		return err
	}
	return c
}

// askPlugins asks the gateway about its plugins, or one of them.
func askPlugins(ctx context.Context, o *command.Flags, method, name string, body, answer any) error {
	return o.Ask(ctx, command.Inquiry{Method: method, Path: api.PluginsPath, Names: []string{name}, Body: body}, answer)
}

func printStates(out io.Writer, states []host.State) error {
	if len(states) == 0 {
		_, err := fmt.Fprintln(out, "no plugins: the gateway's configuration names none")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "name\tcondition\tfor\tanswered\tlate\tfailed\twaiting\tlaunches\tis") // an error comes with Flush
	for _, s := range states {
		is := strings.Join(describe(s.Description), ", ")
		if s.Problem != "" && s.Condition != host.Ready {
			is = s.Problem
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%v\t%d\t%d\t%d\t%d\t%d\t%s\n", s.Name, s.Condition, time.Since(s.Since).Round(time.Second),
			s.Calls.Answered, s.Calls.Late, s.Calls.Failed, s.Calls.Waiting, s.Launches, is)
	}
	return w.Flush()
}

// describe lists what a plugin says of itself.
func describe(d *host.Description) []string {
	if d == nil {
		return nil
	}
	said := []string{d.Name}
	if d.Version != "" {
		said[0] += " " + d.Version
	}
	said = append(said, fmt.Sprintf("contract %d", d.Contract))
	if d.Router {
		said = append(said, "router")
		if d.NeedsBody {
			said[len(said)-1] += " (needs bodies)"
		}
	}
	if len(d.ContentTypes) > 0 {
		said = append(said, "serializer of "+strings.Join(d.ContentTypes, " "))
	}
	return said
}
