package wal

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

// Sync determines what Wait waits for.
type Sync int

const (
	// Interval: Wait returns once the frame is written to the file. The log syncs the frame at most
	// Options.Interval later. A crash of the process loses nothing. A power failure loses what was
	// written since the last sync.
	Interval Sync = iota
	// Always: Wait returns once the frame is synced. Frames that are appended during a sync share
	// the next sync.
	Always
	// Never: Wait returns once the frame is written to the file. The log syncs only complete
	// segments, snapshots and large bodies, and everything at Close.
	Never
)

// String returns the mode's name.
func (s Sync) String() string { return [...]string{"interval", "always", "never"}[s] }

// Options configure a Log. The zero value of each field means its default.
type Options struct {
	Sync     Sync
	Interval time.Duration // default 100 ms

	SegmentSize int // bytes after which a new segment begins, default 64 MiB
	MaxFrame    int // largest frame, default 256 MiB; a frame larger than SegmentSize has its own segment
	LargeBody   int // larger bodies need WriteBody; default 1 MiB
	Backlog     int // bytes reserved or appended but not yet written that Reserve allows; default 64 MiB
	Recent      int // bytes of memory for the records written last, for Read; default 32 MiB

	// Keep is the number of bytes of disk space that Reserve keeps free for control records, by
	// default 64 MiB. SetKeep changes it: it should grow with the snapshots.
	Keep int64

	// Repair replaces damage by gaps, instead of refusing to open the log. It reads the whole log.
	Repair bool

	Logger *slog.Logger // default: nothing is logged
}

func (o Options) withDefaults() Options {
	o.SegmentSize = cmp.Or(o.SegmentSize, 64<<20)
	o.MaxFrame = cmp.Or(o.MaxFrame, 256<<20)
	o.LargeBody = cmp.Or(o.LargeBody, 1<<20)
	o.Backlog = cmp.Or(o.Backlog, 64<<20)
	o.Recent = cmp.Or(o.Recent, 32<<20)
	o.Interval = cmp.Or(o.Interval, 100*time.Millisecond)
	o.Keep = cmp.Or(o.Keep, 64<<20)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Log is an open log. Its methods may be called concurrently, except for Replay, which must be
// called before the first Append.
type Log struct {
	fs   fsys.FS
	dir  string
	o    Options
	lock io.Closer

	mu sync.Mutex // guards appended
	appended

	id uint64 // in the headers of all segments and snapshots
	progress
	space space
	room  room
	waits waits
	keep  atomic.Int64

	segments  segments
	dirty     dirty
	syncing   sync.Mutex // held by a sync
	snapshots snapshots
	w         writer
	signals
	ending
	outage
}

// appended is what was appended, including what is not written yet.
type appended struct {
	ids     uint32   // highest id of a segment so far
	next    Position // of the next frame
	gather  *batch   // what the writer writes next; the last of batches
	batches []*batch // by position: recent ones, the one being written, gather
	recent  int      // bytes of memory that written batches take
	spare   []*batch // for reuse
}

// progress is how far a log has been written.
type progress struct {
	opened  Position      // end of the log when it was opened
	end     atomic.Uint64 // behind the last frame
	written atomic.Uint64 // everything before is in the files
	synced  atomic.Uint64 // everything before is durable
	backlog atomic.Int64  // bytes reserved or appended but not yet written
}

// signals wake the goroutines of a log.
type signals struct {
	wake       wake.Signal // to the writer: gather has frames
	wakeSyncer wake.Signal // to the syncer: something unsynced was written
	freed      wake.Signal // to a writer that waits for space
	armed      atomic.Bool // the timer unled is running
	unled      *time.Timer // wakes the writer if nothing else does
}

// ending is how a log is closed cleanly.
type ending struct {
	closed  atomic.Bool   // changed with mu held; what is appended afterwards is not kept
	closing chan struct{} // closed when Close begins
	ended   chan struct{} // closed when nothing more is written
	tasks   sync.WaitGroup
}

// outage is how a log ends after a failure.
type outage struct {
	failure atomic.Pointer[FailedError]
	failed  chan struct{}
	failing sync.Once
}

// End returns the position after the last frame appended.
func (l *Log) End() Position { return Position(l.end.Load()) }

// Durable returns the position up to which everything is as durable as Options.Sync promises. Wait
// for this position, or for an earlier one, returns immediately.
func (l *Log) Durable() Position {
	if l.o.Sync == Always {
		return l.Synced()
	}
	return Position(l.written.Load())
}

// Synced returns the position up to which everything survives a power failure.
func (l *Log) Synced() Position { return Position(l.synced.Load()) }

// Closed reports whether Close was called. Frames that are appended after Close are not stored.
func (l *Log) Closed() bool { return l.closed.Load() }

// start begins the log's goroutines. Everything up to end is synced.
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
	l.opened = end
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

// Close writes and syncs the appended frames, marks the log as cleanly closed, and unlocks the
// directory. If the disk is full, it does not wait for space but returns an error.
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

// markClosed writes and syncs what remains, and then the frame that marks the log as closed.
func (l *Log) markClosed() error {
	l.w.turn.Lock()
	defer l.w.turn.Unlock()
	for l.writeBatch(true) {
	}
	if err := l.sync(); err != nil {
		return err
	}
	l.mu.Lock()
	l.mark(l.gather, kindClose)
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
