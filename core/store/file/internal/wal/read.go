package wal

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sort"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
)

// Read checks a record and returns its parts. A recent record comes from memory: its parts are
// those that were appended, and must not be changed. The error is a *DamageError, ErrGone if the
// segment was removed, or the error of a failed read.
func (l *Log) Read(ref Ref) (head, body []byte, err error) {
	if head, body, ok := l.readRecent(ref.Position); ok {
		return head, body, nil
	}
	s := l.segments.get(ref.Segment())
	if s == nil {
		return nil, nil, ErrGone
	}
	if int64(ref.Offset())+recordHeaderSize+int64(ref.Length) > maxSegment {
		return nil, nil, l.damagedRecord(s, ref, "the record does not exist")
	}
	b := make([]byte, recordHeaderSize+int(ref.Length))
	if err := l.readAt(s, b, int64(ref.Offset())); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, nil, l.damagedRecord(s, ref, "the file ends before the record")
		}
		return nil, nil, err
	}
	head, body, ok := decodeRecord(b)
	if !ok {
		return nil, nil, l.damagedRecord(s, ref, "a record's checksum is wrong")
	}
	return head, body, nil
}

func (l *Log) damagedRecord(s *segment, ref Ref, reason string) error {
	return &DamageError{l.path(s.name()), ref.Offset(), ref.Offset() + recordHeaderSize + ref.Length, reason}
}

func (l *Log) readRecent(at Position) (head, body []byte, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := sort.Search(len(l.batches)-1, func(i int) bool { return l.batches[i].end > at })
	records := l.batches[i].records
	j := sort.Search(len(records), func(j int) bool { return records[j].Ref.Position >= at })
	if j == len(records) || records[j].Ref.Position != at {
		return nil, nil, false
	}
	return records[j].Head, records[j].Body, true
}

func (l *Log) readAt(s *segment, b []byte, off int64) error {
	s.use.RLock()
	for s.file == nil && !s.gone {
		s.use.RUnlock()
		if err := l.open(s); err != nil {
			return err
		}
		s.use.RLock()
	}
	defer s.use.RUnlock()
	if s.gone {
		return ErrGone
	}
	n, err := s.file.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

const openFiles = 256

type segments struct {
	mu   sync.RWMutex
	byID map[uint32]*segment
	open *lru.Cache[*segment, struct{}] // segments whose files may be closed to open others
}

func newSegments() segments {
	open, _ := lru.NewWithEvict(openFiles, func(s *segment, _ struct{}) { s.close() }) // the size is valid
	return segments{byID: make(map[uint32]*segment), open: open}
}

func (x *segments) add(s *segment) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.byID[s.id] = s
}

func (x *segments) get(id uint32) *segment {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.byID[id]
}

func (x *segments) seal(s *segment, end uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s.end, s.sealed = end, true
}

func (x *segments) list() []*segment {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.SortedFunc(maps.Values(x.byID), func(a, b *segment) int { return int(int64(a.id) - int64(b.id)) })
}

func (l *Log) open(s *segment) error {
	s.use.Lock()
	if s.file == nil && !s.gone {
		file, err := l.fs.Open(l.path(s.name()), os.O_RDONLY)
		if err != nil {
			s.use.Unlock()
			return err
		}
		if err := l.checkBody(s, file); err != nil {
			s.use.Unlock()
			return errors.Join(err, file.Close())
		}
		s.file = file
	}
	s.use.Unlock()
	l.segments.open.Add(s, struct{}{})
	return nil
}

func (l *Log) checkBody(s *segment, file fsys.File) error {
	if !s.body {
		return nil
	}
	var b [segmentHeaderSize]byte
	if _, err := file.ReadAt(b[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if h, _, ok := decodeSegmentHeader(b[:]); !ok || !h.body || h.id != s.id || h.log != l.id {
		return &DamageError{l.path(s.name()), 0, segmentHeaderSize, "the file has the header of another file"}
	}
	return nil
}

// idle allows the file of s to be closed if s is sealed, because nothing more is written to it.
func (x *segments) idle(s *segment) {
	if x.isSealed(s) {
		x.open.Add(s, struct{}{})
	}
}

func (x *segments) isSealed(s *segment) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return s.sealed
}

func (s *segment) close() {
	s.use.Lock()
	defer s.use.Unlock()
	if s.file != nil {
		_ = s.file.Close() // the data are synced, so a failed Close loses nothing
		s.file = nil
	}
}

// remove forgets s, and waits until nothing reads it any more.
func (x *segments) remove(s *segment) {
	x.mu.Lock()
	delete(x.byID, s.id)
	x.mu.Unlock()
	s.use.Lock()
	s.gone = true
	s.use.Unlock()
	s.close()
	x.open.Remove(s)
}

func (x *segments) close() {
	for _, s := range x.list() {
		s.close()
	}
}

type SegmentInfo struct {
	ID     uint32
	Body   bool
	Sealed bool  // nothing is added any more
	Size   int64 // in bytes; of the segment that is being written, the bytes written so far
}

func (l *Log) Segments() []SegmentInfo {
	list := l.segments.list()
	infos := make([]SegmentInfo, len(list))
	written := Position(l.written.Load())
	l.segments.mu.RLock()
	defer l.segments.mu.RUnlock()
	for i, s := range list {
		infos[i] = SegmentInfo{ID: s.id, Body: s.body, Sealed: s.sealed, Size: int64(s.end)}
		if !s.sealed && written.Segment() == s.id {
			infos[i].Size = int64(written.Offset())
		}
	}
	return infos
}

// Remove removes a segment: a body segment at any time, a log segment only if it is sealed and
// Replay of all kept snapshots begins after it. Otherwise it returns ErrInUse. It waits for the
// segment's readers. The caller must ensure that nothing needs the segment, and that the frames
// that make it unnecessary are durable.
func (l *Log) Remove(id uint32) error {
	s := l.segments.get(id)
	if s == nil {
		return ErrGone
	}
	if !s.body {
		if from, ok := l.snapshots.floor(); !l.segments.isSealed(s) || !ok || from.Segment() <= id {
			return ErrInUse
		}
	}
	l.snapshots.linking.RLock()
	defer l.snapshots.linking.RUnlock()
	l.segments.remove(s)
	err := l.fs.Remove(l.path(s.name()))
	l.freed.Set()
	return err
}

type Frame struct {
	At, End Position
	Effects []byte // valid until apply returns
	Records []Ref  // valid until apply returns; the records were not read
}

// Replay calls apply for each frame from a position on, in order, up to the end that the log had
// when it was opened. from is 0 or SnapshotInfo.From. Replay checks all checksums except those of
// records, which Read checks. It must be called before the first Append. The error is that of
// apply, or a *DamageError if a frame is damaged or a segment is missing.
func (l *Log) Replay(from Position, apply func(Frame) error) error {
	var last *segment
	for _, s := range l.segments.list() {
		if s.body || s.id < from.Segment() {
			continue
		}
		off := uint32(segmentHeaderSize)
		switch {
		case last == nil && s.id == from.Segment():
			off = max(off, from.Offset())
		case last == nil && (from != 0 || s.prev != 0) && !l.o.Repair:
			return &DamageError{File: l.path(fileName(max(from.Segment(), 1), suffixLog)), Reason: "the file is missing"}
		case last != nil && (s.prev != last.id || s.prevEnd != last.end):
			return &DamageError{l.path(last.name()), last.end, s.prevEnd, fmt.Sprintf("the next segment, %08x, does not continue this segment", s.id)}
		}
		if err := l.replay(s, off, apply); err != nil {
			return err
		}
		last = s
	}
	return nil
}

func (l *Log) replay(s *segment, off uint32, apply func(Frame) error) error {
	sc, err := l.scan(s, off)
	if err != nil {
		return err
	}
	defer sc.close()
	sc.size = min(sc.size, int64(s.end))
	for sc.next() {
		if sc.header.kind != kindEffects {
			continue
		}
		if err := apply(Frame{sc.at, At(s.id, sc.off), sc.effects, sc.refs}); err != nil {
			return err
		}
	}
	if sc.off != s.end {
		return &DamageError{l.path(s.name()), sc.off, s.end, sc.reason}
	}
	return nil
}
