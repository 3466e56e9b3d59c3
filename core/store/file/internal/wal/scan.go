package wal

import (
	"fmt"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
)

type scanner struct {
	window
	id      uint32
	off     uint32 // offset of the next frame or, after next has returned false, of what is not a frame
	records bool   // also check records

	at      Position
	header  header
	effects []byte
	refs    []Ref

	synced Position // the last position that a frame says is synced
	reason string   // why there is no next frame; "" if the segment ends cleanly
}

func newScanner(file fsys.File, id, off uint32, records bool) (*scanner, error) {
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	return &scanner{window: window{file: file, size: min(size, maxSegment)}, id: id, off: off, records: records}, nil
}

// next moves to the next frame. It returns false if no sound frame follows. err is set only if a
// read has failed.
func (s *scanner) next() (bool, error) {
	h, err := s.frame()
	if err != nil || s.reason != "" || h.kind == 0 {
		return false, err
	}
	s.header = h
	s.synced = max(s.synced, h.synced)
	s.off += uint32(h.size())
	return true, nil
}

// frame reads and checks the frame at s.off. It sets reason if the frame is not sound.
func (s *scanner) frame() (h header, err error) {
	s.at = At(s.id, s.off)
	b, ok, err := s.bytes(int64(s.off), frameHeaderSize)
	if err != nil {
		return h, err
	}
	if !ok {
		if int64(s.off) != s.size {
			s.reason = "a frame's header is truncated"
		}
		return h, nil
	}
	h, ok = decodeHeader(b, s.at)
	switch {
	case !ok && [frameHeaderSize]byte(b) == [frameHeaderSize]byte{}:
		return header{}, nil
	case !ok:
		s.reason = "a frame's header is damaged"
	case int64(s.off)+h.size() > s.size:
		s.reason = "a frame is truncated"
	case h.kind == kindGap:
		s.effects, s.refs = nil, s.refs[:0]
	default:
		err = s.content(h)
	}
	return h, err
}

func (s *scanner) content(h header) error {
	off := int64(s.off) + frameHeaderSize
	b, _, err := s.bytes(off, int(h.effects))
	if err != nil {
		return err
	}
	if checksum(b) != h.effectsCRC {
		s.reason = "the checksum of a frame's effects is wrong"
		return nil
	}
	s.effects = append(s.effects[:0], b...)
	s.refs = s.refs[:0]
	off += int64(align(int(h.effects)))
	for end := off + int64(h.records); off < end; {
		b, ok, err := s.bytes(off, recordHeaderSize)
		if err != nil {
			return err
		}
		if !ok {
			s.reason = "a record's header is truncated"
			return nil
		}
		head, body := recordLengths(b)
		size := recordHeaderSize + int64(head+body)
		if off+size > end {
			s.reason = "a record's length is invalid"
			return nil
		}
		if s.records {
			if b, _, err = s.bytes(off, int(size)); err != nil {
				return err
			}
			if _, _, ok := decodeRecord(b); !ok {
				s.reason = "a record's checksum is wrong"
				return nil
			}
		}
		s.refs = append(s.refs, Ref{At(s.id, uint32(off)), uint32(head + body)})
		off += int64(align(int(size)))
	}
	if len(s.refs) != int(h.count) {
		s.reason = fmt.Sprintf("a frame has %d records instead of %d", len(s.refs), h.count)
	}
	return nil
}

// resync moves to the next sound header, at least the length of a gap frame away.
func (s *scanner) resync() (bool, error) {
	for off := int64(s.off) + frameHeaderSize; off+frameHeaderSize <= s.size; off += 8 {
		b, ok, err := s.bytes(off, frameHeaderSize)
		if !ok || err != nil {
			return false, err
		}
		if k := kind(b[4]); k < kindEffects || k > kindGap {
			continue
		}
		if _, ok := decodeHeader(b, At(s.id, uint32(off))); ok {
			s.off, s.reason = uint32(off), ""
			return true, nil
		}
	}
	return false, nil
}
