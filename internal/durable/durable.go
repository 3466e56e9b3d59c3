// Package durable creates directories and files that survive a power failure. It creates each file
// in one step.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// MkdirAll creates a directory and its parents, with the permissions 0700, and syncs every
// directory above it, because the process that created these may have ended before it synced them.
// Without the sync, a power failure can remove a directory with all synced data in it.
func MkdirAll(dir string) error {
	return MakeAll(dir, func(dir string) error { return os.MkdirAll(dir, 0o700) }, SyncDir)
}

// MakeAll does the same as MkdirAll with the given functions of a file system.
func MakeAll(dir string, mkdirAll, syncDir func(string) error) error {
	if err := mkdirAll(dir); err != nil {
		return err
	}
	for parent := filepath.Dir(dir); parent != dir; dir, parent = parent, filepath.Dir(parent) {
		if err := syncDir(parent); err != nil && !isRefused(err) {
			return fmt.Errorf("make the directory %s durable: %w", dir, err)
		}
	}
	return nil
}

// isRefused reports whether a directory cannot be synced: this user may not read it, or its file system
// does not sync directories.
func isRefused(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL)
}

// Create creates a file with the output of write, in one step. It fails with fs.ErrExist if the
// file exists.
func Create(path string, mode os.FileMode, write func(io.Writer) error) error {
	return publish(path, mode, write, os.Link)
}

// Replace replaces the file at path, in one step, by a file with the output of write.
func Replace(path string, mode os.FileMode, write func(io.Writer) error) error {
	return publish(path, mode, write, os.Rename)
}

// Content returns a write function for the given content.
func Content(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// publish writes a file under another name first, so that its own name never has an incomplete file.
func publish(path string, mode os.FileMode, write func(io.Writer) error, name func(from, to string) error) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // gone already after a rename
	err = write(temp)
	if err == nil {
		err = errors.Join(temp.Chmod(mode), temp.Sync())
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := name(temp.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}
