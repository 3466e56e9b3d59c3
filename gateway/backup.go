package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/core/store/file"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/backup"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
)

func backupCommand(environ []string) *cobra.Command {
	var o backupOptions
	c := &cobra.Command{
		Use:   "backup [FILE]",
		Short: "Copy all namespaces, entities and messages of a store to a file or to standard output",
		Long: `Copy all namespaces, entities and messages of a store to a file or to standard output.

If a connection string or a saved context specifies a gateway, the command backs up this
gateway while it runs. The gateway must have the file store, and the policy must have Manage
on the gateway's own namespace. The backup is a tar of the store's files at the time at which
the command begins, with all acknowledged messages, locks and histories. crosstown restore
puts the tar into an empty data directory.

With --store, --data or --config the command opens a store itself. The gateway of a file store
must have stopped; gateways with a Redis may keep running. The command copies each partition of
an entity at one moment, but different partitions at different moments. While the command runs,
Redis needs the memory of the largest partition twice. This backup has one JSON object per line,
and a checksum at its end. crosstown restore puts it into a store of any kind. The backup
contains no locks and histories: after a restore, locked messages can be received.`,
		Example: `  crosstown backup --context production messages.tar --limit-rate 50MiB
  crosstown backup --data /var/lib/crosstown messages.jsonl
  crosstown backup --store redis://10.0.0.5:6379 | gzip > messages.jsonl.gz
  crosstown backup --store redis://localhost:6379 | crosstown restore --store file`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				if err := o.whole.Check(args[0]); err != nil {
					return err
				}
			}
			if o.asksGateway(c) {
				return o.ofGateway(c, args)
			}
			st, err := openForCopy(c, environ, true)
			if err != nil && !slices.ContainsFunc(storeFlags, c.Flags().Changed) {
				return fmt.Errorf("%w; to back up a running gateway, use --connection-string STRING or --context NAME", err)
			}
			if err != nil {
				return err
			}
			err = backupTo(c, st, args)
			return errors.Join(err, st.Close())
		},
	}
	bindStoreFlags(c)
	o.BindWhere(c, environ)
	o.whole.Bind(c)
	c.Flags().StringVar(&o.rate, "limit-rate", "", "with a running gateway: how many bytes the gateway reads per second, such as 50MiB (default: no limit)")
	for _, name := range storeFlags {
		c.MarkFlagsMutuallyExclusive("connection-string", name)
		c.MarkFlagsMutuallyExclusive("context", name)
		c.MarkFlagsMutuallyExclusive("limit-rate", name)
	}
	return c
}

type backupOptions struct {
	command.Flags
	whole command.Output
	rate  string
}

// asksGateway reports whether to back up a running gateway instead of a store: a flag, variable or
// context names a gateway, and no flag names a store.
func (o *backupOptions) asksGateway(c *cobra.Command) bool {
	if slices.ContainsFunc(storeFlags, c.Flags().Changed) {
		return false
	}
	contexts, err := command.LoadContexts(o.Environ)
	return o.Given() || config.Variable(o.Environ, command.ConnectionVariable) != "" || config.Variable(o.Environ, command.ContextVariable) != "" || err == nil && contexts.Current != ""
}

const notInBackup = "not in the backup: the keys that the gateway generated for policies of the configuration (keys/), and its development CA (ca.pem, ca.key.pem), which are files in the data directory"

func (o *backupOptions) ofGateway(c *cobra.Command, args []string) error {
	o.Data = config.Data(o.Environ)
	q := command.Inquiry{Method: http.MethodGet, Path: api.BackupPath}
	if o.rate != "" {
		n, err := memory.Parse(o.rate)
		if err != nil {
			return command.Usagef("--limit-rate: %w", err)
		}
		q.Query = url.Values{"limit-rate": {fmt.Sprint(n)}}
	}
	if len(args) == 0 && command.IsTerminal(c.OutOrStdout()) {
		return command.Usagef("a backup is not text: specify a FILE, or pipe the output to a program")
	}
	var head *file.ArchiveHead
	take := func(w io.Writer) error {
		response, err := o.Request(c.Context(), q)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		all := io.TeeReader(response.Body, w)
		head, err = file.ReadArchive(all, func(_ string, in io.Reader) error {
			_, err := io.Copy(io.Discard, in)
			return err
		})
		if err == nil {
			_, err = io.Copy(io.Discard, all) // read the padding at the end of the tar file
		}
		return err
	}
	var err error
	if len(args) > 0 {
		err = command.WriteWhole(args[0], take)
	} else {
		err = take(c.OutOrStdout())
	}
	if err != nil {
		return err
	}
	var size int64
	for _, f := range head.Files {
		size += f.Size
	}
	_, _ = fmt.Fprintf(c.ErrOrStderr(), "backed up %d files with %d bytes\n%s\n", len(head.Files), size, notInBackup)
	return nil
}

var storeFlags = []string{"config", "data", "store"}

func bindStoreFlags(c *cobra.Command) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.Bind(all)
	for _, name := range storeFlags {
		c.Flags().AddFlag(all.Lookup(name))
	}
}

// openForCopy opens the store that the flags describe. If read is true, the store must exist.
func openForCopy(c *cobra.Command, environ []string, read bool) (*store, error) {
	settings, err := config.Load(c.Flags(), environ)
	if err != nil {
		return nil, err
	}
	if settings.Store == "memory" {
		return nil, errors.New("the memory store cannot be backed up, because its messages are lost when its gateway ends: use --store file or a Redis URL")
	}
	if entries, _ := os.ReadDir(filesDir(settings)); read && settings.KeepsFiles() && len(entries) == 0 {
		return nil, fmt.Errorf("the gateway's messages would be in %s, which is empty or missing: set --data to the gateway's data directory, or --store to the URL of a Redis", filesDir(settings))
	}
	log := slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	return openStore(c.Context(), settings, log)
}

// backupTo writes to the file in args, or to standard output. After an error there is no file.
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

The command reads a backup, which crosstown backup creates, from FILE or standard input.
It puts the backup of a running gateway (a tar) into a data directory without messages
(--data), as a whole or not at all, and the backup of a store (lines of JSON) into a store
of any kind. It replaces an existing entity that was never used. If an entity has or had
messages, the command fails and does not change the entity: delete it, or choose an empty store.

If the store is file, stop the gateway first. If the store is a Redis, clients must not use the
entities during the restore. If FILE is truncated or damaged, the command restores nothing,
because it reads FILE to the end before it writes. If the restore fails, or if a backup from a
pipe is damaged, the command deletes the entities that it has created.`,
		Example: `  crosstown restore messages.tar --data /var/lib/crosstown
  crosstown restore messages.jsonl
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
				defer func() { _ = f.Close() }() // ignore the error: f was only read
				in = f
			}
			buffered := bufio.NewReader(in)
			if begins, _ := buffered.Peek(512); file.IsArchive(begins) {
				return restoreArchive(c, environ, buffered)
			}
			if f, ok := in.(io.Seeker); !ok {
				in = buffered
			} else if _, err := f.Seek(0, io.SeekStart); err != nil { // in is a pipe or a terminal, which cannot be read again after Check
				in = buffered
			}
			if err := backup.Check(in); err != nil { // check the backup before openForCopy, which creates files
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

func restoreArchive(c *cobra.Command, environ []string, in io.Reader) error {
	settings, err := config.Load(c.Flags(), environ)
	if err != nil {
		return err
	}
	if !settings.KeepsFiles() {
		return fmt.Errorf("a running gateway made this backup, so it can only be restored into a file store: use --store file and an empty --data directory. For another kind of store, then back up that directory with crosstown backup --data DIRECTORY, and restore the second backup")
	}
	head, err := file.Restore(filesDir(settings), in)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(c.ErrOrStderr(), "restored %d files to %s, as a gateway (%s) had them on %s\n%s\n", len(head.Files), filesDir(settings), head.By, head.Made.Format(time.RFC3339), notInBackup)
	return nil
}
