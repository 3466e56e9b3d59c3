package wal

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
)

const (
	magicSnapshot      = "xtownsnp"
	snapshotHeaderSize = 64
	blockSize          = 64 << 10
	maxBlock           = 1 << 20
	keptSnapshots      = 2
)

type SnapshotInfo struct {
	ID   uint32
	From Position
	End  Position // end of the log when the snapshot was written
	Made time.Time
	Size int64
}

type snapshots struct {
	writing sync.Mutex   // held while a snapshot is written
	linking sync.RWMutex // locked while hard links to segments and snapshots are made
	mu      sync.Mutex
	list    []SnapshotInfo // newest first
}

// floor returns the lowest From of the kept snapshots. ok is false without a snapshot.
func (s *snapshots) floor() (from Position, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return 0, false
	}
	return slices.MinFunc(s.list, func(a, b SnapshotInfo) int { return cmp.Compare(a.From, b.From) }).From, true
}

func (l *Log) Snapshots() []SnapshotInfo {
	l.snapshots.mu.Lock()
	defer l.snapshots.mu.Unlock()
	return slices.Clone(l.snapshots.list)
}

// WriteSnapshot makes the newest snapshot from what the function write writes. from is where Replay
// must begin after this snapshot was loaded. Everything that was appended before write returned is
// synced before the snapshot becomes valid, so a snapshot is never ahead of the log. The two newest
// snapshots are kept. If write or the disk fails, the incomplete snapshot is removed.
func (l *Log) WriteSnapshot(ctx context.Context, from Position, write func(io.Writer) error) (SnapshotInfo, error) {
	l.snapshots.writing.Lock()
	defer l.snapshots.writing.Unlock()
	info, err := l.writeSnapshot(ctx, from, write)
	if err != nil {
		return SnapshotInfo{}, fmt.Errorf("cannot write a snapshot of the log in %s: %w", l.dir, err)
	}
	l.snapshots.linking.RLock()
	defer l.snapshots.linking.RUnlock()
	l.snapshots.mu.Lock()
	list := append([]SnapshotInfo{info}, l.snapshots.list...)
	keep := min(len(list), keptSnapshots)
	l.snapshots.list = slices.Clone(list[:keep])
	l.snapshots.mu.Unlock()
	for _, old := range list[keep:] {
		err = errors.Join(err, l.fs.Remove(l.path(fileName(old.ID, suffixSnapshot))))
	}
	l.freed.Set()
	return info, err
}

func (l *Log) writeSnapshot(ctx context.Context, from Position, write func(io.Writer) error) (SnapshotInfo, error) {
	info := SnapshotInfo{ID: 1, From: from, Made: time.Now()}
	if err := l.Stopped(); err != nil {
		return info, err
	}
	if list := l.Snapshots(); len(list) > 0 {
		info.ID = list[0].ID + 1
	}
	err := l.replace(l.path(fileName(info.ID, suffixSnapshot)), func(file fsys.File) error {
		w := &snapshotWriter{file: file, id: info.ID, off: snapshotHeaderSize}
		if err := write(w); err != nil {
			return err
		}
		info.End = l.End()
		if err := w.finish(); err != nil {
			return err
		}
		info.Size = w.off
		var h [snapshotHeaderSize]byte
		putSnapshotHeader(h[:], info, l.id)
		_, err := file.WriteAt(h[:], 0)
		return err
	}, func() error { return l.syncTo(ctx, info.End) })
	return info, err
}

// replace gives a file new contents, or creates it. It writes and syncs a temporary file, calls
// synced and then renames the file.
func (l *Log) replace(name string, write func(fsys.File) error, synced func() error) error {
	temp := name + suffixTemp
	file, err := l.fs.Open(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if err = write(file); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = synced()
	}
	if err == nil {
		err = l.fs.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(l.fs.Remove(temp)))
	}
	return l.fs.SyncDir(l.dir)
}

// syncTo syncs everything up to pos, whatever Options.Sync is.
func (l *Log) syncTo(ctx context.Context, pos Position) error {
	if err := l.Wait(ctx, pos); err != nil {
		return err
	}
	if l.Synced() >= pos {
		return nil
	}
	return l.sync()
}

func putSnapshotHeader(b []byte, s SnapshotInfo, log uint64) {
	clear(b[:snapshotHeaderSize])
	copy(b, magicSnapshot)
	le.PutUint32(b[8:], formatVersion)
	le.PutUint32(b[12:], s.ID)
	le.PutUint64(b[16:], uint64(s.From))
	le.PutUint64(b[24:], uint64(s.End))
	le.PutUint64(b[32:], uint64(s.Made.UnixMilli()))
	le.PutUint64(b[40:], log)
	le.PutUint32(b[60:], checksum(b[:60]))
}

func decodeSnapshotHeader(b []byte) (s SnapshotInfo, log uint64, version uint32, ok bool) {
	if len(b) < snapshotHeaderSize || string(b[:8]) != magicSnapshot || le.Uint32(b[60:]) != checksum(b[:60]) {
		return s, 0, 0, false
	}
	s = SnapshotInfo{
		ID:   le.Uint32(b[12:]),
		From: Position(le.Uint64(b[16:])),
		End:  Position(le.Uint64(b[24:])),
		Made: time.UnixMilli(int64(le.Uint64(b[32:]))),
	}
	version = le.Uint32(b[8:])
	return s, le.Uint64(b[40:]), version, version == formatVersion && s.From <= s.End && s.From.sound() && s.End.sound()
}

type snapshotWriter struct {
	file   fsys.File
	id     uint32
	off    int64
	buf    []byte
	blocks uint32
	total  uint64
}

func (w *snapshotWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if w.buf == nil {
			w.buf = make([]byte, 8, 8+blockSize)
		}
		k := min(len(p), 8+blockSize-len(w.buf))
		w.buf = append(w.buf, p[:k]...)
		p = p[k:]
		if len(w.buf) == 8+blockSize {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (w *snapshotWriter) flush() error {
	if len(w.buf) <= 8 {
		return nil
	}
	content := w.buf[8:]
	le.PutUint32(w.buf, uint32(len(content)))
	le.PutUint32(w.buf[4:], blockCRC(w.id, w.blocks, content))
	if _, err := w.file.WriteAt(w.buf, w.off); err != nil {
		return err
	}
	w.off += int64(len(w.buf))
	w.total += uint64(len(content))
	w.blocks++
	w.buf = w.buf[:8]
	return nil
}

func (w *snapshotWriter) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	b := make([]byte, 8)
	le.PutUint32(b[4:], trailerCRC(w.id, w.blocks, w.total))
	_, err := w.file.WriteAt(b, w.off)
	w.off += int64(len(b))
	return err
}

func blockCRC(id, number uint32, content []byte) uint32 {
	var place [8]byte
	le.PutUint32(place[:], id)
	le.PutUint32(place[4:], number)
	return update(checksum(place[:]), content)
}

func trailerCRC(id, blocks uint32, total uint64) uint32 {
	var b [16]byte
	le.PutUint32(b[:], id)
	le.PutUint32(b[4:], blocks)
	le.PutUint64(b[8:], total)
	return checksum(b[:])
}

// OpenSnapshot opens a snapshot for reading. The reader checks each block before it returns any
// byte of it, and returns io.EOF only after an intact trailer. Until io.EOF, the caller must not
// use what it has read. Other errors are *DamageError; the older snapshot may be intact.
func (l *Log) OpenSnapshot(s SnapshotInfo) (io.ReadCloser, error) {
	return OpenSnapshot(l.fs, l.dir, s)
}

func OpenSnapshot(fs fsys.FS, dir string, s SnapshotInfo) (io.ReadCloser, error) {
	name := filepath.Join(dir, fileName(s.ID, suffixSnapshot))
	file, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	r := &snapshotReader{file: file, name: name, id: s.ID, off: snapshotHeaderSize}
	r.in = bufio.NewReaderSize(io.NewSectionReader(file, r.off, 1<<62), int(min(s.Size, windowSize)))
	return r, nil
}

type snapshotReader struct {
	file   fsys.File
	name   string
	id     uint32
	in     *bufio.Reader
	off    int64
	block  []byte
	buf    []byte
	blocks uint32
	total  uint64
	err    error
}

func (r *snapshotReader) Read(p []byte) (int, error) {
	for len(r.block) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.err = r.next()
	}
	n := copy(p, r.block)
	r.block = r.block[n:]
	return n, nil
}

func (r *snapshotReader) next() error {
	var h [8]byte
	if _, err := io.ReadFull(r.in, h[:]); err != nil {
		return r.damage("the file is truncated")
	}
	n, crc := le.Uint32(h[:]), le.Uint32(h[4:])
	if n == 0 {
		if crc != trailerCRC(r.id, r.blocks, r.total) {
			return r.damage("the trailer's checksum is wrong")
		}
		return io.EOF
	}
	if n > maxBlock {
		return r.damage("a block is too long")
	}
	r.buf = slices.Grow(r.buf[:0], int(n))[:n]
	if _, err := io.ReadFull(r.in, r.buf); err != nil {
		return r.damage("the file is truncated")
	}
	if blockCRC(r.id, r.blocks, r.buf) != crc {
		return r.damage("a block's checksum is wrong")
	}
	r.block = r.buf
	r.blocks++
	r.total += uint64(n)
	r.off += int64(len(h)) + int64(n)
	return nil
}

func (r *snapshotReader) damage(reason string) error {
	return &DamageError{File: r.name, From: uint32(min(r.off, maxSegment)), Reason: reason}
}

func (r *snapshotReader) Close() error { return r.file.Close() }

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
