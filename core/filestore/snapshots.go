package filestore

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core/filestore/internal/wal"
	"github.com/crosstown-mq/crosstown/core/memstore"
)

const (
	// checkEvery is how often the store looks whether a snapshot is due.
	checkEvery = time.Second
	// compactBelow is the share of a segment, in percent, below which what messages name of it is
	// appended anew.
	compactBelow = 30
	// compactBytes bounds what is appended anew after one snapshot.
	compactBytes = 256 << 20
)

// scan counts which segments have records that entries name, while a snapshot is written.
type scan struct {
	mu   sync.Mutex
	live map[uint32]int64 // bytes by segment
}

func (s *scan) found(r memstore.Ref) { s.add(walRef(r).Segment(), walRef(r).Footprint()) }

func (s *scan) add(segment uint32, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[segment] += bytes
}

// run adds up records that are found one after the other, mostly of the same segment.
type run struct {
	*scan
	segment uint32
	bytes   int64
}

func (r *run) found(ref memstore.Ref) {
	if id := walRef(ref).Segment(); id != r.segment {
		r.end()
		r.segment, r.bytes = id, 0
	}
	r.bytes += walRef(ref).Footprint()
}

func (r *run) end() {
	if r.bytes > 0 {
		r.add(r.segment, r.bytes)
	}
}

// maintain writes snapshots when they are due.
func (s *Store) maintain() {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.log.Failed():
			return
		case <-ticker.C:
		}
		if !s.snapshotDue() {
			continue
		}
		if err := s.Snapshot(context.Background()); err != nil {
			s.o.Logger.Warn("snapshot of the store not written: it is tried again", "err", err)
			s.pause()
		}
	}
}

// snapshotDue reports whether the log has grown enough for another snapshot.
func (s *Store) snapshotDue() bool {
	s.snapshotting.Lock()
	defer s.snapshotting.Unlock()
	return s.journal.appended.Load()-s.lastAt >= max(s.o.SnapshotAfter, s.lastSize)
}

// pause waits before a snapshot that failed is tried again.
func (s *Store) pause() {
	select {
	case <-s.stop:
	case <-time.After(10 * time.Second):
	}
}

// Snapshot writes a snapshot, removes segments that nothing needs, and compacts others.
func (s *Store) Snapshot(ctx context.Context) error {
	s.snapshotting.Lock()
	defer s.snapshotting.Unlock()
	appended := s.journal.appended.Load()
	s.journal.bodies.Lock() // large bodies that are listed are pending, or their frames appended
	segments := s.log.Segments()
	s.journal.bodies.Unlock()
	sc := &scan{live: make(map[uint32]int64)}
	s.journal.scan.Store(sc)
	from := s.log.End()
	info, err := s.log.WriteSnapshot(ctx, from, func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 1<<16)
		run := &run{scan: sc}
		defer run.end()
		return errors.Join(s.Store.Snapshot(out, run.found), out.Flush())
	})
	s.journal.scan.Store(nil)
	if err != nil {
		return err
	}
	s.lastAt, s.lastSize = appended, info.Size
	s.log.SetKeep(info.Size + reserve)
	return errors.Join(s.removeSegments(segments, sc), s.compact(ctx, segments, sc, from))
}

// reserve is how many bytes of the disk are left to control records, beside a snapshot.
const reserve = 64 << 20

// removeSegments removes those in which nothing is live. The log keeps those that its snapshots need.
func (s *Store) removeSegments(segments []wal.SegmentInfo, sc *scan) error {
	var dead []uint32
	s.journal.mu.Lock()
	for _, x := range segments {
		_, pending := s.journal.pending[x.ID]
		if _, live := sc.live[x.ID]; !live && !pending && x.Sealed {
			dead = append(dead, x.ID)
		}
	}
	s.journal.mu.Unlock()
	// Deliveries under way may name records whose entries are gone. They must not be kept waiting,
	// because they hold the mutex of their partition.
	for i := 0; !s.journal.pins.TryLock(); i++ {
		if i == 1000 {
			return nil // the next snapshot does it
		}
		time.Sleep(time.Millisecond)
	}
	s.journal.pins.Unlock()
	for _, id := range dead {
		if err := s.log.Remove(id); err != nil && !errors.Is(err, wal.ErrInUse) {
			return err
		}
	}
	return nil
}

// compact appends anew what is live in segments that are mostly dead.
func (s *Store) compact(ctx context.Context, segments []wal.SegmentInfo, sc *scan, from wal.Position) error {
	sparse := make(map[uint32]bool)
	var sum int64
	for _, x := range segments {
		live := sc.live[x.ID]
		if x.Body || !x.Sealed || x.ID >= from.Segment() || live == 0 || live*100 > x.Size*s.o.compact || sum+live > compactBytes {
			continue
		}
		sum += live
		sparse[x.ID] = true
	}
	if len(sparse) == 0 {
		return nil
	}
	return s.Relocate(ctx, func(r memstore.Ref) bool { return sparse[walRef(r).Segment()] })
}
