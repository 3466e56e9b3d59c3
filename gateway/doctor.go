package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/doctor"
)

// errSick is the end of an examination in which a check has failed.
var errSick = errors.New("some checks have failed: see the remedies above")

func doctorCommand(environ []string) *cobra.Command {
	var named command.Flags
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check what a gateway and its clients need on this machine, and say what to do",
		Long: `Check what a gateway and its clients need on this machine, and say what to do: the
configuration, the ports, the store and what a loss of power would lose, clocks, the
certificate or the development CA and whether the SDKs of this machine trust it, limits,
and the health and version of the gateway that commands connect to. At the end it lists
what each SDK is known to need.

The flags and the environment are those of the gateway: so doctor looks at the one that
"crosstown serve" with the same flags would start, and works whether it runs or not. It
changes nothing.

Each check ends with ok, warn or fail. The exit code is 1 if one has failed.`,
		Example: `  crosstown doctor
  crosstown doctor --config crosstown.yaml
  crosstown doctor --store redis://10.0.0.5:6379 --context production --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o := doctor.Options{Version: fullVersion(), Environ: environ}
			if o.Config, o.Problems = config.Load(c.Flags(), environ); o.Problems != nil {
				o.Config = config.Default()
				o.Config.Data = config.Data(environ)
			}
			o.Gateway, o.Unknown = named.Reach(o.Config.Data)
			report := doctor.Examine(c.Context(), o)
			write := report.Write
			if asJSON {
				write = report.JSON
			}
			if err := write(c.OutOrStdout()); err != nil {
				return err
			}
			if report.Failed() {
				return errSick
			}
			return nil
		},
	}
	config.Bind(c.Flags())
	named.BindWhere(c, environ)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
