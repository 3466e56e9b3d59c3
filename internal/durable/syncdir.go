//go:build !windows

package durable

import (
	"errors"
	"os"
)

// SyncDir makes changes of the names in a directory durable: created, renamed and removed files and
// directories.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}
