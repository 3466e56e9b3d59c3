package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/faults"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/cli/messages"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

const completionTimeout = 1500 * time.Millisecond

// flagValues contains the values that a flag accepts. A key begins with the name of the command if
// the values depend on the command. Flags of settings have the annotation config.FlagValues.
var flagValues = map[string][]string{
	"bench --mode":   {"throughput", "latency", "lone", "sessions", "idle"},
	"bench --settle": {"batch", "each", "first", "none"},
	"receive --mode": {"peeklock", "delete"},
	"purge --state":  append(slices.Clone(messages.PurgeStates), "all"),
	"--effect":       command.Words(faults.Effects()),
	"--missed":       {core.MissedOnce, core.MissedSkip},
	"--operation":    command.Words(faults.Operations()),
	"--rights":       {"Send", "Listen", "Send,Listen", "Manage"},
	"--status":       command.Words(core.Statuses[:]),
	"--store":        {"auto", "file", "memory", "redis://", "rediss://"},
	"--strict":       {"standard", "premium"},
	"--sync":         {"always", "interval", "never"},
}

// flagNames contains functions that list names for the values of flags, such as queues. The keys
// are flags, after the name of the command if they depend on it.
var flagNames = map[string]lister{
	"move --to":                         destinationNames,
	"resubmit --to":                     destinationNames,
	"create --entity":                   destinationNames,
	"update --entity":                   destinationNames,
	"entity":                            sourceNames,
	"forward-to":                        destinationNames,
	"forward-dead-lettered-messages-to": destinationNames,
	"dead-letters-into":                 destinationNames,
	"reply-to":                          destinationNames,
	"namespace":                         namespaceNames,
	"context":                           contextNames,
	"diff --from":                       contextNames,
	"import --from":                     contextNames,
	"migrate --from":                    contextNames,
}

var argumentNames = map[string]lister{
	"ENTITY":       sourceNames,
	"TOPIC":        topicNames,
	"SUBSCRIPTION": subscriptionNames,
	"POLICY":       policyNames,
}

// kindNames contains functions that list names for the argument NAME or ID, by parent command.
var kindNames = map[string]lister{
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
		list := flagNames[c.Name()+" --"+f.Name]
		if list == nil {
			list = flagNames[f.Name]
		}
		values := flagValues[c.Name()+" --"+f.Name]
		if values == nil {
			values = flagValues["--"+f.Name]
		}
		if values == nil {
			values = f.Annotations[config.FlagValues]
		}
		if list == nil && values != nil {
			list = func(context.Context, *command.Flags, []string, string) []string { return values }
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
		return kindNames[c.Parent().Name()], false
	case "FILE", "PATH", "DIR":
		return nil, true
	}
	if word == "ENTITY" && c.Name() == "send" {
		return destinationNames, false
	}
	return argumentNames[word], false
}

func named(c *cobra.Command, environ []string, list lister, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), completionTimeout)
	defer cancel()
	all := list(ctx, command.FlagsOf(c, environ), args, prefix)
	return slices.DeleteFunc(slices.Clone(all), func(text string) bool { return !strings.HasPrefix(text, prefix) }), cobra.ShellCompDirectiveNoFileComp
}
