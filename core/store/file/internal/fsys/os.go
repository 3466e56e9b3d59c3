package fsys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/crosstown-mq/crosstown/internal/durable"
)

type OS struct{}

var _ FS = OS{}

func (OS) Open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

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

func (OS) MkdirAll(dir string) error { return durable.MkdirAll(dir) }

func (OS) Rename(from, to string) error { return os.Rename(from, to) }

func (OS) Remove(name string) error { return os.Remove(name) }

func (OS) Link(from, to string) error { return os.Link(from, to) }

func (OS) SyncDir(dir string) error { return durable.SyncDir(dir) }

func (OS) Free(dir string) (int64, error) { return free(dir) }

// Lock also locks the directory: the file's lock would not help after the removal of the file.
func (OS) Lock(name, text string) (io.Closer, error) {
	if info, err := os.Lstat(name); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return nil, fmt.Errorf("the lock file %s is a symbolic link, but must be a file: remove the link if no process uses the directory", name)
	}
	dir, err := lockDir(filepath.Dir(name))
	if err != nil {
		return nil, withHolder(err, name)
	}
	l := heldLock{nil, dir}
	if l.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if err = lock(l.file); err == nil {
		err = l.file.Truncate(0)
	}
	if err == nil {
		_, err = l.file.WriteAt([]byte(text), 0)
	}
	if err != nil {
		return nil, errors.Join(withHolder(err, name), l.Close())
	}
	return l, nil
}

func withHolder(err error, name string) error {
	if locked, ok := errors.AsType[*LockedError](err); ok {
		text, err := os.ReadFile(name)
		if locked.Text = strings.TrimSpace(string(text)); errors.Is(err, fs.ErrNotExist) {
			locked.Text = "unknown: its file " + filepath.Base(name) + " was removed"
		}
	}
	return err
}

type heldLock struct{ file, dir *os.File }

// Close unlocks the files before it closes them. Otherwise, a program that this process is just
// starting would keep the lock: until the program runs, it shares the open files.
func (l heldLock) Close() error {
	var errs []error
	for _, f := range [...]*os.File{l.file, l.dir} {
		if f != nil {
			errs = append(errs, unlock(f), f.Close())
		}
	}
	return errors.Join(errs...)
}

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
