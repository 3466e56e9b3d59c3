//go:build !windows

package durable

import (
	"errors"
	"os"
)

// SyncDir makes creations, renamings and removals in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}
