// Package faultfs is a file system in memory for tests of power failures and failing disks. It
// knows which changes were synced. Crash returns the file system that a restart would find, with
// random unsynced changes: each page of 4 KiB has the contents after one of its last writes, each
// file one of its lengths since its last sync, and each directory some of its changes.
package faultfs

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
	"github.com/crosstown-mq/crosstown/internal/durable"
)

const pageSize = 4096

type Kind string

const (
	Create   Kind = "create"
	Mkdir    Kind = "mkdir"
	Write    Kind = "write"
	Truncate Kind = "truncate"
	Sync     Kind = "sync"
	SyncDir  Kind = "syncdir"
	Rename   Kind = "rename"
	Remove   Kind = "remove"
	Link     Kind = "link"
	Read     Kind = "read"
)

type Op struct {
	Kind Kind
	Name string
	Off  int64 // the offset of a Write or Read; the new length of a Truncate
	Len  int   // of a Write or Read
}

type Fault struct {
	Err  error
	Done int // bytes that a Write writes before it fails
}

type FS struct {
	// Before is called before each operation, without a lock, so it may call Crash. If it returns a
	// Fault, the operation fails. It must be set before the file system is used.
	Before func(Op) *Fault

	mu       sync.Mutex
	names    map[string]*inode
	synced   map[string]*inode
	changes  []change          // of names since the last SyncDir
	locks    map[string]string // text of the lock's holder, by path
	capacity int64             // in bytes; 0: no limit
	open     int
}

var _ fsys.FS = (*FS)(nil)

type change struct {
	dir  string
	set  string
	to   *inode
	drop string
}

func New() *FS {
	return &FS{names: make(map[string]*inode), synced: make(map[string]*inode), locks: make(map[string]string)}
}

// inode is a file or a directory. FS.mu guards it.
type inode struct {
	isDir  bool
	data   []byte
	synced []byte
	// pages has the latest versions of each page that changed since the last sync.
	pages   map[int][][]byte
	lengths []int
}

// SetCapacity limits the size of all files; 0: no limit. A write beyond it is cut, with ENOSPC.
func (f *FS) SetCapacity(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.capacity = bytes
}

func (f *FS) Used() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used()
}

func (f *FS) used() (n int64) {
	seen := make(map[*inode]bool, len(f.names))
	for _, i := range f.names {
		if !seen[i] {
			seen[i] = true
			n += int64(len(i.data))
		}
	}
	return n
}

func (f *FS) OpenFiles() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

// Crash returns a file system, chosen at random, that a restart after a power failure could find
// now. f does not change. keep is the probability that each unsynced page, length or name survives:
// with 0 only what is synced does, with 1 everything.
func (f *FS) Crash(r *rand.Rand, keep float64) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := maps.Clone(f.synced)
	for _, c := range f.changes {
		if r.Float64() < keep {
			c.apply(names)
		}
	}
	after := New()
	after.capacity = f.capacity
	images := make(map[*inode]*inode, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		i := names[name]
		if !after.hasDir(filepath.Dir(name)) {
			continue // lost with its directory
		}
		image := images[i]
		if image == nil {
			data := i.crash(r, keep)
			image = &inode{isDir: i.isDir, data: data, synced: slices.Clone(data)}
			images[i] = image
		}
		after.names[name] = image
		after.synced[name] = image
	}
	return after
}

// Restart returns the file system that a restarted process finds: nothing is lost, but unsynced
// changes stay unsynced. Data that a failed sync did not write can still be read.
func (f *FS) Restart() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	after := New()
	copies := make(map[*inode]*inode, len(f.names))
	clone := func(i *inode) *inode {
		if copies[i] == nil {
			copies[i] = &inode{
				isDir: i.isDir, data: slices.Clone(i.data), synced: slices.Clone(i.synced),
				pages: maps.Clone(i.pages), lengths: slices.Clone(i.lengths),
			}
		}
		return copies[i]
	}
	for name, i := range f.names {
		after.names[name] = clone(i)
	}
	for name, i := range f.synced {
		after.synced[name] = clone(i)
	}
	for _, c := range f.changes {
		if c.to != nil {
			c.to = clone(c.to)
		}
		after.changes = append(after.changes, c)
	}
	after.capacity = f.capacity
	return after
}

func (c change) apply(names map[string]*inode) {
	if c.drop != "" {
		delete(names, c.drop)
	}
	if c.set != "" {
		names[c.set] = c.to
	}
}

func (i *inode) crash(r *rand.Rand, keep float64) []byte {
	length := len(i.synced)
	if n := len(i.lengths); n > 0 && r.Float64() < keep {
		length = i.lengths[n-1]
		if keep < 1 {
			length = i.lengths[r.IntN(n)]
		}
	}
	data := make([]byte, length)
	copy(data, i.synced)
	for _, page := range slices.Sorted(maps.Keys(i.pages)) {
		if off := page * pageSize; off < length && r.Float64() < keep {
			list := i.pages[page]
			v := len(list) - 1
			if keep < 1 {
				v = r.IntN(len(list))
			}
			copy(data[off:], list[v])
		}
	}
	return data
}

func (i *inode) changed(from, to int) {
	if i.pages == nil {
		i.pages = make(map[int][][]byte)
	}
	for page := from / pageSize; page*pageSize < to; page++ {
		version := make([]byte, pageSize)
		if page*pageSize < len(i.data) {
			copy(version, i.data[page*pageSize:])
		}
		i.pages[page] = latest(append(i.pages[page], version))
	}
	if n := len(i.lengths); n == 0 || i.lengths[n-1] != len(i.data) {
		i.lengths = latest(append(i.lengths, len(i.data)))
	}
}

const versions = 8

func latest[T any](list []T) []T {
	if len(list) > versions {
		list = slices.Delete(list, 0, 1)
	}
	return list
}

func (i *inode) resize(n int) {
	old := len(i.data)
	if n <= cap(i.data) {
		i.data = i.data[:n]
		if n > old {
			clear(i.data[old:])
		}
		return
	}
	grown := make([]byte, n, n+n/2)
	copy(grown, i.data)
	i.data = grown
}

// settle makes the pages durable or, after a failed sync (all is false), a random half of them. No
// later sync writes the other half, although it can still be read.
func (i *inode) settle(all bool) {
	if all || rand.IntN(2) == 0 {
		i.synced = append(i.synced[:min(len(i.synced), len(i.data))], make([]byte, max(0, len(i.data)-len(i.synced)))...)
	}
	for page := range i.pages {
		if off := page * pageSize; off < min(len(i.synced), len(i.data)) && (all || rand.IntN(2) == 0) {
			copy(i.synced[off:min(off+pageSize, len(i.synced))], i.data[off:])
		}
	}
	i.pages, i.lengths = nil, nil
}

func (f *FS) before(op Op) *Fault {
	if f.Before == nil {
		return nil
	}
	return f.Before(op)
}

func failed(op Op, fault *Fault) error {
	return &os.PathError{Op: string(op.Kind), Path: op.Name, Err: fault.Err}
}

func (f *FS) Open(name string, flag int) (fsys.File, error) {
	f.mu.Lock()
	_, exists := f.names[name]
	f.mu.Unlock()
	if op := (Op{Kind: Create, Name: name}); !exists && flag&os.O_CREATE != 0 {
		if fault := f.before(op); fault != nil {
			return nil, failed(op, fault)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.names[name]
	switch {
	case i != nil && flag&os.O_EXCL != 0:
		return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrExist}
	case i == nil && flag&os.O_CREATE == 0, i == nil && !f.hasDir(filepath.Dir(name)):
		return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
	case i == nil:
		i = &inode{}
		f.change(change{dir: filepath.Dir(name), set: name, to: i})
	case flag&os.O_TRUNC != 0:
		old := len(i.data)
		i.resize(0)
		i.changed(0, old)
	}
	f.open++
	return &file{fs: f, name: name, inode: i, readOnly: flag&(os.O_WRONLY|os.O_RDWR) == 0}, nil
}

func (f *FS) change(c change) {
	c.apply(f.names)
	f.changes = append(f.changes, c)
}

func (f *FS) ReadDir(dir string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.hasDir(dir) {
		return nil, &os.PathError{Op: "open", Path: dir, Err: os.ErrNotExist}
	}
	var names []string
	for name := range f.names {
		if filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

func (f *FS) hasDir(dir string) bool {
	i := f.names[dir]
	return dir == filepath.Dir(dir) || i != nil && i.isDir
}

func (f *FS) MkdirAll(dir string) error { return durable.MakeAll(dir, f.mkdirAll, f.SyncDir) }

func (f *FS) mkdirAll(dir string) error {
	f.mu.Lock()
	exists := f.hasDir(dir)
	f.mu.Unlock()
	if exists {
		return nil
	}
	if err := f.mkdirAll(filepath.Dir(dir)); err != nil {
		return err
	}
	op := Op{Kind: Mkdir, Name: dir}
	if fault := f.before(op); fault != nil {
		return failed(op, fault)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.change(change{dir: filepath.Dir(dir), set: dir, to: &inode{isDir: true}})
	return nil
}

func (f *FS) rename(op Op, from string, c change) error {
	if fault := f.before(op); fault != nil {
		return failed(op, fault)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.names[from]
	if i == nil {
		return &os.PathError{Op: string(op.Kind), Path: from, Err: os.ErrNotExist}
	}
	if op.Kind == Link && f.names[c.set] != nil {
		return &os.PathError{Op: string(op.Kind), Path: c.set, Err: os.ErrExist}
	}
	c.dir = filepath.Dir(from)
	if c.set != "" {
		c.dir, c.to = filepath.Dir(c.set), i
	}
	f.change(c)
	return nil
}

func (f *FS) Rename(from, to string) error {
	return f.rename(Op{Kind: Rename, Name: to}, from, change{set: to, drop: from})
}

func (f *FS) Remove(name string) error {
	return f.rename(Op{Kind: Remove, Name: name}, name, change{drop: name})
}

func (f *FS) Link(from, to string) error {
	return f.rename(Op{Kind: Link, Name: to}, from, change{set: to})
}

func (f *FS) SyncDir(dir string) error {
	op := Op{Kind: SyncDir, Name: dir}
	if fault := f.before(op); fault != nil {
		return failed(op, fault)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = slices.DeleteFunc(f.changes, func(c change) bool {
		if c.dir == dir {
			c.apply(f.synced)
		}
		return c.dir == dir
	})
	return nil
}

func (f *FS) Lock(name, text string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if text, locked := f.locks[name]; locked {
		return nil, &fsys.LockedError{Name: name, Text: text}
	}
	f.locks[name] = text
	return unlock{f, name}, nil
}

type unlock struct {
	fs   *FS
	name string
}

func (u unlock) Close() error {
	u.fs.mu.Lock()
	defer u.fs.mu.Unlock()
	delete(u.fs.locks, u.name)
	return nil
}

func (f *FS) Free(string) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.capacity == 0 {
		return 1 << 50, nil
	}
	return max(f.capacity-f.used(), 0), nil
}

func (f *FS) Flip(name string, off int, mask byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.names[name]
	if i == nil || off >= len(i.data) {
		return &os.PathError{Op: "flip", Path: name, Err: os.ErrNotExist}
	}
	i.data[off] ^= mask
	if off < len(i.synced) {
		i.synced[off] ^= mask
	}
	return nil
}

type file struct {
	fs       *FS
	name     string
	inode    *inode
	readOnly bool
	closed   bool // guarded by fs.mu
}

func (f *file) check() error {
	if f.closed {
		return &os.PathError{Op: "use", Path: f.name, Err: os.ErrClosed}
	}
	return nil
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	op := Op{Read, f.name, off, len(b)}
	if fault := f.fs.before(op); fault != nil {
		return 0, failed(op, fault)
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check(); err != nil {
		return 0, err
	}
	if off >= int64(len(f.inode.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.inode.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	op := Op{Write, f.name, off, len(b)}
	fault := f.fs.before(op)
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check(); err != nil {
		return 0, err
	}
	if f.readOnly {
		return 0, &os.PathError{Op: "write", Path: f.name, Err: os.ErrPermission}
	}
	n := len(b)
	var err error
	if fault != nil {
		n, err = min(n, fault.Done), failed(op, fault)
	}
	if f.fs.capacity != 0 {
		if room := f.fs.capacity - f.fs.used() + int64(len(f.inode.data)) - off; int64(n) > room {
			n, err = int(max(room, 0)), failed(op, &Fault{Err: ErrFull})
		}
	}
	if n > 0 {
		i := f.inode
		if end := int(off) + n; end > len(i.data) {
			i.resize(end)
		}
		copy(i.data[off:], b[:n])
		i.changed(int(off), int(off)+n)
	}
	return n, err
}

// WritevAt writes each buffer separately, so that a Fault can occur between them.
func (f *file) WritevAt(parts [][]byte, off int64) (n int, err error) {
	for _, b := range parts {
		k, err := f.WriteAt(b, off+int64(n))
		if n += k; err != nil {
			return n, err
		}
	}
	return n, nil
}

func (f *file) Reserve(int64, int64) {}

func (f *file) Truncate(size int64) error {
	op := Op{Truncate, f.name, size, 0}
	if fault := f.fs.before(op); fault != nil {
		return failed(op, fault)
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check(); err != nil {
		return err
	}
	i := f.inode
	old := len(i.data)
	i.resize(int(size))
	i.changed(int(min(size, int64(old))), max(int(size), old))
	return nil
}

// If Sync fails, a random half of the pages becomes durable. The other half never becomes durable,
// although it can be read. A kernel that marks pages as clean after a failed write behaves like
// this.
func (f *file) Sync() error {
	op := Op{Kind: Sync, Name: f.name}
	fault := f.fs.before(op)
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check(); err != nil {
		return err
	}
	f.inode.settle(fault == nil)
	if fault != nil {
		return failed(op, fault)
	}
	return nil
}

func (f *file) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.inode.data)), f.check()
}

func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check(); err != nil {
		return err
	}
	f.closed = true
	f.fs.open--
	return nil
}

var ErrIO = errors.New("input/output error")

var ErrFull error = syscall.ENOSPC
