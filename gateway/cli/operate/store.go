package operate

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core/store/file"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

var errDamaged = errors.New("the store is damaged: restore a backup, or start the gateway once with --repair, which removes what is damaged")

func Store(environ []string) *cobra.Command {
	c := &cobra.Command{
		Use:   "store",
		Short: "Inspect and verify the files of the file store",
	}
	c.AddCommand(
		inspectCommand(environ, "inspect", "List segments and snapshots of the log with their sizes and damaged frames (entries)", false),
		inspectCommand(environ, "verify", "Check all files, including the contents of messages and snapshots; the exit code is 1 if a file is damaged", true))
	return c
}

func inspectCommand(environ []string, use, short string, contents bool) *cobra.Command {
	var format command.Format
	c := &cobra.Command{
		Use:   use + " [DIR]",
		Short: short,
		Long: short + `.

DIR is the directory with the files, by default the folder messages of the data directory.
The command changes nothing. It can run while a gateway uses the directory: frames (entries
of the log) that the gateway is still writing may look torn.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := filepath.Join(config.Data(environ), "messages")
			if len(args) > 0 {
				dir = args[0]
			}
			found, err := file.Inspect(dir, contents)
			if err != nil {
				return err
			}
			err = format.Print(c, found, func(w io.Writer) error { return printInspection(w, found) })
			if err == nil && found.Damaged() {
				err = errDamaged
			}
			return err
		},
	}
	format.Bind(c)
	return c
}

func printInspection(w io.Writer, found *file.Inspection) error {
	var frames, records int
	var bytes int64
	for i := range found.Segments {
		s := &found.Segments[i]
		kind := "log"
		if s.Body {
			kind = "body"
		}
		if _, err := fmt.Fprintf(w, "%-18s %-5s %12d bytes %8d frames %8d records\n", s.File, kind, s.Size, s.Frames, s.Records); err != nil {
			return err
		}
		for _, damage := range s.Damage {
			_, _ = fmt.Fprintf(w, "  damaged: %s\n", damage)
		}
		if s.Torn != "" {
			_, _ = fmt.Fprintf(w, "  torn at byte %d: %s (the next start removes this end of the file, which was not synced)\n", s.End, s.Torn)
		}
		frames, records, bytes = frames+s.Frames, records+s.Records, bytes+s.Size
	}
	for i := range found.Snapshots {
		s := &found.Snapshots[i]
		_, _ = fmt.Fprintf(w, "%-18s %-5s %12d bytes, of %s\n", s.File, "state", s.Size, s.Made.Format("2006-01-02 15:04:05"))
		if s.Damage != "" {
			_, _ = fmt.Fprintf(w, "  damaged: %s\n", s.Damage)
		}
		bytes += s.Size
	}
	for _, other := range found.Others {
		_, _ = fmt.Fprintf(w, "%-18s is not a file of a store\n", other)
	}
	ended := "not closed normally"
	if found.Closed {
		ended = "closed normally"
	}
	return command.Line(w, "%d bytes, %d frames, %d records, synced up to %v, %s", bytes, frames, records, found.Synced, ended)
}
