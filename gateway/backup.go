package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/memstore"
	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

// listPage is how many entities, rules or namespaces are asked for at once.
const listPage = 500

func backupCommand(environ []string) *cobra.Command {
	c := &cobra.Command{
		Use:   "backup [FILE]",
		Short: "Copy all namespaces, entities and messages of a store to a file or to standard output",
		Long: `Copy all namespaces, entities and messages of a store to a file or to standard output.

The backup has one JSON object a line, with a checksum at its end; crosstown restore
puts it into a store of any kind. Rules, policies, session states, scheduled and
deferred messages, dead letters and what duplicate detection remembers are in it;
locks and histories are not: a locked message can be received after a restore.

Stop the gateway first where the store is file. With a Redis URL gateways
may go on: each partition of an entity is copied as it was at one moment, but not
all partitions at the same one. Redis needs the memory of the largest partition
twice meanwhile.`,
		Example: `  crosstown backup messages.jsonl
  crosstown backup --store redis://10.0.0.5:6379 | gzip > messages.jsonl.gz
  crosstown backup --store redis://localhost:6379 | crosstown restore --store file`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			st, err := openForCopy(c, environ, true)
			if err != nil {
				return err
			}
			err = backupTo(c, st, args)
			return errors.Join(err, st.Close())
		},
	}
	bindStoreFlags(c)
	return c
}

// bindStoreFlags adds the gateway's own flags that say which store it has.
func bindStoreFlags(c *cobra.Command) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.Bind(all)
	for _, name := range []string{"config", "data", "store"} {
		c.Flags().AddFlag(all.Lookup(name))
	}
}

// openForCopy opens the store of the command line. One that is read must be there.
func openForCopy(c *cobra.Command, environ []string, read bool) (*store, error) {
	settings, err := config.Load(c.Flags(), environ)
	if err != nil {
		return nil, err
	}
	dir := ""
	switch {
	case settings.Store == "memory":
		return nil, errors.New("the memory store ends with its gateway: there is nothing to copy; use --store file or a Redis URL")
	case settings.KeepsFiles():
		dir = filesDir(settings)
	}
	if dir != "" && read && !hasEntries(dir) {
		return nil, fmt.Errorf("%s has no messages: name the store with --store, and its directory with --data", dir)
	}
	log := slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	return openStore(c.Context(), settings, log)
}

func hasEntries(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) > 0
}

// backupTo writes to the file that args name, which is complete or not there, or to standard output.
func backupTo(c *cobra.Command, st *store, args []string) (err error) {
	b := &backup{store: st, progress: command.NewProgress(c.ErrOrStderr(), "backed up")}
	if len(args) == 0 {
		err = b.write(c.Context(), c.OutOrStdout())
	} else {
		err = command.WriteWhole(args[0], func(w io.Writer) error { return b.write(c.Context(), w) })
	}
	if err == nil {
		_, _ = fmt.Fprintf(c.ErrOrStderr(), "backed up %d entities with %d messages\n", b.entities, b.out.Messages())
	}
	return err
}

// backup is a backup under way.
type backup struct {
	store    *store
	out      *record.Writer
	progress *command.Progress
	entities int
}

func (b *backup) write(ctx context.Context, w io.Writer) (err error) {
	source, ok := b.store.Store.(core.Backups)
	if !ok {
		return fmt.Errorf("a store of type %T cannot be copied", b.store.Store)
	}
	b.out, err = record.NewWriter(w, record.Header{Made: time.Now().UTC(), By: versionText(), Store: b.store.About(ctx).Engine})
	if err != nil {
		return err
	}
	if err := b.namespaces(ctx); err != nil {
		return err
	}
	ids, err := source.NamespaceIDs(ctx)
	if err != nil {
		return err
	}
	var sources []*core.Entity // queues and topics
	known := make(map[string]string)
	for _, id := range ids {
		some, err := b.catalogue(ctx, id, known)
		if err != nil {
			return err
		}
		sources = append(sources, some...)
	}
	for _, e := range sources {
		for i := range e.Partitions {
			if err := b.partition(ctx, source, e, uint16(i), known); err != nil {
				return err
			}
		}
	}
	return b.out.End()
}

func (b *backup) namespaces(ctx context.Context) error {
	for after := ""; ; {
		some, err := b.store.Namespaces(ctx, after, listPage)
		if err != nil || len(some) == 0 {
			return err
		}
		for i := range some {
			if err := b.out.Write(&record.Line{Namespace: &some[i]}); err != nil {
				return err
			}
			after = some[i].Name
		}
	}
}

// catalogue writes the entities of a namespace, a topic before its subscriptions, and returns its
// queues and topics. known gets the name of each subscription by its ID.
func (b *backup) catalogue(ctx context.Context, namespace string, known map[string]string) (sources []*core.Entity, err error) {
	for _, kind := range []core.Kind{core.Queue, core.Topic} {
		for skip := 0; ; skip += listPage {
			some, err := b.store.Entities(ctx, namespace, core.Listing{Kind: kind}, skip, listPage)
			if err != nil {
				return nil, err
			}
			for i := range some {
				sources = append(sources, &some[i])
			}
			if len(some) < listPage {
				break
			}
		}
	}
	var written []*core.Entity
	for _, e := range sources {
		described := []core.Entity{*e}
		if e.Kind == core.Topic {
			view, err := b.store.Topic(ctx, namespace, e.Name)
			if core.CodeOf(err) == core.NotFound {
				continue // deleted meanwhile
			}
			if err != nil {
				return nil, err
			}
			described = append([]core.Entity{view.Entity}, view.Subscriptions...)
		}
		for i := range described {
			if described[i].Kind == core.Subscription {
				known[described[i].ID] = described[i].Name
			}
			b.entities++
			if err := b.out.Write(&record.Line{Entity: &described[i]}); err != nil {
				return nil, err
			}
		}
		written = append(written, e)
	}
	return written, nil
}

func (b *backup) partition(ctx context.Context, source core.Backups, e *core.Entity, index uint16, known map[string]string) error {
	err := b.out.Write(&record.Line{Partition: &record.Partition{Namespace: e.Namespace, Entity: e.Name, ID: e.ID, Index: index}})
	if err != nil {
		return err
	}
	err = source.Export(ctx, core.Ref{Entity: e.ID, Index: index}, func(x *core.Stored) error {
		path := e.Name
		if x.Subscription != "" {
			var there bool
			if path, there = known[x.Subscription]; !there {
				return nil // the subscription was created since
			}
		}
		l := record.Of(x, path)
		b.progress.At(b.out.Messages())
		return b.out.Write(&l)
	})
	if core.CodeOf(err) == core.NotFound {
		return nil // the entity was deleted meanwhile
	}
	if errors.Is(err, memstore.ErrDamaged) {
		return fmt.Errorf("%s: %w: start the gateway once with --repair, which removes what is damaged, then back it up", e.Name, err)
	}
	return err
}
