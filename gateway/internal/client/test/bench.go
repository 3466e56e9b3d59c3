package test

import (
	"cmp"
	"context"
	"errors"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/internal/bench"
	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
)

// benchIdle is after which time the gateway removes the queue of a run that was killed.
const benchIdle = "PT10M"

// benchNamespace is the namespace of a run of crosstown bench.
type benchNamespace struct {
	command.Flags
	environ []string
	target  *command.Target // nil before Find, and where the run has URLs
}

// Bench is crosstown bench.
func Bench(environ []string) *cobra.Command {
	return bench.Command(nil, &benchNamespace{environ: environ})
}

// Bind implements bench.Namespace.
func (n *benchNamespace) Bind(c *cobra.Command) { n.BindConnection(c, n.environ) }

// Find implements bench.Namespace.
func (n *benchNamespace) Find(o *bench.Options) (err error) {
	if len(o.URLs) > 0 {
		if n.CA != "" {
			o.Roots, err = n.Roots(n.CA, false)
		}
		return err
	}
	if n.target, err = n.Flags.Target(); err != nil {
		return err
	}
	o.ConnectionString, o.Roots = n.target.Text, n.target.TLS.RootCAs
	o.Entity = cmp.Or(o.Entity, n.target.EntityPath)
	return nil
}

// MakeQueues implements bench.Namespace.
func (n *benchNamespace) MakeQueues(ctx context.Context, names []string, sessions bool) (remove func(context.Context) error, err error) {
	client, err := n.target.Admin()
	if err != nil {
		return nil, err
	}
	var made []string
	remove = func(ctx context.Context) error {
		var errs []error
		for _, name := range made {
			_, err := client.DeleteQueue(ctx, name, nil)
			errs = append(errs, n.target.Explain(err))
		}
		return errors.Join(errs...)
	}
	for _, name := range names {
		o := &admin.CreateQueueOptions{Properties: &admin.QueueProperties{RequiresSession: &sessions, AutoDeleteOnIdle: new(benchIdle)}}
		if _, err := client.CreateQueue(ctx, name, o); err != nil {
			return nil, errors.Join(n.target.Explain(err), remove(context.WithoutCancel(ctx)))
		}
		made = append(made, name)
	}
	return remove, nil
}
