// Package command contains code that client commands share, for example flags and connections.
package command

import (
	"fmt"
	"io"
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

func Asking[A any](c *cobra.Command, environ []string, inquiry func(args []string) (Inquiry, error), text func(w io.Writer, args []string, answer *A) error) *cobra.Command {
	var o Flags
	o.Bind(c, environ)
	c.RunE = func(c *cobra.Command, args []string) error {
		q, err := inquiry(args)
		if err != nil {
			return err
		}
		var answer A
		if err := o.Ask(c.Context(), q, &answer); err != nil {
			return err
		}
		return o.Print(c, answer, func(w io.Writer) error { return text(w, args, &answer) })
	}
	return c
}

// About returns a function for Asking, whose Inquiry has the path and the command's arguments.
func About(method, path string) func(args []string) (Inquiry, error) {
	return func(args []string) (Inquiry, error) { return Inquiry{Method: method, Path: path, Names: args}, nil }
}
