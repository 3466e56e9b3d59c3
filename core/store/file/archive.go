package file

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/durable"
)

const (
	// linksDir is in the store's directory, because hard links must be on the same file system. The
	// log ignores it.
	linksDir    = "backup"
	archiveHead = "crosstown-archive.json"
)

// An archive is a tar file of an ArchiveHead (JSON) and the store's files as of one time.
type ArchiveHead struct {
	Made  time.Time     `json:"made"`
	By    string        `json:"by"`
	Files []ArchiveFile `json:"files"`
}

type ArchiveFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Archive has the store's files as of one time, while calls continue. The caller must Close it.
type Archive struct {
	of   *Store
	head ArchiveHead
}

// Archive makes hard links to all files. While another Archive is open, it returns core.Conflict.
func (s *Store) Archive(ctx context.Context, by string) (*Archive, error) {
	if !s.archiving.CompareAndSwap(false, true) {
		return nil, core.Refuse(core.Conflict, "A backup of this gateway is in progress: wait until it has ended.")
	}
	a := &Archive{of: s, head: ArchiveHead{Made: time.Now().UTC(), By: by}}
	err := s.log.HardLinkTo(ctx, a.path(""))
	var names []string
	if err == nil {
		names, err = s.o.fs.ReadDir(a.path(""))
	}
	for _, name := range names {
		var f ArchiveFile
		if f, err = a.stat(name); err != nil {
			break
		}
		a.head.Files = append(a.head.Files, f)
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		err = core.Refuse(core.NotAllowed, "The file system of %s does not support hard links (%v): stop the gateway and use crosstown backup --data DIRECTORY, or copy the directory.", s.dir, link.Err)
	}
	if err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

func (a *Archive) path(name string) string { return filepath.Join(a.of.dir, linksDir, name) }

func (a *Archive) stat(name string) (ArchiveFile, error) {
	f, err := a.of.o.fs.Open(a.path(name), os.O_RDONLY)
	if err != nil {
		return ArchiveFile{}, err
	}
	size, err := f.Size()
	return ArchiveFile{name, size}, errors.Join(err, f.Close())
}

func (a *Archive) Write(w io.Writer) error {
	head, err := json.Marshal(a.head)
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	add := func(name string, size int64, in io.Reader) error {
		if err := out.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: a.head.Made}); err != nil {
			return err
		}
		if _, err := io.CopyN(out, in, size); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	if err := add(archiveHead, int64(len(head)), strings.NewReader(string(head))); err != nil {
		return err
	}
	for _, x := range a.head.Files {
		f, err := a.of.o.fs.Open(a.path(x.Name), os.O_RDONLY)
		if err != nil {
			return err
		}
		err = add(x.Name, x.Size, io.NewSectionReader(f, 0, x.Size))
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return out.Close()
}

func (a *Archive) Close() {
	a.of.removeLinks()
	a.of.archiving.Store(false)
}

func (s *Store) removeLinks() {
	dir := filepath.Join(s.dir, linksDir)
	names, err := s.o.fs.ReadDir(dir)
	if err != nil {
		return
	}
	for _, name := range names {
		err = errors.Join(err, s.o.fs.Remove(filepath.Join(dir, name)))
	}
	if err = errors.Join(err, s.o.fs.Remove(dir)); err != nil {
		s.o.Logger.Warn("cannot remove the hard links of a backup, which keep removed files of the log on the disk: remove the directory", "dir", dir, "err", err)
	}
}

var ErrCut = errors.New("the backup is truncated or damaged and cannot be restored")

func IsArchive(begins []byte) bool {
	return strings.HasPrefix(string(begins), archiveHead)
}

// ReadArchive calls take for each file. It returns ErrCut if the archive is incomplete or damaged.
func ReadArchive(r io.Reader, take func(name string, in io.Reader) error) (*ArchiveHead, error) {
	in, head := tar.NewReader(r), &ArchiveHead{}
	h, err := in.Next()
	if err == nil && h.Name == archiveHead && h.Size < 64<<20 {
		err = json.NewDecoder(in).Decode(head)
	}
	for _, f := range head.Files {
		if err != nil {
			break
		}
		if h, err = in.Next(); err == nil && (h.Name != f.Name || h.Size != f.Size || !filepath.IsLocal(f.Name) || filepath.Base(f.Name) != f.Name) {
			return nil, fmt.Errorf("%w: it contains the file %.60q (%d bytes) instead of %.60q (%d bytes)", ErrCut, h.Name, h.Size, f.Name, f.Size)
		}
		if err == nil {
			err = take(f.Name, in)
		}
	}
	if err == nil && len(head.Files) > 0 {
		if _, err = in.Next(); errors.Is(err, io.EOF) {
			return head, nil
		}
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrHeader) {
		return nil, fmt.Errorf("%w: it does not contain exactly the %d files that its header lists", ErrCut, len(head.Files))
	}
	return nil, err
}

// Restore unpacks an archive into dir, which must be empty or missing. dir gets its contents in one
// step, after the whole archive was read and checked.
func Restore(dir string, r io.Reader) (_ *ArchiveHead, err error) {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("%s is not empty: move its contents away, or restore into another data directory", dir)
	}
	temp := dir + ".restoring"
	if err := errors.Join(os.RemoveAll(temp), durable.MkdirAll(temp)); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(temp) }() // does nothing after the rename
	head, err := ReadArchive(r, func(name string, in io.Reader) error {
		return durable.Create(filepath.Join(temp, name), 0o600, func(w io.Writer) error {
			_, err := io.Copy(w, in)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	found, err := Inspect(temp, true)
	if err != nil {
		return nil, err
	}
	if found.Damaged() {
		return nil, fmt.Errorf("%w: its checksum is wrong", ErrCut)
	}
	if err := os.Rename(temp, dir); err != nil {
		return nil, fmt.Errorf("%w: if %s is a mount point, restore into another directory of the same file system, then move the files into %[2]s", err, dir)
	}
	return head, durable.SyncDir(filepath.Dir(dir))
}
