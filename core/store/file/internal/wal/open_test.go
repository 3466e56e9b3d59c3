package wal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys/faultfs"
)

// refusing is a file system of which one call fails.
type refusing struct {
	fsys.FS
	lock, mkdir, create error
}

func (r refusing) MkdirAll(dir string) error {
	if r.mkdir != nil {
		return r.mkdir
	}
	return r.FS.MkdirAll(dir)
}

func (r refusing) Lock(name, text string) (io.Closer, error) {
	if r.lock != nil {
		return nil, r.lock
	}
	return r.FS.Lock(name, text)
}

func (r refusing) Open(name string, flag int) (fsys.File, error) {
	if r.create != nil && flag&os.O_CREATE != 0 {
		return nil, r.create
	}
	return r.FS.Open(name, flag)
}

// What Open refuses names the directory and what to do.
func TestRefusedDirectories(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fs   refusing
		want string
	}{
		{refusing{lock: &fsys.LockedError{Name: "LOCK", Text: "123"}}, "in use by another gateway (LOCK is locked by process 123): stop that gateway"},
		{refusing{lock: fsys.ErrNoLocks}, "cannot be locked: put it on a local disk"},
		{refusing{lock: &fsys.OwnerError{Name: "LOCK", Owner: 5, Self: 6}}, "belongs to user 5: run the gateway as that user (it runs as 6)"},
		{refusing{mkdir: os.ErrPermission}, "the current user may not write to directory /data: change its owner"},
		{refusing{lock: syscall.EROFS}, "is on a read-only file system"},
		{refusing{lock: faultfs.ErrFull}, "is full: free some space"},
		{refusing{mkdir: syscall.ENOTDIR}, "not a directory"},
	} {
		c.fs.FS = faultfs.New()
		_, err := Open(c.fs, dir, Options{})
		if err == nil || !strings.Contains(err.Error(), "directory "+dir) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// A log that needs no new file for now refuses a directory in which it could make none later; on a full
// disk it opens.
func TestADirectoryThatCannotBeWrittenIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		create error
		want   string
	}{{os.ErrPermission, "the current user may not write to directory /data: change its owner"}, {syscall.EROFS, "read-only file system"}, {faultfs.ErrFull, ""}} {
		fs := faultfs.New()
		l, err := Open(fs, dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l, err = Open(refusing{FS: fs, create: c.create}, dir, Options{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.create, err, c.want)
		}
		if err == nil {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestOneLogADirectory(t *testing.T) {
	t.Parallel()
	where := filepath.Join(t.TempDir(), "store")
	l := open(t, where, Options{})
	_, err := Open(fsys.OS{}, where, Options{})
	var locked *fsys.LockedError
	if !errors.As(err, &locked) || locked.Text != fmt.Sprint(os.Getpid()) {
		t.Errorf("got %v, want an error that names process %d", err, os.Getpid())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, where, Options{})
}

// A file of another format, or of another log, is neither read nor changed.
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	fs, _ := build(t, 5, Options{})
	f, err := fs.Open(filepath.Join(dir, "00000001.log"), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, segmentHeaderSize)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	write := func() {
		le.PutUint32(b[60:], checksum(b[:60]))
		if _, err := f.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
	}
	b[8]++
	write()
	var version *VersionError
	if _, err := Open(fs, dir, Options{Repair: true}); !errors.As(err, &version) || version.Version != formatVersion+1 {
		t.Errorf("got %v", err)
	}
	b[8]--
	write()

	other, _ := build(t, 5, Options{})
	g, err := other.Open(filepath.Join(dir, "00000001.log"), os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	b[12] = 9
	if f, err = fs.Open(filepath.Join(dir, "00000009.log"), os.O_RDWR|os.O_CREATE); err != nil {
		t.Fatal(err)
	}
	write()
	if _, err := Open(fs, dir, Options{Repair: true}); err == nil || !strings.Contains(err.Error(), "belong to different stores: move the files") {
		t.Errorf("got %v", err)
	}
}

// What another use of a disk block left in a segment is not taken for a frame: its header's
// checksum covers where it is.
func TestFrameOfAnotherPlace(t *testing.T) {
	t.Parallel()
	var b [frameHeaderSize]byte
	h := header{kind: kindEffects, effects: 10}
	h.put(b[:], At(7, 640))
	if _, ok := decodeHeader(b[:], At(7, 640)); !ok {
		t.Error("a frame is not sound where it is")
	}
	for _, at := range []Position{At(7, 648), At(8, 640)} {
		if _, ok := decodeHeader(b[:], at); ok {
			t.Errorf("a frame of 7:640 is taken for one of %v", at)
		}
	}
}
