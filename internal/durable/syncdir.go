//go:build !windows

package durable

import (
	"errors"
	"os"
)

// SyncDir makes the names in a directory durable: files and directories that were created, renamed
// and removed.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}
