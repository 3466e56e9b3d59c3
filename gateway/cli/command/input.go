package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func OpenInput(c *cobra.Command, name string) (io.ReadCloser, error) {
	if name == "" || name == "-" {
		return io.NopCloser(c.InOrStdin()), nil
	}
	return os.Open(name)
}

type Confirmation struct{ Yes bool }

func (o *Confirmation) Bind(c *cobra.Command) {
	c.Flags().BoolVar(&o.Yes, "yes", false, "do not ask before messages are removed")
}

// Confirm asks the user on a terminal whether to do what. Without a terminal it requires --yes.
func (o *Confirmation) Confirm(c *cobra.Command, what string) error {
	if o.Yes {
		return nil
	}
	in := c.InOrStdin()
	if !IsTerminal(in) {
		return Usagef("this would permanently %s: confirm with --yes", what)
	}
	_, _ = fmt.Fprintf(c.ErrOrStderr(), "This will permanently %s. Continue? [y/N] ", what)
	answer, err := bufio.NewReader(in).ReadString('\n')
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case err != nil:
		return Usagef("standard input ended without an answer: confirm with --yes")
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return fmt.Errorf("not confirmed: nothing was changed")
	}
	return nil
}

// ConfirmDelete asks the user before a command deletes an entity or namespace with messages. what
// is the action, such as "delete the queue orders". Without a terminal, ConfirmDelete does not
// require --yes, because scripts delete on purpose.
func (o *Confirmation) ConfirmDelete(c *cobra.Command, what string, holds func() (messages int64, err error)) error {
	if o.Yes || !IsTerminal(c.InOrStdin()) {
		return nil
	}
	n, err := holds()
	if err != nil || n == 0 {
		return err
	}
	return o.Confirm(c, fmt.Sprintf("%s with %s", what, Messages(int(n))))
}

// Input is standard input. When Context ends, a waiting Read returns its error.
type Input struct {
	Context context.Context
	File    *os.File
}

func (i *Input) Stat() (fs.FileInfo, error) { return i.File.Stat() }

func (i *Input) Seek(offset int64, whence int) (int64, error) { return i.File.Seek(offset, whence) }

// If Context ends during a Read, the bytes that this Read would have returned are lost.
func (i *Input) Read(p []byte) (int, error) {
	type result struct {
		b   []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		b := make([]byte, len(p))
		n, err := i.File.Read(b)
		done <- result{b[:n], err}
	}()
	select {
	case <-i.Context.Done():
		return 0, i.Context.Err()
	case r := <-done:
		return copy(p, r.b), r.err
	}
}

var _ io.ReadSeeker = (*Input)(nil)

func IsTerminal(stream any) bool {
	f, ok := stream.(interface{ Stat() (os.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull) // services and cron jobs use the null device as standard streams
	return err != nil || !os.SameFile(info, null)
}
