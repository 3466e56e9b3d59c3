// Package durable makes directories, and the names in them, survive a loss of power.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// MkdirAll makes a directory and its parents, with the rights 0700, and syncs each that it makes into
// its parent. Without that a loss of power may remove a directory with all that was synced in it.
func MkdirAll(dir string) error { return MakeAll(dir, mkdir, SyncDir) }

func mkdir(dir string) (made bool, err error) {
	err = os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return false, os.MkdirAll(dir, 0o700) // which fails if it is a file
	}
	return err == nil, err
}

// MakeAll is MkdirAll on a file system of which it is given the calls. made says whether mkdir has
// made the directory, or found it.
func MakeAll(dir string, mkdir func(string) (made bool, err error), syncDir func(string) error) error {
	parent := filepath.Dir(dir)
	made, err := mkdir(dir)
	if errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := MakeAll(parent, mkdir, syncDir); err != nil {
			return err
		}
		made, err = mkdir(dir)
	}
	if err != nil || !made {
		return err
	}
	if err := syncDir(parent); err != nil {
		return fmt.Errorf("make the new directory %s durable: %w", dir, err)
	}
	return nil
}
