package test

import (
	"cmp"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core/faults"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

// inNamespace returns a request for own, a path for the namespace of the connection string, or for
// the same below the path of the given namespace.
func inNamespace(method, namespace, own, below string, names ...string) command.Inquiry {
	if namespace == "" {
		return command.Inquiry{Method: method, Path: own, Names: names}
	}
	return command.Inquiry{Method: method, Path: api.NamespacesPath, Names: append([]string{namespace, below}, names...)}
}

func Fault(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{
		Use: "fault", Short: "Make operations of clients fail on demand, for tests",
		Long: `Make operations of clients fail on demand, to test how an application reacts.

A rule says which operations of clients fail, how often and how. The first rule that matches an
operation applies. Gateways on the same Redis share the rules of a namespace that was created at
run time, but each gateway counts only its own operations. A rule ends after the time in
--life, by default after an hour.

Faults happen only in namespaces that allow them: created with crosstown namespace create NAME
--allow-faults, or configured with allow-faults: true. A policy with Manage on the namespace
allows these commands.`,
	})
	c.AddCommand(faultAddCommand(environ))
	for _, each := range []struct{ use, short, method string }{
		{"list", "List the fault rules, with the number of operations that they affected", http.MethodGet},
		{"remove NAME", "Remove a fault rule", http.MethodDelete},
		{"clear", "Remove all fault rules", http.MethodDelete},
	} {
		var namespace string
		sub := &cobra.Command{Use: each.use, Short: each.short, Args: cobra.ExactArgs(len(strings.Fields(each.use)) - 1)}
		bindNamespace(sub, &namespace)
		c.AddCommand(command.Asking(sub, environ, func(args []string) (command.Inquiry, error) {
			return inNamespace(each.method, namespace, api.FaultsPath, api.FaultsOf, args...), nil
		}, func(w io.Writer, _ []string, list *api.FaultList) error { return printFaults(w, list.Faults) }))
	}
	return c
}

func bindNamespace(c *cobra.Command, namespace *string) {
	c.Flags().StringVar(namespace, "namespace", "", "`NAME` of the namespace (default that of the connection string)")
}

func faultAddCommand(environ []string) *cobra.Command {
	var (
		namespace string
		f         api.Fault
		delay     time.Duration
		life      time.Duration
	)
	c := &cobra.Command{
		Use: "add", Short: "Add a fault rule", Args: cobra.NoArgs,
		Long: `Add a fault rule. Without flags it refuses the next message that a client sends, as
"server busy".

Effects for several operations: fail (with the error of --code), delay, throttle (operations
beyond --rate per second are refused as busy), drop-connection, and detach (the link). Only for
the operation deliver: lose-lock, reorder (the message is delivered after the next message) and
cut-transfer (half of the message, then the connection breaks). Only for complete: deliver-twice
(the message is delivered again). Only for authorize: expire-token (after --delay).`,
		Example: `  crosstown fault add --entity orders --times 2
  crosstown fault add --entity orders --after --effect drop-connection
  crosstown fault add --operation complete --code lock-lost --skip 5
  crosstown fault add --operation deliver --effect lose-lock --property color=red
  crosstown fault add --effect throttle --rate 10 --life 5m
  crosstown fault add --operation send --probability 0.1 --seed 7 --times 1000`,
	}
	bindNamespace(c, &namespace)
	flags := c.Flags()
	flags.StringVar(&f.Name, "name", "", "`NAME` of the rule (default fault-N)")
	flags.StringVar((*string)(&f.Operation), "operation", string(faults.Send), "operation to which the rule applies: "+words(faults.Operations()))
	flags.StringVar(&f.Entity, "entity", "", "`PATH` of the queue, subscription or sub-queue, or the beginning of a path and a * (default any)")
	flags.StringVar(&f.Client, "client", "", "only clients with this `TEXT` in their description (protocol, address, SDK), or with the policy of this name (default any)")
	flags.StringToStringVar(&f.Properties, "property", nil, "application property that the message must have, as `NAME=VALUE`; for send and deliver; repeatable")
	flags.IntVar(&f.Skip, "skip", 0, "how many matching operations pass before the rule takes effect")
	flags.IntVar(&f.Times, "times", 0, "number of matching operations, after those of --skip, on which the rule has its effect (default 1)")
	flags.Float64Var(&f.Probability, "probability", 0, "probability that a matching operation fails, 0 to 1 (default 1)")
	flags.Uint64Var(&f.Seed, "seed", 0, "number from which the random choices of --probability are computed: with the same seed, the same operations of a sequence fail")
	flags.StringVar((*string)(&f.Effect), "effect", string(faults.Fail), "effect on the operation: "+words(faults.Effects()))
	flags.StringVar((*string)(&f.Code), "code", "server-busy", "error for the client: server-busy, timeout, internal-error, entity-disabled, quota-exceeded, unauthorized, not-found, lock-lost and so on")
	flags.StringVar(&f.Condition, "condition", "", "AMQP condition to send instead of the condition for --code, such as amqp:link:stolen")
	flags.BoolVar(&f.After, "after", false, "carry out the operation first, so that only its answer is lost")
	flags.DurationVar(&delay, "delay", 0, "how long the operation waits before the effect, such as 2s")
	flags.Float64Var(&f.Rate, "rate", 0, "operations per second that the effect throttle allows")
	flags.DurationVar(&life, "life", 0, "how long the rule lasts, such as 10m, at most 24h (default 1h)")
	return command.Asking(c, environ, func([]string) (command.Inquiry, error) {
		if delay != 0 {
			f.Delay = delay.String()
		}
		if life != 0 {
			f.Life = life.String()
		}
		q := inNamespace(http.MethodPost, namespace, api.FaultsPath, api.FaultsOf)
		q.Body = &f
		return q, nil
	}, func(w io.Writer, _ []string, added *api.Fault) error { return printFaults(w, []api.Fault{*added}) })
}

func printFaults(out io.Writer, all []api.Fault) error {
	w := command.NewTable(out, "NAME", "OPERATION", "ENTITY", "EFFECT", "MATCHED", "AFFECTED", "OF")
	for i := range all {
		f := &all[i]
		effect := string(f.Effect)
		if f.Effect == faults.Fail || f.Effect == faults.Detach {
			effect += " " + cmp.Or(f.Condition, string(f.Code))
		}
		if f.After {
			effect += ", after"
		}
		w.Row(f.Name, f.Operation, cmp.Or(f.Entity, "any"), effect, f.Matched, f.Met, f.Times)
	}
	return w.Flush()
}

func words[T ~string](all []T) string { return strings.Join(command.Words(all), ", ") }
