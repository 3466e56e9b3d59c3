package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/journal"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/wal"
	"github.com/crosstown-mq/crosstown/core/store/internal/state"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

type Sync = wal.Sync

// The modes differ in when acknowledged data begin to survive a power failure. In all modes they
// survive the end of the process.
const (
	SyncInterval = wal.Interval // they survive at most Options.Interval after the acknowledgement
	SyncAlways   = wal.Always   // they survive from the acknowledgement on
	SyncNever    = wal.Never    // they survive when the operating system has written them
)

// Options configure a Store. A zero field means its default.
type Options struct {
	Sync     Sync          // default: SyncInterval
	Interval time.Duration // default: 100 ms
	// Memory is the largest number of bytes of messages that stay in memory; others are read from
	// the log. The default is 128 MiB. With a negative value, no messages stay in memory.
	Memory int64
	// Remember limits the bytes of message ids and, separately, of histories (see state.Options).
	// The default is 128 MiB. A negative value means no limit.
	Remember int64
	// SnapshotAfter is how many bytes the log grows between snapshots. The default is 64 MiB.
	SnapshotAfter int64
	// Repair makes Open keep the intact part of damaged data, instead of failing.
	Repair bool
	// Clock returns the time. nil means the machine's clock with slow adjustments.
	Clock  func() time.Time
	Logger *slog.Logger // default: no log

	fs          fsys.FS // set by tests
	segmentSize int
	recent      int
	compact     int64 // replaces compactBelow; negative: never compact
}

// ErrDamaged is the error for a message that is missing, or that differs from what was written.
var ErrDamaged = state.ErrDamaged

type Store struct {
	*state.Store
	journal *journal.Journal
	log     *wal.Log
	o       Options
	dir     string

	running context.Context // ends in Close
	stop    context.CancelFunc
	tasks   sync.WaitGroup
	once    sync.Once
	err     error

	archiving    atomic.Bool
	snapshotting sync.Mutex
	lastAt       int64 // journal.Appended at the last snapshot
	lastSize     int64
}

var _ core.Store = (*Store)(nil)

func (o Options) withDefaults() Options {
	o.Sync = cmp.Or(o.Sync, SyncInterval)
	o.Interval = cmp.Or(o.Interval, 100*time.Millisecond)
	o.Memory = cmp.Or(o.Memory, 128<<20)
	o.Remember = cmp.Or(o.Remember, 128<<20)
	o.SnapshotAfter = cmp.Or(o.SnapshotAfter, 64<<20)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.compact = cmp.Or(o.compact, compactBelow)
	o.fs = cmp.Or(o.fs, fsys.FS(fsys.OS{}))
	return o
}

// Open opens the store in a directory, which it creates if needed. Errors contain the remedy.
func Open(dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the directory of the file store must be an absolute path: %q is not", dir)
	}
	if o.Sync != SyncInterval && o.Sync != SyncAlways && o.Sync != SyncNever {
		return nil, fmt.Errorf("sync mode %q is unknown: use always, interval or never", o.Sync)
	}
	log, err := wal.Open(o.fs, dir, wal.Options{
		Sync: o.Sync, Interval: o.Interval, Repair: o.Repair, Logger: o.Logger, SegmentSize: o.segmentSize, Recent: o.recent,
	})
	if err != nil {
		return nil, repairHint(err)
	}
	s := &Store{log: log, o: o, dir: dir}
	s.running, s.stop = context.WithCancel(context.Background())
	s.removeLinks()
	s.journal = journal.New(log, journal.Options{Memory: o.Memory, Compact: o.compact, Logger: o.Logger})
	if err := s.replay(); err != nil {
		return nil, errors.Join(repairHint(err), log.Close())
	}
	s.tasks.Go(s.maintain)
	return s, nil
}

func repairHint(err error) error {
	if damage, ok := errors.AsType[*wal.DamageError](err); ok {
		return fmt.Errorf("%w: restore a backup, or start the gateway once with --repair, which drops the damaged records and keeps a copy of %s", err, filepath.Base(damage.File))
	}
	return err
}

func (s *Store) replay() error {
	now := s.o.Clock
	var own *clock // begins at the last replayed time
	if now == nil {
		now = func() time.Time { return own.Now() }
	}
	var from wal.Position
	for _, info := range s.log.Snapshots() {
		mem := s.newMemory(now)
		r, err := s.log.OpenSnapshot(info)
		if err == nil {
			err = journal.Load(mem, r)
		}
		if err == nil {
			s.Store, from, s.lastSize = mem, info.From, info.Size
			break
		}
		if _, damaged := errors.AsType[*wal.DamageError](err); !damaged {
			return fmt.Errorf("cannot load a snapshot of %s: %w", s.dir, err)
		}
		s.o.Logger.Warn("a snapshot is damaged: the gateway tries the previous snapshot, or the whole log", "err", err)
	}
	if s.Store == nil {
		s.Store = s.newMemory(now)
	}
	if err := s.journal.Replay(from, s.Store.Replay()); err != nil {
		return err
	}
	if s.o.Clock == nil {
		own = newClock(time.Now, s.Latest(), s.o.Logger)
		s.tasks.Go(func() {
			for wake.After(s.running, adjustEvery) {
				own.adjust()
			}
		})
	}
	if err := s.Start(); err != nil {
		return err
	}
	s.EndLinks()
	if !s.o.Repair {
		return nil
	}
	return s.RemoveDamaged(func(entity string, n int64, err error) {
		if err == nil {
			s.o.Logger.Warn("repair: a message that was damaged is readable now: receivers get it", "entity", entity, "seq", n)
			return
		}
		s.o.Logger.Error("repair: removed a damaged message", "entity", entity, "seq", n, "err", err)
	})
}

func (s *Store) newMemory(clock func() time.Time) *state.Store {
	return state.New(state.Options{Clock: clock, Journal: s.journal, Lenient: s.o.Repair, Remember: max(s.o.Remember, 0)})
}

func (s *Store) WithTime(f func(now time.Time) time.Time) core.Store {
	return &view{Store: s.View(f), of: s}
}

type view struct {
	*state.Store
	of *Store
}

func (v *view) Probe(ctx context.Context) error { return v.of.Probe(ctx) }

func (v *view) About(ctx context.Context) core.About { return v.of.About(ctx) }

// Failed returns a channel that is closed when a disk error stops the store. From then on, the
// store acknowledges and delivers nothing. The directory can safely be opened again.
func (s *Store) Failed() <-chan struct{} { return s.log.Failed() }

func (s *Store) Err() error { return s.log.Err() }

func (s *Store) Probe(context.Context) error {
	if err := s.log.Err(); err != nil {
		return err
	}
	return s.log.Full()
}

func (s *Store) About(context.Context) core.About {
	about := core.About{Engine: "file", Detail: s.dir, Durable: true}
	switch s.o.Sync {
	case SyncAlways:
		about.Detail += ", synced before each acknowledgement"
	case SyncInterval:
		about.Detail += fmt.Sprintf(", synced every %v", s.o.Interval)
	case SyncNever:
		about.Detail += ", synced by the operating system"
		about.Warnings = append(about.Warnings, "A power failure may lose messages that were acknowledged in the last half minute: --sync interval or --sync always prevents that.")
	}
	if n := s.Damaged(); n > 0 {
		are := "messages are"
		if n == 1 {
			are = "message is"
		}
		about.Warnings = append(about.Warnings, fmt.Sprintf(
			"%d %s damaged and not delivered: crosstown peek ENTITY --damaged lists them. Restore a backup, or start the gateway once with --repair, which removes them.", n, are))
	}
	left, keep := s.log.Space()
	if err := s.log.Full(); err != nil {
		about.Warnings = append(about.Warnings, err.Error())
	} else if left < keep+lowSpace {
		about.Warnings = append(about.Warnings, fmt.Sprintf("The file system of %s has %d MiB of free space. The gateway refuses messages when %d MiB are left: free some space.", s.dir, left>>20, keep>>20))
	}
	return about
}

const lowSpace = 1 << 30

// Close waits for calls in progress, writes a snapshot and unlocks the directory.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.stop()
		s.tasks.Wait()
		err := s.Store.Close()
		if s.log.Err() == nil && s.journal.Appended() > s.lastAt {
			err = errors.Join(err, s.Snapshot(context.Background()))
		}
		s.err = errors.Join(err, s.log.Close())
	})
	return s.err
}

const (
	checkEvery   = time.Second
	compactBelow = 30
)

func (s *Store) maintain() {
	for wake.After(s.running, checkEvery) && s.log.Err() == nil {
		if !s.snapshotDue() {
			continue
		}
		if err := s.Snapshot(context.Background()); err != nil {
			s.o.Logger.Warn("cannot write a snapshot; trying again", "err", err)
			wake.After(s.running, 10*time.Second)
		}
	}
}

func (s *Store) snapshotDue() bool {
	s.snapshotting.Lock()
	defer s.snapshotting.Unlock()
	return s.journal.Appended()-s.lastAt >= max(s.o.SnapshotAfter, s.lastSize)
}

func (s *Store) Snapshot(ctx context.Context) error {
	s.snapshotting.Lock()
	defer s.snapshotting.Unlock()
	appended := s.journal.Appended()
	size, err := s.journal.Snapshot(ctx, s.Store)
	if size > 0 {
		s.lastAt, s.lastSize = appended, size
	}
	return err
}
