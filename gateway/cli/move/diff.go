package move

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/declaration"
)

var ErrDifferent = errors.New("the source differs from the gateway: see the differences above")

type diffOptions struct {
	command.Flags
	namespaceSource
	named bool
}

func Diff(environ []string) *cobra.Command {
	var o diffOptions
	c := &cobra.Command{
		Use:   "diff [FILE]",
		Short: "Compare a configuration, or another source of entities, with a gateway",
		Long: `Compare a configuration file, or another source of entities, with the gateway of
--connection-string (also --to). The command prints a line for each difference: the entity,
the property, and the property's values in the source and in the gateway. It does not compare
settings that the source omits.

` + sourceHelp + `

The exit code is 0 if there are no differences, 3 if there are differences, 1 if the
comparison has failed, and 2 if the command line or FILE is wrong.`,
		Example: `  crosstown diff crosstown.yaml
  crosstown diff --from "$AZURE_CONNECTION_STRING" --to "$GATEWAY_CONNECTION_STRING"`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	bindTarget(&o.Flags, c, environ)
	o.namespaceSource.bind(c)
	c.Flags().BoolVar(&o.JSON, "json", false, "print JSON, one object a line")
	c.Flags().BoolVar(&o.named, "only-named", false, "ignore entities that only the gateway has")
	return c
}

type shownDifference struct {
	Entity   string `json:"entity"`
	Property string `json:"property"`
	Source   string `json:"source"`
	Gateway  string `json:"gateway"`
}

func (o *diffOptions) run(c *cobra.Command, args []string) error {
	contents, name, err := o.read(c.Context(), &o.Flags, args, true, &notes{out: c.ErrOrStderr()})
	if err != nil {
		return err
	}
	t, err := o.Target()
	if err != nil {
		return err
	}
	admin := t.Management(nil)
	var all []shownDifference
	named := map[string]bool{}
	err = declaration.Declare(c.Context(), admin, contents, declaration.Options{DryRun: true, Report: func(r declaration.Report) {
		named[core.FoldName(r.Entity)] = true
		if r.Did == declaration.Created {
			all = append(all, shownDifference{r.Entity, r.Kind.Word(), "exists", "none"})
		}
		for _, n := range r.Differs {
			all = append(all, shownDifference{n.Entity, n.Property, n.Declared, n.There})
		}
	}})
	if err == nil && !o.named {
		var there []core.Entity
		there, err = declaration.Entities(c.Context(), admin, command.AnyIdentity)
		for i := range there {
			if e := &there[i]; !named[core.FoldName(e.Name)] {
				all = append(all, shownDifference{e.Name, e.Kind.Word(), "none", "exists"})
			}
		}
	}
	if err != nil {
		return t.Explain(err)
	}
	if len(all) == 0 {
		return nil
	}
	rows := o.Rows(c, "ENTITY", "PROPERTY", "IN "+name, "AT "+t.Host)
	for _, d := range all {
		rows.Add(d, d.Entity, d.Property, shownValue(d.Source), shownValue(d.Gateway))
	}
	return cmp.Or(rows.Flush(), ErrDifferent)
}

func shownValue(text string) string {
	if text == "" || strings.ContainsAny(text, "\n\t") {
		return fmt.Sprintf("%q", text)
	}
	return text
}
