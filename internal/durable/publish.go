package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Create makes a file of what write writes, at once, or fails with fs.ErrExist where there is one.
func Create(path string, mode os.FileMode, write func(io.Writer) error) error {
	return publish(path, mode, write, os.Link)
}

// Replace puts a file of what write writes in the place of what path held, at once.
func Replace(path string, mode os.FileMode, write func(io.Writer) error) error {
	return publish(path, mode, write, os.Rename)
}

// Content writes what there is already.
func Content(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// publish writes a file under another name, so that no part of it ever has its own.
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
