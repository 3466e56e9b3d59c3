package wal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
)

type scanner struct {
	file    fsys.File
	size    int64
	id      uint32
	off     uint32 // offset of the next frame or, after next has returned false, of what is not a frame
	records bool   // also check records

	buf    []byte // bytes of the file from bufOff on
	bufOff int64

	at      Position
	header  header
	effects []byte
	refs    []Ref

	synced Position // the last position that a frame says is synced
	reason string   // why there is no next frame; "" if the segment ends cleanly
	err    error    // error of a failed read
}

func newScanner(file fsys.File, size int64, id, off uint32) *scanner {
	return &scanner{file: file, size: min(size, maxSegment), id: id, off: off}
}

// scan opens a segment to read its frames from off on. The caller must close the scanner.
func (l *Log) scan(s *segment, off uint32) (*scanner, error) {
	file, err := l.openFile(s.name())
	if err != nil {
		return nil, err
	}
	size, err := file.Size()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return newScanner(file, size, s.id, off), nil
}

func (s *scanner) close() { _ = s.file.Close() } // nothing was written

const windowSize = 256 << 10

// bytes returns n bytes from off on, valid until the next call. ok is false if the file ends
// earlier, or cannot be read: then bytes sets err and reason.
func (s *scanner) bytes(off int64, n int) (b []byte, ok bool) {
	if off+int64(n) > s.size {
		return nil, false
	}
	if off < s.bufOff || off+int64(n) > s.bufOff+int64(len(s.buf)) {
		size := int(min(int64(max(n, windowSize)), s.size-off))
		s.buf = slices.Grow(s.buf[:0], size)[:size]
		s.bufOff = off
		if k, err := s.file.ReadAt(s.buf, off); k < size {
			s.buf = s.buf[:0]
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			s.err = err
			s.unsound(err.Error())
			return nil, false
		}
	}
	b = s.buf[off-s.bufOff:]
	return b[:n:n], true
}

// unsound keeps the first reason.
func (s *scanner) unsound(reason string) { s.reason = cmp.Or(s.reason, reason) }

// next moves to the next frame. It returns false if no sound frame follows.
func (s *scanner) next() bool {
	h := s.frame()
	if s.reason != "" || h.kind == 0 {
		return false
	}
	s.header = h
	s.synced = max(s.synced, h.synced)
	s.off += uint32(h.size())
	return true
}

// frame reads and checks the frame at s.off. It sets reason if the frame is not sound.
func (s *scanner) frame() (h header) {
	s.at = At(s.id, s.off)
	b, ok := s.bytes(int64(s.off), frameHeaderSize)
	if !ok {
		if int64(s.off) != s.size {
			s.unsound("a frame's header is truncated")
		}
		return h
	}
	h, ok = decodeHeader(b, s.at)
	switch {
	case !ok && [frameHeaderSize]byte(b) == [frameHeaderSize]byte{}:
		return header{}
	case !ok:
		s.unsound("a frame's header is damaged")
	case int64(s.off)+h.size() > s.size:
		s.unsound("a frame is truncated")
	case h.kind == kindGap:
		s.effects, s.refs = nil, s.refs[:0]
	default:
		s.content(h)
	}
	return h
}

func (s *scanner) content(h header) {
	off := int64(s.off) + frameHeaderSize
	b, _ := s.bytes(off, int(h.effects))
	if checksum(b) != h.effectsCRC {
		s.unsound("the checksum of a frame's effects is wrong")
		return
	}
	s.effects = append(s.effects[:0], b...)
	s.refs = s.refs[:0]
	off += int64(align(int(h.effects)))
	for end := off + int64(h.records); off < end; {
		b, ok := s.bytes(off, recordHeaderSize)
		if !ok {
			s.unsound("a record's header is truncated")
			return
		}
		head, body := recordLengths(b)
		size := recordHeaderSize + int64(head+body)
		if off+size > end {
			s.unsound("a record's length is invalid")
			return
		}
		if s.records {
			b, _ = s.bytes(off, int(size))
			if _, _, ok := decodeRecord(b); !ok {
				s.unsound("a record's checksum is wrong")
				return
			}
		}
		s.refs = append(s.refs, Ref{At(s.id, uint32(off)), uint32(head + body)})
		off += int64(align(int(size)))
	}
	if len(s.refs) != int(h.count) {
		s.unsound(fmt.Sprintf("a frame has %d records instead of %d", len(s.refs), h.count))
	}
}

// resync moves to the next sound header, at least the length of a gap frame away.
func (s *scanner) resync() bool {
	for off := int64(s.off) + frameHeaderSize; off+frameHeaderSize <= s.size; off += 8 {
		b, ok := s.bytes(off, frameHeaderSize)
		if !ok {
			return false
		}
		if k := kind(b[4]); k < kindEffects || k > kindGap {
			continue
		}
		if _, ok := decodeHeader(b, At(s.id, uint32(off))); ok {
			s.off, s.reason = uint32(off), ""
			return true
		}
	}
	return false
}
