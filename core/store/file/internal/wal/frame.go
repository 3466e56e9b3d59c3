package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

const (
	formatVersion     = 1
	segmentHeaderSize = 64
	frameHeaderSize   = 32
	recordHeaderSize  = 16
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	le         = binary.LittleEndian
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func update(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// updateFew is update for a few bytes, and keeps them off the heap.
func updateFew(crc uint32, b []byte) uint32 {
	crc = ^crc
	for _, v := range b {
		crc = castagnoli[byte(crc)^v] ^ crc>>8
	}
	return ^crc
}

type kind uint8

const (
	kindEffects kind = 1 + iota
	kindSeal
	kindClose
	kindGap
)

// Record is data to which effects refer, such as a message. The log does not copy Head and Body, so
// they must not change any more.
type Record struct {
	Head []byte // what the store needs besides the body; small
	Body []byte
	Ref  Ref // set by Append
	crc  uint32
}

// NewRecord computes the record's checksum, so callers should hold no mutex.
func NewRecord(head, body []byte) Record {
	r := Record{Head: head, Body: body}
	var h [recordHeaderSize]byte
	r.putLengths(h[:])
	r.crc = update(update(updateFew(0, h[4:]), head), body)
	r.Ref.Length = uint32(len(head) + len(body))
	return r
}

func (r *Record) putLengths(h []byte) {
	le.PutUint32(h[4:], uint32(len(r.Head)))
	le.PutUint32(h[8:], uint32(len(r.Body)))
	le.PutUint32(h[12:], 0)
}

func (r *Record) putHeader(h []byte) {
	le.PutUint32(h, r.crc)
	r.putLengths(h)
}

func (r *Record) size() int { return recordHeaderSize + align(len(r.Head)+len(r.Body)) }

// recordLengths decodes lengths that come from the disk: the caller must check them.
func recordLengths(h []byte) (head, body uint64) {
	return uint64(le.Uint32(h[4:])), uint64(le.Uint32(h[8:]))
}

func decodeRecord(b []byte) (head, body []byte, ok bool) {
	if len(b) < recordHeaderSize {
		return nil, nil, false
	}
	h, n := recordLengths(b)
	if h+n != uint64(len(b)-recordHeaderSize) || le.Uint32(b[12:]) != 0 || checksum(b[4:]) != le.Uint32(b) {
		return nil, nil, false
	}
	rest := b[recordHeaderSize:]
	return rest[:h:h], rest[h:], true
}

func FrameSize(effects int, records []Record) int {
	return frameHeaderSize + align(effects) + recordsSize(records)
}

func recordsSize(records []Record) (n int) {
	for i := range records {
		n += records[i].size()
	}
	return n
}

type header struct {
	kind       kind
	effects    uint32 // length in bytes
	effectsCRC uint32
	records    uint32 // length in bytes, with headers and padding
	count      uint32
	synced     Position
}

func (h *header) size() int64 {
	return frameHeaderSize + int64(align(int(h.effects))) + int64(h.records)
}

func (h *header) put(b []byte, at Position) {
	clear(b[4:8])
	b[4] = byte(h.kind)
	le.PutUint32(b[8:], h.effects)
	le.PutUint32(b[12:], h.effectsCRC)
	le.PutUint32(b[16:], h.records)
	le.PutUint32(b[20:], h.count)
	le.PutUint64(b[24:], uint64(h.synced))
	le.PutUint32(b, headerCRC(b, at))
}

func headerCRC(b []byte, at Position) uint32 {
	var place [8]byte
	le.PutUint32(place[:], at.Segment())
	le.PutUint32(place[4:], at.Offset())
	return updateFew(checksum(b[4:frameHeaderSize]), place[:])
}

// decodeHeader decodes the header of a frame at that position. ok is false if it is not valid.
func decodeHeader(b []byte, at Position) (h header, ok bool) {
	k := kind(b[4])
	if k < kindEffects || k > kindGap || b[5]|b[6]|b[7] != 0 || headerCRC(b, at) != le.Uint32(b) {
		return header{}, false
	}
	h = header{
		kind:       k,
		effects:    le.Uint32(b[8:]),
		effectsCRC: le.Uint32(b[12:]),
		records:    le.Uint32(b[16:]),
		count:      le.Uint32(b[20:]),
		synced:     Position(le.Uint64(b[24:])),
	}
	ok = h.records%8 == 0 && uint64(h.count)*recordHeaderSize <= uint64(h.records) && h.synced <= at && h.synced.sound() &&
		int64(at.Offset())+h.size() <= maxSegment
	if k == kindGap {
		ok = ok && h.count == 0 && h.effects == 0
	} else if k != kindEffects {
		ok = ok && h.size() == frameHeaderSize
	}
	return h, ok
}

// Position is a segment's id and an offset in it. Positions increase. 0 is before the first frame.
type Position uint64

func At(segment, offset uint32) Position { return Position(segment)<<32 | Position(offset) }

func (p Position) Segment() uint32 { return uint32(p >> 32) }

func (p Position) Offset() uint32 { return uint32(p) }

func (p Position) String() string { return fmt.Sprintf("%08x:%d", p.Segment(), p.Offset()) }

// sound reports whether p, which comes from the disk, is 0 or can be the end of a frame.
func (p Position) sound() bool {
	return p == 0 || p.Segment() != 0 && p.Offset()%8 == 0 && p.Offset() >= segmentHeaderSize && p.Offset() <= maxSegment
}

type Ref struct {
	Position
	Length uint32 // of head and body
}

func (r Ref) Footprint() int64 { return recordHeaderSize + int64(align(int(r.Length))) }

func align(n int) int { return (n + 7) &^ 7 }
