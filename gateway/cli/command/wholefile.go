package command

import (
	"errors"
	"io"
	"os"

	"github.com/crosstown-mq/crosstown/internal/durable"
)

// WriteWhole writes a file that only its owner may read. It is written under another name first, so that
// no part of it ever has its name, and what was there stays if that fails. What is no file, such as a
// pipe, is written to.
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
