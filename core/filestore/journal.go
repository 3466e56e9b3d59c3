package filestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/core/filestore/internal/wal"
	"github.com/crosstown-mq/crosstown/core/memstore"
)

// journal is the log as memstore sees it.
type journal struct {
	log      *wal.Log
	logger   *slog.Logger
	memory   int64        // bytes of messages that stay in memory
	resident atomic.Int64 // bytes of messages that do
	appended atomic.Int64 // bytes since the store was opened

	pins sync.RWMutex // held for reading while records are read that may have lost their entry
	scan atomic.Pointer[scan]

	bodies  sync.RWMutex        // held for reading while a large body is written
	mu      sync.Mutex          // guards pending
	pending map[uint32]struct{} // segments of large bodies whose frames are not yet appended
}

func (j *journal) Begin() memstore.Frame {
	f := frames.Get().(*frame)
	f.j = j
	return f
}

func (j *journal) End() memstore.Position { return memstore.Position(j.log.End()) }

func (j *journal) Wait(ctx context.Context, p memstore.Position) error {
	return refusal(j.log.Wait(ctx, wal.Position(p)))
}

func (j *journal) Err() error {
	err := j.log.Err()
	if err == nil && j.log.Closed() {
		err = wal.ErrClosed
	}
	return refusal(err)
}

func (j *journal) Read(r memstore.Ref) (head, body []byte, err error) {
	head, body, err = j.log.Read(walRef(r))
	if _, ok := errors.AsType[*wal.DamageError](err); ok || errors.Is(err, wal.ErrGone) {
		err = fmt.Errorf("%w: %w", memstore.ErrDamaged, err)
	}
	return head, body, refusal(err)
}

func (j *journal) PutAside(entity string, sequenceNumber int64, err error) {
	j.logger.Error("a message is damaged and is not delivered", "entity", entity, "seq", sequenceNumber, "err", err)
}

func (j *journal) Pin() (unpin func()) {
	j.pins.RLock()
	return j.pins.RUnlock
}

func (j *journal) Moved(r memstore.Ref) {
	if s := j.scan.Load(); s != nil {
		s.found(r)
	}
}

func (j *journal) Resident(bytes int) bool {
	if j.resident.Add(int64(bytes)) <= j.memory {
		return true
	}
	j.Evicted(bytes)
	return false
}

func (j *journal) Evicted(bytes int) { j.resident.Add(-int64(bytes)) }

func walRef(r memstore.Ref) wal.Ref {
	return wal.Ref{Position: wal.Position(r.Position), Length: r.Length}
}

func memRef(r wal.Ref) memstore.Ref {
	return memstore.Ref{Position: memstore.Position(r.Position), Length: r.Length}
}

// frame is what one call adds to the log.
type frame struct {
	j           *journal
	prepared    []wal.Record
	used        []wal.Record
	bodies      []uint32 // segments of large bodies
	reservation wal.Reservation
}

var frames = sync.Pool{New: func() any { return new(frame) }}

func (f *frame) Add(head, body []byte) (i int, footprint int64) {
	r := wal.NewRecord(head, body)
	f.prepared = append(f.prepared, r)
	return len(f.prepared) - 1, r.Ref.Footprint()
}

func (f *frame) AddBody(ctx context.Context, body []byte) (memstore.Ref, error) {
	f.j.bodies.RLock()
	defer f.j.bodies.RUnlock()
	r := wal.NewRecord(nil, body)
	if err := f.j.log.WriteBody(ctx, &r); err != nil {
		return memstore.Ref{}, refusal(err)
	}
	id := r.Ref.Segment()
	f.bodies = append(f.bodies, id)
	f.j.mu.Lock()
	defer f.j.mu.Unlock()
	if f.j.pending == nil {
		f.j.pending = make(map[uint32]struct{})
	}
	f.j.pending[id] = struct{}{}
	f.j.appended.Add(r.Ref.Footprint())
	return memRef(r.Ref), nil
}

func (f *frame) Reserve(ctx context.Context, effects int) error {
	r, err := f.j.log.Reserve(ctx, wal.FrameSize(effects, f.prepared), wal.Grow)
	f.reservation = r
	return refusal(err)
}

func (f *frame) Use(i, n int) int {
	first := len(f.used)
	f.used = append(f.used, f.prepared[i:i+n]...)
	return first
}

func (f *frame) Append(effects []byte) memstore.Position {
	at, end := f.j.log.Append(effects, f.used)
	f.j.appended.Add(int64(end - at))
	if s := f.j.scan.Load(); s != nil {
		for _, id := range f.bodies {
			s.add(id, 0)
		}
	}
	return memstore.Position(end)
}

func (f *frame) Ref(i int) memstore.Ref { return memRef(f.used[i].Ref) }

func (f *frame) Release() {
	f.reservation.Release()
	if len(f.bodies) > 0 {
		f.j.mu.Lock()
		for _, id := range f.bodies {
			delete(f.j.pending, id)
		}
		f.j.mu.Unlock()
	}
	clear(f.prepared)
	clear(f.used)
	*f = frame{prepared: f.prepared[:0], used: f.used[:0]}
	if cap(f.prepared) <= 1<<12 {
		frames.Put(f)
	}
}
