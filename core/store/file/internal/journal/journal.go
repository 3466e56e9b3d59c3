package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/wal"
	"github.com/crosstown-mq/crosstown/core/store/internal/state"
)

type Journal struct {
	log      *wal.Log
	o        Options
	resident atomic.Int64
	appended atomic.Int64

	pins sync.RWMutex // read-locked while deliveries read records; the removal of segments waits for them
	scan atomic.Pointer[scan]

	named func(state.Ref) // j.moved, bound once

	bodies  sync.RWMutex        // read-locked while a large body is written
	mu      sync.Mutex          // guards pending
	pending map[uint32]struct{} // segments with large bodies whose frames are not yet appended
}

type Options struct {
	Memory  int64 // largest number of bytes of messages in memory
	Compact int64 // percentage of live records below which a segment is compacted
	Logger  *slog.Logger
}

func New(log *wal.Log, o Options) *Journal {
	j := &Journal{log: log, o: o}
	j.named = j.moved
	return j
}

// Replay repeats frames after the position from. Appended counts their bytes.
func (j *Journal) Replay(from wal.Position, to *state.Replay) error {
	return j.log.Replay(from, func(f wal.Frame) error {
		j.appended.Add(int64(f.End - f.At))
		if err := apply(to, f); err != nil {
			return fmt.Errorf("cannot apply the frame at %v of the log: %w", f.At, err)
		}
		return nil
	})
}

// Appended returns by how many bytes the log has grown since the loaded snapshot.
func (j *Journal) Appended() int64 { return j.appended.Load() }

func (j *Journal) InMemory() int64 { return j.resident.Load() }

func (j *Journal) End() state.Position { return state.Position(j.log.End()) }

func (j *Journal) Wait(ctx context.Context, p state.Position) error {
	return refusal(j.log.Wait(ctx, wal.Position(p)))
}

func (j *Journal) Err() error { return refusal(j.log.Stopped()) }

func (j *Journal) Read(r, large state.Ref) (*core.Message, error) {
	head, body, err := j.read(r)
	if err != nil {
		return nil, err
	}
	m, behind, length, err := decodeHead(head)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", state.ErrDamaged, err)
	}
	switch {
	case large.Length > 0:
		_, body, err = j.read(large)
	case behind > 0:
		_, body, err = j.read(state.Ref{Position: r.Position - state.Position(behind), Length: uint32(length)})
	}
	if err != nil {
		return nil, err
	}
	m.Body.Bytes = body
	return m, nil
}

// The caller must not change the result.
func (j *Journal) read(r state.Ref) (head, body []byte, err error) {
	head, body, err = j.log.Read(walRef(r))
	if _, ok := errors.AsType[*wal.DamageError](err); ok || errors.Is(err, wal.ErrGone) {
		err = fmt.Errorf("%w: %w", state.ErrDamaged, err)
	}
	return head, body, refusal(err)
}

func (j *Journal) PutAside(entity string, sequenceNumber int64, err error) {
	j.o.Logger.Error("a message is damaged, and receivers do not get it: list it with crosstown peek ENTITY --damaged, and remove it by starting the gateway once with --repair", "entity", entity, "seq", sequenceNumber, "err", err)
}

func (j *Journal) Pin() (unpin func()) {
	j.pins.RLock()
	return j.pins.RUnlock
}

func (j *Journal) moved(r state.Ref) {
	if s := j.scan.Load(); s != nil {
		s.add(walRef(r).Segment(), walRef(r).Footprint())
	}
}

func (j *Journal) Resident(bytes int) bool {
	if j.resident.Add(int64(bytes)) <= j.o.Memory {
		return true
	}
	j.Evicted(bytes)
	return false
}

func (j *Journal) Evicted(bytes int) { j.resident.Add(-int64(bytes)) }

func walRef(r state.Ref) wal.Ref {
	return wal.Ref{Position: wal.Position(r.Position), Length: r.Length}
}

func memRef(r wal.Ref) state.Ref {
	return state.Ref{Position: state.Position(r.Position), Length: r.Length}
}
