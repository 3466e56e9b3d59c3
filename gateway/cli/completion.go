package cli

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/faults"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/cli/messages"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

const completionTimeout = 1500 * time.Millisecond

// flags contains what completes the value of a flag. A key begins with the name of the command if
// the values depend on the command. Flags of settings have the annotation config.FlagValues.
var flags = map[string]lister{
	"bench --mode":   values("throughput", "latency", "lone", "sessions", "idle"),
	"bench --settle": values("batch", "each", "first", "none"),
	"receive --mode": values("peeklock", "delete"),
	"purge --state":  values(append(slices.Clone(messages.PurgeStates), "all")...),
	"--effect":       values(faults.Effects()...),
	"--missed":       values(core.MissedOnce, core.MissedSkip),
	"--operation":    values(faults.Operations()...),
	"--rights":       values("Send", "Listen", "Send,Listen", "Manage"),
	"--status":       values(core.Statuses[:]...),
	"--store":        values("auto", "file", "memory", "redis://", "rediss://"),
	"--strict":       values("standard", "premium"),
	"--sync":         values("always", "interval", "never"),

	"move --to":                           destinationNames,
	"resubmit --to":                       destinationNames,
	"create --entity":                     destinationNames,
	"update --entity":                     destinationNames,
	"--entity":                            sourceNames,
	"--forward-to":                        destinationNames,
	"--forward-dead-lettered-messages-to": destinationNames,
	"--dead-letters-into":                 destinationNames,
	"--reply-to":                          destinationNames,
	"--namespace":                         namespaceNames,
	"--context":                           contextNames,
	"diff --from":                         contextNames,
	"import --from":                       contextNames,
	"migrate --from":                      contextNames,
}

// arguments contains functions that list names for an argument, by the argument in the help or, for
// NAME and ID, by parent command.
var arguments = map[string]lister{
	"ENTITY":       sourceNames,
	"TOPIC":        topicNames,
	"SUBSCRIPTION": subscriptionNames,
	"POLICY":       policyNames,
	"queue":        queueNames,
	"topic":        topicNames,
	"subscription": subscriptionNames,
	"rule":         ruleNames,
	"schedule":     scheduleNames,
	"namespace":    namespaceNames,
	"context":      contextNames,
	"plugin":       pluginNames,
	"fault":        faultNames,
	"session":      sessionNames,
	"connection":   connectionNames,
}

func Complete(c *cobra.Command, environ []string) {
	for _, below := range c.Commands() {
		Complete(below, environ)
	}
	if c.ValidArgs == nil && c.ValidArgsFunction == nil && !c.HasSubCommands() {
		c.ValidArgsFunction = func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			switch list, file := argument(c, len(args)); {
			case file:
				return nil, cobra.ShellCompDirectiveDefault
			case list != nil:
				return named(c, environ, list, args, prefix)
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		list := flags[c.Name()+" --"+f.Name]
		if list == nil {
			list = flags["--"+f.Name]
		}
		if words := f.Annotations[config.FlagValues]; list == nil && words != nil {
			list = values(words...)
		}
		if list != nil {
			_ = c.RegisterFlagCompletionFunc(f.Name, func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
				return named(c, environ, list, args, prefix)
			})
		}
	})
}

func argument(c *cobra.Command, at int) (list lister, file bool) {
	words := slices.DeleteFunc(strings.Fields(c.Use)[1:], func(w string) bool { return strings.HasPrefix(w, "-") })
	if len(words) == 0 {
		return nil, false
	}
	word := words[min(at, len(words)-1)]
	if at >= len(words) && !strings.Contains(word, "…") {
		return nil, false
	}
	switch word = strings.Trim(word, "[]…."); word {
	case "NAME", "ID":
		if c.Parent() == nil || slices.Contains([]string{"create", "new"}, c.Name()) {
			return nil, false
		}
		return arguments[c.Parent().Name()], false
	case "FILE", "PATH", "DIR":
		return nil, true
	}
	if word == "ENTITY" && c.Name() == "send" {
		return destinationNames, false
	}
	return arguments[word], false
}

func named(c *cobra.Command, environ []string, list lister, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), completionTimeout)
	defer cancel()
	all := list(ctx, command.FlagsOf(c, environ), args, prefix)
	return slices.DeleteFunc(slices.Clone(all), func(text string) bool { return !strings.HasPrefix(text, prefix) }), cobra.ShellCompDirectiveNoFileComp
}

const maxNames = 1000

// lister returns names for shell completion, at least those that begin with prefix. args are the
// arguments before the one to complete. After an error, lister returns no names: the shell would
// insert an error text into the command line.
type lister func(ctx context.Context, o *command.Flags, args []string, prefix string) []string

func values[T ~string](all ...T) lister {
	words := command.Words(all)
	return func(context.Context, *command.Flags, []string, string) []string { return words }
}

func contextNames(_ context.Context, o *command.Flags, _ []string, _ string) (all []string) {
	f, err := command.LoadContexts(o.Environ)
	if err != nil {
		return nil
	}
	for _, name := range f.Names() {
		all = append(all, cobra.CompletionWithDesc(name, f.Named[name].Endpoint()))
	}
	return all
}

func entityNames(ctx context.Context, o *command.Flags, l core.Listing) (all []string) {
	t, err := o.Target()
	if err != nil {
		return nil
	}
	found, _, _ := t.Management(nil).Entities(ctx, nil, l, 0, maxNames)
	for _, e := range found {
		all = append(all, e.Name)
	}
	return all
}

func queueNames(ctx context.Context, o *command.Flags, _ []string, _ string) []string {
	return entityNames(ctx, o, core.Listing{Kind: core.Queue})
}

func topicNames(ctx context.Context, o *command.Flags, _ []string, _ string) []string {
	return entityNames(ctx, o, core.Listing{Kind: core.Topic})
}

func destinationNames(ctx context.Context, o *command.Flags, args []string, prefix string) []string {
	return append(queueNames(ctx, o, args, prefix), topicNames(ctx, o, args, prefix)...)
}

// sourceNames lists queues, and the subscriptions of topics that match prefix.
func sourceNames(ctx context.Context, o *command.Flags, args []string, prefix string) []string {
	all := queueNames(ctx, o, args, prefix)
	wanted, _, whole := strings.Cut(prefix, "/")
	for _, topic := range topicNames(ctx, o, args, prefix) {
		if topic == wanted || !whole && strings.HasPrefix(topic, wanted) {
			all = append(all, entityNames(ctx, o, core.Listing{Kind: core.Subscription, Topic: topic})...)
		}
	}
	return all
}

func subscriptionNames(ctx context.Context, o *command.Flags, args []string, _ string) (all []string) {
	if len(args) == 0 {
		return nil
	}
	for _, path := range entityNames(ctx, o, core.Listing{Kind: core.Subscription, Topic: args[0]}) {
		_, name, _ := core.SplitSubscription(path)
		all = append(all, name)
	}
	return all
}

func ruleNames(ctx context.Context, o *command.Flags, args []string, _ string) (all []string) {
	t, err := o.Target()
	if err != nil || len(args) < 2 {
		return nil
	}
	rules, _ := t.Management(nil).Rules(ctx, nil, core.SubscriptionPath(args[0], args[1]), 0, maxNames)
	for i := range rules {
		all = append(all, rules[i].Name)
	}
	return all
}

// asked returns a lister that sends an inquiry and lists the names in the answer. If the command
// line has fewer than least arguments, the lister returns no names.
func asked[A, E any](least int, ask func(args []string) command.Inquiry, list func(answer *A) []E, name func(*E) string) lister {
	return func(ctx context.Context, o *command.Flags, args []string, _ string) (all []string) {
		if len(args) < least {
			return nil
		}
		var answer A
		_ = o.Ask(ctx, ask(args), &answer)
		for _, e := range list(&answer) {
			all = append(all, name(&e))
		}
		return all
	}
}

func at(path string, query url.Values) func([]string) command.Inquiry {
	return func([]string) command.Inquiry {
		return command.Inquiry{Method: http.MethodGet, Path: path, Query: query}
	}
}

var most = url.Values{"top": {strconv.Itoa(maxNames)}}

var (
	namespaceNames = asked(0, at(api.NamespacesPath, most), func(page *api.NamespaceList) []api.Namespace { return page.Namespaces }, func(n *api.Namespace) string { return n.Name })

	policyNames = asked(1, func(args []string) command.Inquiry {
		return command.Inquiry{Method: http.MethodGet, Path: api.NamespacesPath, Names: args[:1]}
	}, func(n *api.Namespace) []api.Policy { return n.Policies }, func(p *api.Policy) string { return p.Name })

	scheduleNames = asked(0, at(api.SchedulesPath, most), func(page *api.ScheduleList) []core.ScheduleState { return page.Schedules }, func(s *core.ScheduleState) string { return s.Name })

	pluginNames = asked(0, at(api.PluginsPath, nil), func(all *[]host.State) []host.State { return *all }, func(s *host.State) string { return s.Name })
	faultNames  = asked(0, at(api.FaultsPath, nil), func(l *api.FaultList) []api.Fault { return l.Faults }, func(f *api.Fault) string { return f.Name })

	connectionNames = asked(0, at(api.ConnectionsPath, nil), func(l *api.ConnectionList) []api.Connection { return l.Connections }, func(c *api.Connection) string {
		return cobra.CompletionWithDesc(c.ID, strings.TrimSpace(c.Protocol+" "+c.Product))
	})

	sessionNames = asked(1, func(args []string) command.Inquiry {
		q := command.AboutEntity(http.MethodGet, api.SessionsPath, args[0])
		q.Query = most
		return q
	}, func(l *api.SessionList) []api.Session { return l.Sessions }, func(s *api.Session) string { return s.ID })
)
