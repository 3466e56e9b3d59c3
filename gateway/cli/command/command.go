// Package command holds what the commands that are clients of a gateway share: the flags that
// choose a namespace, connections to it, requests about the gateway itself, refusals with their
// remedies, and the errors that have exit codes of their own.
package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Group completes a command that only has commands below it: it refuses a word that names none of
// them.
func Group(c *cobra.Command) *cobra.Command {
	c.Args = Known
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

// Known refuses a word that names no command, and suggests commands that may be meant.
func Known(c *cobra.Command, args []string) error {
	err := cobra.NoArgs(c, args)
	if err == nil {
		return nil
	}
	if like := c.SuggestionsFor(args[0]); len(like) > 0 {
		return fmt.Errorf("%w: did you mean %s?", err, strings.Join(like, ", "))
	}
	return err
}
