// Package command contains code that client commands share, for example flags and connections.
package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func Group(c *cobra.Command) *cobra.Command {
	c.Args = Known
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

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
