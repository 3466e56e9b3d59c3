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

// inFaults returns an inquiry about the fault rules of a namespace, "" for the connection string's.
func inFaults(method, namespace string, names ...string) command.Inquiry {
	if namespace == "" {
		return command.Inquiry{Method: method, Path: api.FaultsPath, Names: names}
	}
	return command.Inquiry{Method: method, Path: api.NamespacesPath, Names: append([]string{namespace, api.FaultsOf}, names...)}
}

// Fault returns the command crosstown fault.
func Fault(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{
		Use: "fault", Short: "Make operations of clients fail on demand, for tests",
		Long: `Make operations of clients fail on demand, to test how an application reacts.

A rule says which operations of clients fail, how often and how. The first rule that
matches an operation applies. Gateways on the same Redis share the rules of a namespace
that was created at run time; each gateway counts its own operations for them. A rule
ends after its life, by default an hour.

Faults happen only in namespaces that allow them: created with crosstown namespace
create NAME --allow-faults, or configured with allow-faults: true. A policy with Manage
on the namespace allows these commands.`,
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
			return inFaults(each.method, namespace, args...), nil
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

Effects: fail (with --code), delay, throttle (operations beyond --rate per second are refused
as busy), drop-connection, detach (the link); for deliver: lose-lock, reorder (the message is
delivered after the next one) and cut-transfer (half of the message, then the connection
breaks); for complete: deliver-twice (the message is delivered again); for authorize:
expire-token (after --delay).`,
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
	flags.StringVar((*string)(&f.Operation), "operation", string(faults.Send), "operation that fails: "+words(faults.Operations()))
	flags.StringVar(&f.Entity, "entity", "", "`PATH` of the queue, subscription or sub-queue, or its beginning and a * (default any)")
	flags.StringVar(&f.Client, "client", "", "`TEXT` in the description of the client (protocol, address, SDK), or its policy (default any)")
	flags.StringToStringVar(&f.Properties, "property", nil, "application property that the message must have, as `NAME=VALUE`; for send and deliver; repeatable")
	flags.IntVar(&f.Skip, "skip", 0, "how many matching operations pass first")
	flags.IntVar(&f.Times, "times", 0, "how many matching operations fail after those that pass (default 1)")
	flags.Float64Var(&f.Probability, "probability", 0, "probability that a matching operation fails, 0 to 1 (default 1)")
	flags.Uint64Var(&f.Seed, "seed", 0, "start of the random sequence of --probability")
	flags.StringVar((*string)(&f.Effect), "effect", string(faults.Fail), "what happens: "+words(faults.Effects()))
	flags.StringVar((*string)(&f.Code), "code", "server-busy", "error for the client: server-busy, timeout, internal-error, entity-disabled, quota-exceeded, unauthorized, not-found, lock-lost and so on")
	flags.StringVar(&f.Condition, "condition", "", "AMQP condition to send instead of the code's, such as amqp:link:stolen")
	flags.BoolVar(&f.After, "after", false, "the operation takes effect, but its answer is lost")
	flags.DurationVar(&delay, "delay", 0, "how long the operation waits before the effect")
	flags.Float64Var(&f.Rate, "rate", 0, "operations per second that the effect throttle allows")
	flags.DurationVar(&life, "life", 0, "how long the rule lasts (default 1h, at most 24h)")
	return command.Asking(c, environ, func([]string) (command.Inquiry, error) {
		if delay != 0 {
			f.Delay = delay.String()
		}
		if life != 0 {
			f.Life = life.String()
		}
		q := inFaults(http.MethodPost, namespace)
		q.Body = &f
		return q, nil
	}, func(w io.Writer, _ []string, added *api.Fault) error { return printFaults(w, []api.Fault{*added}) })
}

func printFaults(out io.Writer, all []api.Fault) error {
	w := command.NewTable(out, "NAME", "OPERATION", "ENTITY", "EFFECT", "MATCHED", "MET", "OF")
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
