package move

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/declaration"
)

type namespaceSource struct {
	from       string
	namespace  string
	parameters []string
	file       string // parameters file of an ARM template
}

const sourceHelp = `FILE is one of:
  - a configuration file of Crosstown, in YAML;
  - Config.json of the official emulator;
  - an ARM template, which 'az bicep build' creates from Bicep: queues, topics, subscriptions,
    rules and authorization rules, nested or not, in loops and modules. If only Azure can
    evaluate an expression, the command reports an error with the expression: supply the
    value with --parameter, or with a parameters file (--parameters).`

func (s *namespaceSource) bind(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.from, "from", "", "namespace of Azure or of a gateway to read instead of FILE: a connection `string` whose policy has Manage, or the name of a context")
	f.StringVar(&s.namespace, "namespace", "", "`name` of the namespace to read if FILE has several")
	f.StringArrayVar(&s.parameters, "parameter", nil, "value of a parameter of the ARM template in FILE, `NAME=VALUE`; repeatable")
	f.StringVar(&s.file, "parameters", "", "parameters `file` of the ARM template, in the format of az deployment group create; --parameter overrides its values")
}

func (s *namespaceSource) read(ctx context.Context, o *command.Flags, args []string, defaults bool, notes *notes) (*config.Contents, string, error) {
	if (len(args) > 0) == (s.from != "") {
		return nil, "", command.Usagef("specify one source: a FILE, or --from CONNECTION-STRING for a live namespace")
	}
	if s.from != "" {
		if s.namespace != "" || len(s.parameters) > 0 || s.file != "" {
			return nil, "", command.Usagef("--namespace, --parameter and --parameters apply only to a FILE: the connection string of --from determines the namespace")
		}
		t, err := o.Other(s.from)
		if err != nil {
			return nil, "", err
		}
		contents, err := liveContents(ctx, t, defaults, notes)
		return contents, t.Host, t.Explain(err)
	}
	given := map[string]string{}
	for _, text := range s.parameters {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, "", command.Usagef("--parameter is %q: write NAME=VALUE", text)
		}
		given[name] = value
	}
	source, err := config.ReadSource(args[0], config.SourceOptions{Namespace: s.namespace, Parameters: given, File: s.file, Environ: o.Environ})
	if err != nil {
		return nil, "", err
	}
	for _, line := range source.Skipped {
		notes.add("%s", line)
	}
	return &source.Contents, args[0], nil
}

type notes struct {
	out io.Writer
	n   int
}

func (n *notes) add(format string, args ...any) {
	n.n++
	_, _ = fmt.Fprintf(n.out, "not taken over: "+format+"\n", args...)
}

func liveContents(ctx context.Context, t *command.Target, defaults bool, notes *notes) (*config.Contents, error) {
	all, err := declaration.Described(ctx, t.Management(func(entity, property, value string) {
		notes.add("%s: %s is %.60q, and Crosstown has no such property", entity, property, value)
	}), nil)
	if err != nil {
		return nil, err
	}
	return config.Describe(all, defaults), nil
}

func count(c *config.Contents) string {
	all, rules := c.Declared(), 0
	for i := range all {
		rules += len(all[i].Rules)
	}
	return fmt.Sprintf("%s, %s, %s, %s", command.Plural(len(c.Queues), "queue"), command.Plural(len(c.Topics), "topic"), command.Plural(len(all)-len(c.Queues)-len(c.Topics), "subscription"), command.Plural(rules, "rule"))
}

// namespacePolicies lists the policies of the namespace for the user to add: the management API can
// neither read nor change them.
func namespacePolicies(all []config.Policy, notes *notes) {
	for _, p := range all {
		notes.add("policy %s (%s) of the namespace: give it to the gateway in its configuration, under policies, or with --policy %[1]s=KEY:%[2]s", p.Name, p.Rights)
	}
}
