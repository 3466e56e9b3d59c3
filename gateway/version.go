package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker for a release.
var version string

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), fullVersion())
			return err
		},
	}
}

// fullVersion is what `crosstown version` and `crosstown --version` print.
func fullVersion() string {
	return fmt.Sprintf("crosstown %s %s %s/%s", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// versionText is the release, or what the module and its revision are called.
func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
