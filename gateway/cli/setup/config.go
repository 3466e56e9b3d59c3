package setup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/declaration"
)

func Config(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{Use: "config", Short: "Check a configuration file, and print the configuration that a gateway would have"})
	asJSON := false
	check := &cobra.Command{
		Use:   "check FILE",
		Short: "Report all errors in a configuration file, each with its line and the remedy",
		Long: `Report all errors in a configuration file, each with its line and the remedy, as a gateway
would at its start on an empty store. FILE is a configuration file, or Config.json of the
official emulator. The command opens no store and no port. It reads the same environment
variables as a gateway.

The exit code is 0 if the file is valid, otherwise 2.`,
		Example: `  crosstown config check crosstown.yaml`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return checkConfig(c, args[0], environ) },
	}
	show := &cobra.Command{
		Use:   "print",
		Short: "Print the configuration that a gateway would have, and where each setting comes from",
		Long: `Print the configuration that a gateway with these flags and this environment would have, as a
file. Each line ends with the setting's source: a flag, a variable, a line of a file, or the
default. Keys and passwords are masked, except the public development key. Settings without a
value are omitted. With --json the command prints one document, without the sources.`,
		Example: `  crosstown config print --config crosstown.yaml --log-level debug
  crosstown config print --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := config.Print(c.Flags(), environ)
			if asJSON && err == nil {
				text, err = command.Document(text)
			}
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(text)
			return err
		},
	}
	config.Bind(show.Flags())
	show.Flags().BoolVar(&asJSON, "json", false, "print one document of JSON")
	c.AddCommand(check, show)
	return c
}

func checkConfig(c *cobra.Command, file string, environ []string) error {
	settings, err := config.Check(file, environ)
	if err != nil {
		return err
	}
	for _, line := range append(settings.Skipped, settings.Assumption()) {
		if line != "" {
			_, _ = fmt.Fprintln(c.ErrOrStderr(), line)
		}
	}
	if err := declared(c.Context(), settings); err != nil {
		return command.Usagef("%s: a gateway with an empty store would not start with this file: %v", file, err)
	}
	return command.Line(c.OutOrStdout(), "%s is valid", file)
}

func declared(ctx context.Context, c *config.Config) (err error) {
	all := []config.Contents{c.Contents}
	for i := range c.Namespaces {
		all = append(all, c.Namespaces[i].Contents)
	}
	var filters []broker.Stage
	for i := range c.Plugins {
		filters = append(filters, broker.Stage{Name: c.Plugins[i].Name})
	}
	for i := range all {
		remotes := map[string]core.Remote{}
		for _, r := range all[i].Remotes {
			remotes[r.Name] = nil // the broker checks only that a remote of this name exists
		}
		b := broker.New(memory.New(memory.Options{}), broker.Options{Namespace: "ns", Limits: c.Limits(), PartitionCount: all[i].Partitions, Filters: filters, Remotes: remotes, Logger: slog.New(slog.DiscardHandler)})
		err = errors.Join(err, declaration.Declare(ctx, b, &all[i], declaration.Options{Identity: core.Identity{{Policy: "configuration", Rights: core.AllRights}}}))
	}
	return err
}
