package command

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/internal/durable"
)

func OpenInput(c *cobra.Command, name string) (io.ReadCloser, error) {
	if name == "" || name == "-" {
		return io.NopCloser(c.InOrStdin()), nil
	}
	return os.Open(name)
}

type Output struct{ Force bool }

func (o *Output) Bind(c *cobra.Command) {
	c.Flags().BoolVar(&o.Force, "force", false, "replace the output file if it exists and is not empty")
}

func (o *Output) Check(path string) error {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > 0 && !o.Force {
		return Usagef("%s exists and is not empty: specify another file, or replace it with --force", path)
	}
	return nil
}

// WriteWhole writes a file that only its owner may read. It writes a temporary file and renames it,
// so that an error leaves an existing file unchanged. Only to a pipe or device it writes directly.
func WriteWhole(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	return durable.Replace(path, 0o600, write)
}
