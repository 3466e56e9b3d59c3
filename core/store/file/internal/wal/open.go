package wal

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
)

// Open opens the log in a directory, which it creates if needed, and locks the directory. It
// removes the incomplete end that a power failure may leave, and writes and syncs again what may
// not be durable. The error contains the remedy if the directory cannot be locked or written,
// belongs to another user, or is in use by another process (*fsys.LockedError). It may also be a
// *VersionError or a *DamageError, for which there is Options.Repair.
func Open(fs fsys.FS, dir string, o Options) (*Log, error) {
	l := &Log{fs: fs, dir: dir, o: o.withDefaults(), segments: newSegments()}
	l.failed = make(chan struct{})
	if err := fs.MkdirAll(dir); err != nil {
		return nil, explain(dir, err)
	}
	lock, err := fs.Lock(l.path(lockName), strconv.Itoa(os.Getpid())+"\n")
	if err != nil {
		return nil, explain(dir, err)
	}
	l.lock = lock
	end, err := l.recover()
	if err == nil {
		err = l.probe()
	}
	if err != nil {
		l.segments.close()
		return nil, errors.Join(explain(dir, err), lock.Close())
	}
	l.start(end)
	return l, nil
}

// probe creates and removes a file. Otherwise, a directory that cannot be written would stop the
// log only when it needs a new file, perhaps hours later.
func (l *Log) probe() error {
	name := l.path("probe" + suffixTemp)
	f, err := l.fs.Open(name, os.O_RDWR|os.O_CREATE)
	switch {
	case fsys.Full(err): // not an error, because receiving can continue
		return nil
	case err != nil:
		return err
	}
	return errors.Join(f.Close(), l.fs.Remove(name))
}

func explain(dir string, err error) error {
	var locked *fsys.LockedError
	var owner *fsys.OwnerError
	switch {
	case errors.As(err, &locked):
		return fmt.Errorf("directory %s is in use by another gateway (%w): stop that gateway", dir, err)
	case errors.As(err, &owner):
		return fmt.Errorf("directory %s belongs to user %d: run the gateway as that user (it runs as %d), "+
			"or change the owner of the directory and all files in it: %w", dir, owner.Owner, owner.Self, err)
	case errors.Is(err, fsys.ErrNoLocks):
		return fmt.Errorf("directory %s cannot be locked: put it on a local disk, or on a network file system that supports locks: %w", dir, err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("the current user may not write to directory %s: change its owner or permissions: %w", dir, err)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("cannot create directory %s: a file has this name, or the name of a parent directory: "+
			"move that file, or give the gateway another directory: %w", dir, err)
	case fsys.ReadOnly(err):
		return fmt.Errorf("directory %s is on a read-only file system: give the gateway another directory: %w", dir, err)
	case fsys.Full(err):
		return fmt.Errorf("the file system of directory %s is full: free some space: %w", dir, err)
	default:
		return fmt.Errorf("cannot use directory %s: %w", dir, err)
	}
}

func (l *Log) openFile(name string) (fsys.File, error) { return l.fs.Open(l.path(name), os.O_RDONLY) }
