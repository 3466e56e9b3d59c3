package cli

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

// maxNames bounds the names of a kind that a shell is offered.
const maxNames = 1000

// lister lists names for a completion, at least those that begin with prefix. args are the
// arguments before. On an error the list is empty, because an error text would appear in the
// command line.
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

// entityNames are the names of the entities of a kind; for subscriptions, with their topic's.
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

// destinationNames returns the names that messages can be sent to.
func destinationNames(ctx context.Context, o *command.Flags, args []string, prefix string) []string {
	return append(queueNames(ctx, o, args, prefix), topicNames(ctx, o, args, prefix)...)
}

// sourceNames returns the names that messages can be received from. It lists subscriptions only of
// topics that may still be meant.
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

// subscriptionNames are the names of the subscriptions of the first argument.
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

// ruleNames are the rules of the subscription that the first two arguments name.
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

func namespaceNames(ctx context.Context, o *command.Flags, _ []string, _ string) (all []string) {
	var page api.NamespaceList
	_ = o.Ask(ctx, command.Inquiry{Method: http.MethodGet, Path: api.NamespacesPath, Query: url.Values{"top": {"1000"}}}, &page)
	for i := range page.Namespaces {
		all = append(all, page.Namespaces[i].Name)
	}
	return all
}

// policyNames are the policies of the namespace that the first argument names.
func policyNames(ctx context.Context, o *command.Flags, args []string, _ string) (all []string) {
	if len(args) == 0 {
		return nil
	}
	var n api.Namespace
	_ = o.Ask(ctx, command.Inquiry{Method: http.MethodGet, Path: api.NamespacesPath, Names: args[:1]}, &n)
	for _, p := range n.Policies {
		all = append(all, p.Name)
	}
	return all
}

func pluginNames(ctx context.Context, o *command.Flags, _ []string, _ string) (all []string) {
	var states []host.State
	_ = o.Ask(ctx, command.Inquiry{Method: http.MethodGet, Path: api.PluginsPath}, &states)
	for i := range states {
		all = append(all, states[i].Name)
	}
	return all
}

func faultNames(ctx context.Context, o *command.Flags, _ []string, _ string) (all []string) {
	var list api.FaultList
	_ = o.Ask(ctx, command.Inquiry{Method: http.MethodGet, Path: api.FaultsPath}, &list)
	for i := range list.Faults {
		all = append(all, list.Faults[i].Name)
	}
	return all
}

// connectionNames are the ids of connections, each with its client.
func connectionNames(ctx context.Context, o *command.Flags, _ []string, _ string) (all []string) {
	var list api.ConnectionList
	_ = o.Ask(ctx, command.Inquiry{Method: http.MethodGet, Path: api.ConnectionsPath}, &list)
	for i := range list.Connections {
		c := &list.Connections[i]
		all = append(all, cobra.CompletionWithDesc(c.ID, strings.TrimSpace(c.Protocol+" "+c.Product)))
	}
	return all
}

// sessionNames are the sessions of the first argument.
func sessionNames(ctx context.Context, o *command.Flags, args []string, _ string) (all []string) {
	if len(args) == 0 {
		return nil
	}
	var list api.SessionList
	q := command.AboutEntity(http.MethodGet, api.SessionsPath, args[0])
	q.Query = url.Values{"top": {"1000"}}
	_ = o.Ask(ctx, q, &list)
	for i := range list.Sessions {
		all = append(all, list.Sessions[i].ID)
	}
	return all
}
