// Package fsys is the interface to the parts of a file system that the file engine needs. OS is the
// operating system's. Package faultfs implements it for tests: it can lose what was not synced, and
// fail on demand.
package fsys

import (
	"errors"
	"fmt"
	"io"
)

// FS is a file system. Names are paths in the operating system's form.
type FS interface {
	// Open opens a file with flags of package os. A new file gets the permissions 0600.
	Open(name string, flag int) (File, error)
	// ReadDir returns the names in a directory, sorted.
	ReadDir(dir string) ([]string, error)
	// MkdirAll creates a directory and its parents, with the permissions 0700, and syncs them.
	MkdirAll(dir string) error
	// Rename renames a file, and replaces a file that has the new name.
	Rename(from, to string) error
	// Remove removes a file.
	Remove(name string) error
	// Link gives a file a second name (a hard link).
	Link(from, to string) error
	// SyncDir makes the creation, renaming and removal of files in a directory durable.
	SyncDir(dir string) error
	// Lock takes the exclusive lock of a file, which it creates if needed, and writes text into it.
	// The lock ends when the result is closed, or with the process. The error is a *LockedError if
	// another process has the lock, ErrNoLocks if the file system has no locks, and an *OwnerError
	// if the file belongs to another user.
	Lock(name, text string) (io.Closer, error)
	// Free returns how many bytes this process can still write to a directory's file system.
	Free(dir string) (int64, error)
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// WritevAt writes several buffers, one after the other.
	WritevAt(parts [][]byte, off int64) (int, error)
	// Reserve asks the file system for space for n bytes from off on, if that makes later writes
	// cheaper. The length of the file does not change. It may do nothing.
	Reserve(off, n int64)
	// Size returns the file's length in bytes.
	Size() (int64, error)
	// Truncate changes the file's length.
	Truncate(size int64) error
	// Sync makes the file's content and length durable. After an error it is not known what is
	// durable, and a later Sync that succeeds does not help.
	Sync() error
}

// ErrNoLocks is the error of Lock in a file system without locks.
var ErrNoLocks = errors.New("the file system does not support file locks")

// LockedError is the error of Lock if another process has the lock.
type LockedError struct {
	Name string
	Text string // what that process has written into the file
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is locked by process %s", e.Name, e.Text)
}

// OwnerError is the error for a file that belongs to another user.
type OwnerError struct {
	Name        string
	Owner, Self int
}

func (e *OwnerError) Error() string {
	return fmt.Sprintf("%s belongs to user %d, this process runs as user %d", e.Name, e.Owner, e.Self)
}
