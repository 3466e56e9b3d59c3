// Package durable creates directories and complete files that survive a power failure.
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

// MkdirAll syncs every directory above, even existing ones, because the process that created these
// may have ended before it synced them. Otherwise, a power failure could remove a directory with
// all synced data in it.
func MkdirAll(dir string) error {
	return MakeAll(dir, func(dir string) error { return os.MkdirAll(dir, 0o700) }, SyncDir)
}

func MakeAll(dir string, mkdirAll, syncDir func(string) error) error {
	if err := mkdirAll(dir); err != nil {
		return err
	}
	for parent := filepath.Dir(dir); parent != dir; dir, parent = parent, filepath.Dir(parent) {
		if err := syncDir(parent); err != nil && !isRefused(err) {
			return fmt.Errorf("cannot make the directory %s durable: %w", dir, err)
		}
	}
	return nil
}

// A directory cannot be synced if this user may not read it, or its file system does not support
// it.
func isRefused(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL)
}

// If the file exists, Create returns fs.ErrExist.
func Create(path string, mode os.FileMode, write func(io.Writer) error) error {
	return publish(path, mode, write, func(from, to string) error { return claim(from, to, os.Link) })
}

// claim renames a file to a name that must be free. Without hard links in the file system, it first
// creates an empty file with that name.
func claim(from, to string, link func(from, to string) error) error {
	err := link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	empty, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(empty.Close(), os.Rename(from, to))
}

func Replace(path string, mode os.FileMode, write func(io.Writer) error) error {
	return publish(path, mode, write, os.Rename)
}

func Content(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// publish first writes a temporary file, so that path never has an incomplete file.
func publish(path string, mode os.FileMode, write func(io.Writer) error, name func(from, to string) error) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // a rename has removed it
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
