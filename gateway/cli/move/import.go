package move

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/declaration"
	"github.com/crosstown-mq/crosstown/internal/durable"
)

func bindTarget(o *command.Flags, c *cobra.Command, environ []string) {
	c.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "to" {
			name = "connection-string"
		}
		return pflag.NormalizedName(name)
	})
	o.BindConnection(c, environ)
}

type importOptions struct {
	command.Flags
	namespaceSource
	output string
	whole  command.Output
	short  bool
	update bool
	dryRun bool
}

func Import(environ []string) *cobra.Command {
	var o importOptions
	c := &cobra.Command{
		Use:   "import [FILE]",
		Short: "Create the queues, topics, subscriptions and rules of Azure, the emulator or a file",
		Long: `Create the queues, topics, subscriptions and rules of a live namespace (--from), of the
official emulator, of an ARM template or of a configuration file. The command creates them in the
gateway of --connection-string (also --to), or writes them to a configuration file (--output).

` + sourceHelp + `

Existing entities stay as they are, and the command prints how they differ; --update changes
them. The command prints each property that Crosstown does not have. It imports policies of
queues and topics with their keys. An ARM template has no keys, so the gateway generates new
keys; with --output, the gateway that later reads the file generates them. The command does not
import policies of the namespace itself, which belong in the gateway's configuration. It does
not move messages: use crosstown migrate.`,
		Example: `  crosstown import Config.json
  crosstown import --from "$AZURE_CONNECTION_STRING" --output crosstown.yaml
  az bicep build --file bus.bicep && crosstown import bus.json --parameter env=test --dry-run`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	bindTarget(&o.Flags, c, environ)
	o.namespaceSource.bind(c)
	f := c.Flags()
	f.StringVar(&o.output, "output", "", "write a configuration `file` for crosstown --config instead of creating entities in a gateway; - is standard output")
	f.BoolVar(&o.short, "short", false, "with --output: leave out the settings that have their default value")
	o.whole.Bind(c)
	f.BoolVar(&o.update, "update", false, "change existing entities that differ from the source")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what the command would do, and change nothing")
	c.MarkFlagsMutuallyExclusive("output", "connection-string")
	c.MarkFlagsMutuallyExclusive("output", "update")
	c.MarkFlagsMutuallyExclusive("output", "dry-run")
	return c
}

func (o *importOptions) run(c *cobra.Command, args []string) error {
	if err := o.whole.Check(o.output); err != nil {
		return err
	}
	notes := &notes{out: c.ErrOrStderr()}
	contents, name, err := o.read(c.Context(), &o.Flags, args, !o.short, notes)
	if err != nil {
		return err
	}
	if o.from != "" {
		_, _ = fmt.Fprintln(c.ErrOrStderr(), untoldPolicies)
	}
	if o.output != "" {
		return writeContents(contents, o.output, name, false, c)
	}
	namespacePolicies(contents.Policies, notes)
	t, err := o.Target()
	if err != nil {
		return err
	}
	done := map[declaration.Did]int{}
	err = declaration.Declare(c.Context(), t.Management(nil), contents, declaration.Options{Update: o.update, DryRun: o.dryRun, Report: func(r declaration.Report) {
		done[r.Did]++
		o.tell(c.OutOrStdout(), &r)
	}})
	verb := ""
	if o.dryRun {
		verb = "would be "
	}
	_, _ = fmt.Fprintf(c.ErrOrStderr(), "entities of %[1]s: %[3]d %[2]screated, %[4]d %[2]schanged; %[5]d the same, %[6]d different, %[7]d not taken over\n",
		name, verb, done[declaration.Created], done[declaration.Changed], done[declaration.Same], done[declaration.Differs], notes.n)
	if done[declaration.Differs] > 0 && !o.update {
		_, _ = fmt.Fprintln(c.ErrOrStderr(), "to change the entities that differ from the source, use --update")
	}
	return t.Explain(err)
}

func (o *importOptions) tell(w io.Writer, r *declaration.Report) {
	kind := map[bool]string{true: "would be ", false: ""}[o.dryRun && r.Did != declaration.Same && r.Did != declaration.Differs]
	switch r.Did {
	case declaration.Created:
		_, _ = fmt.Fprintf(w, "%s%s %s %s\n", kind, r.Did, r.Kind.Word(), r.Entity)
	case declaration.Changed, declaration.Differs:
		for _, n := range r.Differs {
			_, _ = fmt.Fprintf(w, "%s%s %s %s: %s: %s in the source, %s in the gateway\n", kind, r.Did, r.Kind.Word(), r.Entity, n.Property, shownValue(n.Declared), shownValue(n.There))
		}
	}
	for _, p := range r.NewKeys {
		_, _ = fmt.Fprintf(w, "generated new keys for policy %s of %s: crosstown export shows them\n", p, r.Entity)
	}
}

const untoldPolicies = "the management API does not return the policies of the namespace itself: add the policies that clients use to the configuration of the gateway, under policies"

// writeContents writes a file that only its owner may read, because it may contain keys.
func writeContents(contents *config.Contents, output, name string, asJSON bool, c *cobra.Command) error {
	text, err := contents.YAML()
	if asJSON && err == nil {
		text, err = command.Document(text)
	} else {
		text = append([]byte("# Entities of "+name+". Use it with: crosstown --config FILE\n"), text...)
	}
	if err != nil {
		return err
	}
	if output == "-" {
		_, err = c.OutOrStdout().Write(text)
	} else {
		err = command.WriteWhole(output, durable.Content(text))
	}
	if err != nil {
		return err
	}
	_, told := fmt.Fprintf(c.ErrOrStderr(), "entities of %s: %s\n", name, count(contents))
	return told
}
