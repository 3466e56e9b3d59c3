package operate

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/project"
	"github.com/crosstown-mq/crosstown/plugins/host"
	pluginv1 "github.com/crosstown-mq/crosstown/plugins/proto/v1"
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

func pluginCheckCommand() *cobra.Command {
	var o host.Options
	var format command.Format
	c := &cobra.Command{
		Use:   "check PATH [-- ARGS...]",
		Short: "Start a plugin's program, check the handshake and print what it implements",
		Long: `Start a plugin's program, check the handshake and print what it implements.

The exit code is 0 if a gateway can use the program. The program's output goes to
standard error.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Name, o.Path, o.Args = "check", args[0], args[1:]
			began := time.Now()
			d, err := host.Check(c.Context(), o, slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil)))
			if err != nil {
				return fmt.Errorf("a gateway cannot use %s: %w", args[0], err)
			}
			return format.Tell(c, d, "%s is usable: %s, ready after %v", args[0], strings.Join(describe(d), ", "), time.Since(began).Round(time.Millisecond))
		},
	}
	f := c.Flags()
	f.StringVar(&o.SHA256, "sha256", "", "SHA-256 `checksum` that the program must have")
	f.StringArrayVar(&o.Env, "env", nil, "environment `variable` of the plugin, NAME=VALUE or NAME; repeatable")
	f.StringVar(&o.Dir, "dir", "", "working `directory` of the plugin")
	format.Bind(c)
	return c
}

func pluginNewCommand() *cobra.Command {
	var p project.Project
	c := &cobra.Command{
		Use:   "new router|serializer NAME",
		Short: "Create a Go project for a new plugin",
		Long: `Create a Go project for a new plugin, and print the next steps.

The project needs Crosstown's module. If crosstown is a release, go mod tidy downloads it.
If crosstown was built from source, go.mod refers to that source: the directory of
--replace, otherwise the checkout that contains the working directory or the program.`,
		Example: `  crosstown plugin new router stamp
  crosstown plugin new serializer protobuf --replace ~/src/crosstown`,
		Args:      cobra.ExactArgs(2),
		ValidArgs: []string{project.Router, project.Serializer},
		RunE: func(c *cobra.Command, args []string) error {
			p.Kind, p.Name = args[0], args[1]
			p.Dir = cmp.Or(p.Dir, p.Name)
			if info, ok := debug.ReadBuildInfo(); ok {
				p.Version = info.Main.Version
			}
			if p.Replace == "" && !project.Published(p.Version) {
				p.Replace = project.Source(directories()...)
			}
			written, err := p.Write()
			if err != nil {
				return command.Usage(err)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "wrote %s: %s\n%s", p.Dir, strings.Join(written, ", "), nextSteps(&p))
			return err
		},
	}
	c.Flags().StringVar(&p.Dir, "dir", "", "`directory` to write to (default NAME)")
	c.Flags().StringVar(&p.Replace, "replace", "", "`directory` of Crosstown's source to use instead of a download")
	return c
}

func directories() (all []string) {
	if dir, err := os.Getwd(); err == nil {
		all = append(all, dir)
	}
	if program, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(program); err == nil {
			program = real
		}
		all = append(all, filepath.Dir(program))
	}
	return all
}

func nextSteps(p *project.Project) string {
	var b strings.Builder
	if p.Replace != "" {
		fmt.Fprintf(&b, "the project's go.mod uses Crosstown's source in %s\n", p.Replace)
	}
	fmt.Fprintf(&b, "next:\n  cd %s\n", p.Dir)
	if p.Replace == "" && !project.Published(p.Version) {
		b.WriteString("  go mod edit -replace github.com/crosstown-mq/crosstown=DIR  # a checkout of Crosstown: this program is not a release\n")
	}
	fmt.Fprintf(&b, "  go mod tidy && go test . && go build -o %s .\n  crosstown plugin check ./%[1]s\nREADME.md describes how a gateway runs the plugin\n", p.Name)
	return b.String()
}

func pluginProtoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "proto",
		Short: "Print the plugin contract (protobuf), for plugins in languages other than Go",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(c.OutOrStdout(), pluginv1.Source)
			return err
		},
	}
}
