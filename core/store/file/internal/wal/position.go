package wal

import "fmt"

// Position is a place in the log: a segment's id and an offset in it. Later is larger. 0 is
// before everything.
type Position uint64

// At is the position of an offset in a segment.
func At(segment, offset uint32) Position { return Position(segment)<<32 | Position(offset) }

// Segment is the id of the segment.
func (p Position) Segment() uint32 { return uint32(p >> 32) }

// Offset is the offset in the segment.
func (p Position) Offset() uint32 { return uint32(p) }

// String is the segment's id in hexadecimal, as in its file's name, and the offset.
func (p Position) String() string { return fmt.Sprintf("%08x:%d", p.Segment(), p.Offset()) }

// sound reports whether a frame may end there, or, for 0, whether there is none before. It is said
// of numbers of the disk.
func (p Position) sound() bool {
	return p == 0 || p.Segment() != 0 && p.Offset()%8 == 0 && p.Offset() >= segmentHeaderSize && p.Offset() <= maxSegment
}

// Ref names a record for Read: where it is, and how long it is.
type Ref struct {
	Position
	Length uint32 // of head and body
}

// Footprint is how many bytes of its segment the record takes.
func (r Ref) Footprint() int64 { return recordHeaderSize + int64(align(int(r.Length))) }

func align(n int) int { return (n + 7) &^ 7 }
