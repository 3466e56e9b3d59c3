// Package command is what the commands that are clients of a gateway share: the flags that choose a namespace,
// connections to it, requests about the gateway itself, refusals with their remedies, and the errors that
// have exit codes of their own.
package command

import "github.com/spf13/cobra"

// Group completes a command that only has commands below it: one that runs is
// told of a word that names none of them.
func Group(c *cobra.Command) *cobra.Command {
	c.Args = cobra.NoArgs
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}
