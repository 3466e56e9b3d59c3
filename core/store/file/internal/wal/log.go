package wal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

type Sync string

const (
	// Interval: Wait returns when the frame is written to the file. The log syncs it at most
	// Options.Interval later. A crash of the process loses nothing, a power failure loses what was
	// written since the last sync.
	Interval Sync = "interval"
	// Always: Wait returns when the frame is synced. Frames share a sync where possible.
	Always Sync = "always"
	// Never: Wait returns when the frame is written to the file. The log syncs only complete
	// segments, snapshots and large bodies, and everything in Close.
	Never Sync = "never"
)

type Options struct {
	Sync     Sync          // default: Interval
	Interval time.Duration // default: 100 ms

	SegmentSize int // size at which a new segment begins; default: 64 MiB
	MaxFrame    int // default: 256 MiB; a frame larger than SegmentSize gets its own segment
	Backlog     int // bytes that may be reserved or appended but not written; default: 64 MiB
	Recent      int // bytes of the latest records that stay in memory for Read; default: 32 MiB

	// Keep is the disk space in bytes that Reserve keeps free for frames without a reservation,
	// such as settlements (default: 64 MiB). SetKeep changes it: it should grow with the snapshots.
	Keep int64

	// Repair makes Open read the whole log and replace damage by gap frames, instead of failing.
	Repair bool

	Logger *slog.Logger // default: no log
}

func (o Options) withDefaults() Options {
	o.Sync = cmp.Or(o.Sync, Interval)
	o.SegmentSize = cmp.Or(o.SegmentSize, 64<<20)
	o.MaxFrame = cmp.Or(o.MaxFrame, 256<<20)
	o.Backlog = cmp.Or(o.Backlog, 64<<20)
	o.Recent = cmp.Or(o.Recent, 32<<20)
	o.Interval = cmp.Or(o.Interval, 100*time.Millisecond)
	o.Keep = cmp.Or(o.Keep, 64<<20)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Log is safe for concurrent use, except for Replay, which must be called before the first Append.
type Log struct {
	fs   fsys.FS
	dir  string
	o    Options
	lock io.Closer

	mu sync.Mutex // guards appended
	appended

	id uint64 // id of the log, in the headers of all segments and snapshots
	progress
	space space
	room  room
	waits waits
	keep  atomic.Int64

	segments  segments
	dirty     dirty
	syncing   sync.Mutex // held during a sync
	snapshots snapshots
	w         writer
	signals
	ending
	outage
}

type appended struct {
	ids     uint32   // highest id of a segment
	next    Position // position of the next frame
	gather  *batch   // the last of batches, which will be written next
	batches []*batch // by position: those kept for Read, then the one being written, then gather
	recent  int      // bytes of memory of the written batches
	spare   []*batch
}

type progress struct {
	end     atomic.Uint64 // position after the last appended frame
	written atomic.Uint64 // position up to which the files have the log
	synced  atomic.Uint64 // position up to which the log is durable
	backlog atomic.Int64  // bytes that were reserved or appended, but not written
}

type signals struct {
	wake       wake.Signal // for the writer: gather has frames
	wakeSyncer wake.Signal // for the syncer: there is something to sync
	freed      wake.Signal // for a writer that waits for disk space
	armed      atomic.Bool // the timer unled is running
	unled      *time.Timer // wakes the writer if nothing else does
}

type ending struct {
	closed  atomic.Bool // set under mu; frames that are appended later are lost
	closing chan struct{}
	ended   chan struct{} // closed when nothing more will be written
	tasks   sync.WaitGroup
}

type outage struct {
	failure atomic.Pointer[FailedError]
	failed  chan struct{}
	failing sync.Once
}

func (l *Log) End() Position { return Position(l.end.Load()) }

// Durable returns the position up to which Wait returns immediately.
func (l *Log) Durable() Position {
	if l.o.Sync == Always {
		return l.Synced()
	}
	return Position(l.written.Load())
}

func (l *Log) Synced() Position { return Position(l.synced.Load()) }

// start requires that everything up to end is synced.
func (l *Log) start(end Position) {
	l.wake = wake.New()
	l.wakeSyncer = wake.New()
	l.freed = wake.New()
	l.closing = make(chan struct{})
	l.ended = make(chan struct{})
	l.gather = &batch{}
	l.batches = []*batch{l.gather}
	l.end.Store(uint64(end))
	l.written.Store(uint64(end))
	l.synced.Store(uint64(end))
	l.w.l = l
	l.lookForSpace()
	l.keep.Store(l.o.Keep)
	l.unled = time.AfterFunc(unledDelay, func() {
		l.armed.Store(false)
		l.wake.Set()
	})
	l.tasks.Go(l.writeBatches)
	if l.o.Sync != Always {
		l.tasks.Go(l.syncInBackground)
	}
}

// Close fails if the disk is full.
func (l *Log) Close() error {
	l.mu.Lock()
	again := l.closed.Swap(true)
	l.mu.Unlock()
	if again {
		return nil
	}
	close(l.closing)
	l.unled.Stop()
	l.tasks.Wait()

	err := l.markClosed()
	close(l.ended)
	l.segments.close()
	return errors.Join(err, l.lock.Close())
}

func (l *Log) markClosed() error {
	l.w.turn.Lock()
	defer l.w.turn.Unlock()
	for l.writeBatch(true) {
	}
	if err := l.sync(); err != nil {
		return err
	}
	l.mu.Lock()
	l.add(l.gather, kindClose, nil, nil, frameHeaderSize)
	l.mu.Unlock()
	l.writeBatch(true)
	if err := l.Err(); err != nil {
		return err
	}
	if err := l.w.trim(); err != nil {
		return err
	}
	return l.sync()
}

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

// HardLinkTo makes hard links, in another directory of the same file system, to all files that are
// needed to open the log as it is now: segments, large bodies and snapshots. It first seals and
// syncs the log's segments, and creates the directory. The log continues meanwhile, but Remove and
// WriteSnapshot wait.
func (l *Log) HardLinkTo(ctx context.Context, dir string) error {
	l.snapshots.linking.Lock()
	defer l.snapshots.linking.Unlock()
	l.mu.Lock()
	if l.next.Offset() > segmentHeaderSize && !l.closed.Load() {
		l.roll(l.gather)
	}
	end := l.End()
	l.mu.Unlock()
	l.wake.Set()
	if err := l.syncTo(ctx, end); err != nil {
		return err
	}
	if err := l.fs.MkdirAll(dir); err != nil {
		return err
	}
	var names []string
	for _, s := range l.segments.list() {
		if s.body || s.id <= end.Segment() {
			names = append(names, s.name())
		}
	}
	for _, s := range l.Snapshots() {
		if s.End <= end {
			names = append(names, fileName(s.ID, suffixSnapshot))
		}
	}
	for _, name := range names {
		if err := l.fs.Link(l.path(name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return l.fs.SyncDir(dir)
}
