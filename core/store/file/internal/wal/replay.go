package wal

import "fmt"

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
