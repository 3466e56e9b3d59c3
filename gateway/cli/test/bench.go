package test

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/bench"
)

// If a benchmark is killed, the gateway deletes its queue after the time benchIdle.
const benchIdle = 10 * time.Minute

type benchNamespace struct {
	command.Flags
	target *command.Target // set by Find; nil if the command line specifies URLs
}

func Bench(environ []string) *cobra.Command {
	return bench.Command(nil, &benchNamespace{Flags: command.Flags{Environ: environ}})
}

func (n *benchNamespace) Bind(c *cobra.Command) { n.BindConnection(c, n.Environ) }

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

func (n *benchNamespace) MakeQueues(ctx context.Context, names []string, sessions bool) (remove func(context.Context) error, err error) {
	client := n.target.Management(nil)
	var made []string
	remove = func(ctx context.Context) error {
		var errs []error
		for _, name := range made {
			errs = append(errs, n.target.Explain(client.DeleteEntity(ctx, command.AnyIdentity, name)))
		}
		return errors.Join(errs...)
	}
	settings := core.DefaultSettings(core.Queue)
	settings.RequiresSession, settings.AutoDeleteOnIdle = sessions, benchIdle
	for _, name := range names {
		if _, err := client.CreateEntity(ctx, command.AnyIdentity, core.Queue, name, settings, nil); err != nil {
			return nil, errors.Join(n.target.Explain(err), remove(context.WithoutCancel(ctx)))
		}
		made = append(made, name)
	}
	return remove, nil
}
