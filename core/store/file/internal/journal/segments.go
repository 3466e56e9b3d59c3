package journal

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/wal"
	"github.com/crosstown-mq/crosstown/core/store/internal/state"
)

// compactBytes limits the bytes that are appended again after one snapshot.
const compactBytes = 256 << 20

// reserve is disk space kept free for frames without a reservation, besides that for a snapshot.
const reserve = 64 << 20

// scan counts bytes to which entries refer (live bytes), while a snapshot is written.
type scan struct {
	mu   sync.Mutex
	live map[uint32]int64
}

func (s *scan) add(segment uint32, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[segment] += bytes
}

// Snapshot writes a snapshot, and removes or compacts segments. size is 0 if it wrote no snapshot.
func (j *Journal) Snapshot(ctx context.Context, store *state.Store) (size int64, err error) {
	j.bodies.Lock() // each large body in segments is now either pending or has its frame in the log
	segments := j.log.Segments()
	j.bodies.Unlock()
	sc := &scan{live: make(map[uint32]int64)}
	j.scan.Store(sc)
	from := j.log.End()
	info, err := j.log.WriteSnapshot(ctx, from, func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 1<<16)
		own := make(map[uint32]int64) // summed here first, because sc.add locks a mutex
		err := Write(out, store, j.End, func(r state.Ref) { own[walRef(r).Segment()] += walRef(r).Footprint() })
		for id, bytes := range own {
			sc.add(id, bytes)
		}
		return errors.Join(err, out.Flush())
	})
	live, dead := j.endScan(sc, segments)
	if err != nil {
		return 0, err
	}
	j.log.SetKeep(info.Size + reserve)
	return info.Size, errors.Join(j.removeSegments(dead), j.compact(ctx, store, segments, live, from))
}

// endScan returns the live bytes by segment, and the segments to which nothing refers. A call adds
// a large body to the scan before the body is no longer pending, so one of both is seen here.
func (j *Journal) endScan(sc *scan, segments []wal.SegmentInfo) (live map[uint32]int64, dead []uint32) {
	j.mu.Lock()
	defer j.mu.Unlock()
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, x := range segments {
		_, pending := j.pending[x.ID]
		if _, live := sc.live[x.ID]; !live && !pending && x.Sealed {
			dead = append(dead, x.ID)
		}
	}
	j.scan.Store(nil)
	return maps.Clone(sc.live), dead // calls that still add change only the original
}

func (j *Journal) removeSegments(dead []uint32) error {
	// Deliveries in progress hold j.pins for reading. They may still read records that no entry
	// needs, so wait until they end. A waiting Lock, unlike TryLock, would block new deliveries,
	// which hold a partition's mutex.
	for i := 0; !j.pins.TryLock(); i++ {
		if i == 1000 {
			return nil // the next snapshot will remove the segments
		}
		time.Sleep(time.Millisecond)
	}
	j.pins.Unlock()
	for _, id := range dead {
		if err := j.log.Remove(id); err != nil && !errors.Is(err, wal.ErrInUse) {
			return err
		}
	}
	return nil
}

func (j *Journal) compact(ctx context.Context, store *state.Store, segments []wal.SegmentInfo, live map[uint32]int64, from wal.Position) error {
	sparse := make(map[uint32]bool)
	var sum int64
	for _, x := range segments {
		bytes := live[x.ID]
		if x.Body || !x.Sealed || x.ID >= from.Segment() || bytes == 0 || bytes*100 > x.Size*j.o.Compact || sum+bytes > compactBytes {
			continue
		}
		sum += bytes
		sparse[x.ID] = true
	}
	if len(sparse) == 0 {
		return nil
	}
	return store.Relocate(ctx, func(r state.Ref) bool { return sparse[walRef(r).Segment()] })
}
