package fsys

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/crosstown-mq/crosstown/internal/durable"
)

// OS is the operating system's file system.
type OS struct{}

var _ FS = OS{}

// Open opens a file.
func (OS) Open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// ReadDir lists the names in a directory.
func (OS) ReadDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// MkdirAll makes a directory and its parents.
func (OS) MkdirAll(dir string) error { return durable.MkdirAll(dir) }

// Rename gives a file another name.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove removes a file.
func (OS) Remove(name string) error { return os.Remove(name) }

// Link gives a file a second name.
func (OS) Link(from, to string) error { return os.Link(from, to) }

// SyncDir makes the names in a directory durable.
func (OS) SyncDir(dir string) error { return durable.SyncDir(dir) }

// Free is how many bytes the file system of a directory has left.
func (OS) Free(dir string) (int64, error) { return free(dir) }

// Lock takes the exclusive lock of a file.
func (OS) Lock(name, text string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		if locked, ok := errors.AsType[*LockedError](err); ok {
			content := make([]byte, 64)
			n, _ := f.ReadAt(content, 0)
			locked.Text = strings.TrimSpace(string(content[:n]))
		}
		_ = f.Close()
		return nil, err
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(text), 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return heldLock{f}, nil
}

// Holder returns what the process that has the lock of a file wrote into it, or "" if none has. The
// errors are those of Lock, and fs.ErrNotExist. It has the lock itself for a moment.
func Holder(name string) (string, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // nothing was written
	err = lock(f)
	if _, locked := errors.AsType[*LockedError](err); locked {
		content := make([]byte, 64)
		n, _ := f.ReadAt(content, 0)
		return strings.TrimSpace(string(content[:n])), nil
	}
	if err != nil {
		return "", err
	}
	return "", unlock(f)
}

// heldLock is the file of a lock.
type heldLock struct{ *os.File }

// Close gives the lock back before it closes the file: a program that this process is starting has
// the file, too, until it runs, and would keep the lock as long.
func (l heldLock) Close() error { return errors.Join(unlock(l.File), l.File.Close()) }

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f osFile) Sync() error { return syncData(f.File) }

func (f osFile) WritevAt(parts [][]byte, off int64) (int, error) { return writev(f.File, parts, off) }

func (f osFile) Reserve(off, n int64) { reserve(f.File, off, n) }
