package setup

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// Config is crosstown config.
func Config(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{Use: "config", Short: "Check a configuration, and print the one that is in force"})
	check := &cobra.Command{
		Use:   "check FILE",
		Short: "Report all faults of a configuration file, each with its line and the remedy",
		Long: `Report all faults of a configuration file, each with its line and the remedy, as a gateway
would at its start. FILE is a configuration file, or Config.json of the official emulator.
No store is opened and no port is used. Variables of the environment count as they would
for a gateway.

The exit code is 0 if the file is right, else 2.`,
		Example: `  crosstown config check crosstown.yaml`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return checkConfig(c, args[0], environ) },
	}
	show := &cobra.Command{
		Use:   "print",
		Short: "Print the configuration that a gateway would have, and where each setting comes from",
		Long: `Print the configuration that a gateway with these flags and this environment would have, as
a file: each setting with its source, which is a flag, a variable, a line of a file, or the
default. Keys and passwords are masked; the public development key is none. Settings that
say nothing are left out.`,
		Example: `  crosstown config print --config crosstown.yaml --log-level debug`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := config.Print(c.Flags(), environ)
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(text)
			return err
		},
	}
	config.Bind(show.Flags())
	c.AddCommand(check, show)
	return c
}

// checkConfig loads what a gateway would load at its start.
func checkConfig(c *cobra.Command, file string, environ []string) error {
	settings, err := config.Check(file, environ)
	if err != nil {
		return err
	}
	for _, line := range settings.Skipped {
		_, _ = fmt.Fprintln(c.ErrOrStderr(), line)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s is right\n", file)
	return err
}
