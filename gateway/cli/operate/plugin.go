package operate

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

func Plugin(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{Use: "plugin", Short: "List, reload, check and create plugins"})
	c.AddCommand(
		command.Asking(&cobra.Command{Use: "list", Short: "List the plugins of a gateway with their state", Args: cobra.NoArgs}, environ, command.About(http.MethodGet, api.PluginsPath), printStates),
		pluginReloadCommand(environ), pluginCheckCommand(), pluginNewCommand(), pluginProtoCommand(),
	)
	return c
}

func pluginReloadCommand(environ []string) *cobra.Command {
	var sum string
	c := &cobra.Command{
		Use:   "reload NAME",
		Short: "Replace a plugin's process with a new one without losing a message",
		Long: `Replace a plugin's process with a new one without losing a message.

The gateway starts and checks the new process first. If that fails, the old process continues.`,
		Args: cobra.ExactArgs(1),
	}
	c.Flags().StringVar(&sum, "sha256", "", "SHA-256 `checksum` of the new program; required if the configuration has a checksum of this plugin")
	return command.Asking(c, environ, func(args []string) (command.Inquiry, error) {
		return command.Inquiry{Method: http.MethodPost, Path: api.PluginsPath, Names: args, Body: api.ReloadRequest{SHA256: sum}}, nil
	}, func(w io.Writer, _ []string, s *host.State) error {
		return command.Line(w, "reloaded plugin %s", strings.Join(append([]string{s.Name}, describe(s.Description)...), ", "))
	})
}

func printStates(out io.Writer, _ []string, states *[]host.State) error {
	if len(*states) == 0 {
		return command.Line(out, "no plugins: the gateway's configuration lists no plugins")
	}
	w := command.NewTable(out, "name", "condition", "for", "answered", "late", "failed", "waiting", "launches", "is")
	for _, s := range *states {
		is := strings.Join(describe(s.Description), ", ")
		if s.Problem != "" && s.Condition != host.Ready {
			is = s.Problem
		}
		w.Row(s.Name, s.Condition, time.Since(s.Since).Round(time.Second), s.Calls.Answered, s.Calls.Late, s.Calls.Failed, s.Calls.Waiting, s.Launches, is)
	}
	return w.Flush()
}

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
