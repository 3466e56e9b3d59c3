package cli

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

const maxNames = 1000

// lister returns names for shell completion, at least those that begin with prefix. args are the
// arguments before the one to complete. After an error, lister returns no names: the shell would
// insert an error text into the command line.
type lister func(ctx context.Context, o *command.Flags, args []string, prefix string) []string

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

func at(path string) func([]string) command.Inquiry {
	return func([]string) command.Inquiry { return command.Inquiry{Method: http.MethodGet, Path: path} }
}

var most = url.Values{"top": {strconv.Itoa(maxNames)}}

var (
	namespaceNames = asked(0, func([]string) command.Inquiry {
		return command.Inquiry{Method: http.MethodGet, Path: api.NamespacesPath, Query: most}
	}, func(page *api.NamespaceList) []api.Namespace { return page.Namespaces }, func(n *api.Namespace) string { return n.Name })

	policyNames = asked(1, func(args []string) command.Inquiry {
		return command.Inquiry{Method: http.MethodGet, Path: api.NamespacesPath, Names: args[:1]}
	}, func(n *api.Namespace) []api.Policy { return n.Policies }, func(p *api.Policy) string { return p.Name })

	scheduleNames = asked(0, func([]string) command.Inquiry {
		return command.Inquiry{Method: http.MethodGet, Path: api.SchedulesPath, Query: most}
	}, func(page *api.ScheduleList) []core.ScheduleState { return page.Schedules }, func(s *core.ScheduleState) string { return s.Name })

	pluginNames = asked(0, at(api.PluginsPath), func(all *[]host.State) []host.State { return *all }, func(s *host.State) string { return s.Name })
	faultNames  = asked(0, at(api.FaultsPath), func(l *api.FaultList) []api.Fault { return l.Faults }, func(f *api.Fault) string { return f.Name })

	connectionNames = asked(0, at(api.ConnectionsPath), func(l *api.ConnectionList) []api.Connection { return l.Connections }, func(c *api.Connection) string {
		return cobra.CompletionWithDesc(c.ID, strings.TrimSpace(c.Protocol+" "+c.Product))
	})

	sessionNames = asked(1, func(args []string) command.Inquiry {
		q := command.AboutEntity(http.MethodGet, api.SessionsPath, args[0])
		q.Query = most
		return q
	}, func(l *api.SessionList) []api.Session { return l.Sessions }, func(s *api.Session) string { return s.ID })
)
