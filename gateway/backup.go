package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/backup"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

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
	b := &backup.Writer{Store: st.Store, By: versionText(), Progress: command.NewProgress(c.ErrOrStderr(), "backed up").At}
	if len(args) == 0 {
		err = b.Write(c.Context(), c.OutOrStdout())
	} else {
		err = command.WriteWhole(args[0], func(w io.Writer) error { return b.Write(c.Context(), w) })
	}
	if err == nil {
		_, _ = fmt.Fprintf(c.ErrOrStderr(), "backed up %d entities with %d messages\n", b.Entities, b.Messages())
	}
	return err
}

func restoreCommand(environ []string) *cobra.Command {
	c := &cobra.Command{
		Use:   "restore [FILE]",
		Short: "Put the namespaces, entities and messages of a backup into a store",
		Long: `Put the namespaces, entities and messages of a backup into a store.

The backup is read from FILE or from standard input; crosstown backup has made it, of
a store of any kind. An entity that exists and was never used is replaced. If one has,
or had, messages, nothing of that name is restored: delete it, or choose an empty store.

Stop the gateway first where the store is file; clients of gateways on a Redis
must not use the entities meanwhile. A file is read to its end first: if it is
truncated or damaged, nothing is restored. If the restore fails, or the backup
comes through a pipe and is damaged, the entities that were created are deleted again.`,
		Example: `  crosstown restore messages.jsonl
  gunzip -c messages.jsonl.gz | crosstown restore --store redis://10.0.0.5:6379
  crosstown backup --store file | crosstown restore --store redis://localhost:6379`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			in := c.InOrStdin()
			if len(args) > 0 {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer func() { _ = f.Close() }() // it was only read
				in = f
			}
			if err := backup.Check(in); err != nil { // before a store is opened, and its files made
				return err
			}
			from, header, err := backup.Open(in)
			if err != nil {
				return err
			}
			st, err := openForCopy(c, environ, false)
			if err != nil {
				return err
			}
			entities, err := backup.Restore(c.Context(), st.Store, from, command.NewProgress(c.ErrOrStderr(), "restored").At)
			if err = errors.Join(err, st.Close()); err != nil {
				return err
			}
			_, _ = fmt.Fprintf(c.ErrOrStderr(), "restored %d entities with %d messages, as a store of kind %s had them on %s\n",
				entities, from.Messages(), header.Store, header.Made.Format(time.RFC3339))
			return nil
		},
	}
	bindStoreFlags(c)
	return c
}
