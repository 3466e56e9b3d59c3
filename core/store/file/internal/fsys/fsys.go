// Package fsys is the interface to the parts of a file system that the file engine needs. OS
// implements it with the operating system. Package faultfs implements it for tests: faultfs can
// lose what was not synced, and fail on demand.
package fsys

import (
	"errors"
	"fmt"
	"io"
)

type FS interface {
	// Open opens a file with flags of package os. A new file gets the permissions 0600.
	Open(name string, flag int) (File, error)
	// ReadDir returns the names in a directory, sorted.
	ReadDir(dir string) ([]string, error)
	// MkdirAll creates a directory and its parents, with the permissions 0700, and syncs them.
	MkdirAll(dir string) error
	// Rename gives a file another name. It replaces a file that has that name.
	Rename(from, to string) error
	Remove(name string) error
	Link(from, to string) error
	SyncDir(dir string) error
	// Lock locks a file exclusively, creates it if needed, and writes text into it. The lock ends
	// when the result is closed, or with the process. The error is a *LockedError if another
	// process has the lock, ErrNoLocks if the file system has no locks, and an *OwnerError if the
	// file belongs to another user.
	Lock(name, text string) (io.Closer, error)
	// Free returns how many bytes this process can still write to the directory's file system.
	Free(dir string) (int64, error)
}

type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	WritevAt(parts [][]byte, off int64) (int, error)
	// Reserve asks the file system for space for n bytes from off on, if that makes later writes
	// cheaper. It may do nothing. The file's length does not change.
	Reserve(off, n int64)
	Size() (int64, error)
	Truncate(size int64) error
	// Sync makes the file's content and length durable. After an error, it is unknown what is
	// durable, even if a later Sync succeeds.
	Sync() error
}

// ErrNoLocks is the error of Lock in a file system without locks.
var ErrNoLocks = errors.New("the file system does not support file locks")

type LockedError struct {
	Name string
	Text string // what the process that has the lock has written into the file
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is locked by process %s", e.Name, e.Text)
}

type OwnerError struct {
	Name        string
	Owner, Self int
}

func (e *OwnerError) Error() string {
	return fmt.Sprintf("%s belongs to user %d, this process runs as user %d", e.Name, e.Owner, e.Self)
}
