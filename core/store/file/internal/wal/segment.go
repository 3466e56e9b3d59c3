package wal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
)

const maxSegment = 1<<32 - 1<<20 // offsets have 32 bits

const (
	magicLog  = "xtownlog"
	magicBody = "xtownbod"

	suffixLog      = ".log"
	suffixBody     = ".body"
	suffixSnapshot = ".snapshot"
	suffixTemp     = ".tmp"
	suffixDamaged  = ".damaged"
	lockName       = "LOCK"
)

type segmentHeader struct {
	body    bool
	id      uint32
	prev    uint32 // id of the previous log segment; 0: none
	prevEnd uint32
	log     uint64
	synced  Position
	made    int64 // ms since the Unix epoch
}

func (h *segmentHeader) put(b []byte) {
	clear(b[:segmentHeaderSize])
	magic := magicLog
	if h.body {
		magic = magicBody
	}
	copy(b, magic)
	le.PutUint32(b[8:], formatVersion)
	le.PutUint32(b[12:], h.id)
	le.PutUint32(b[16:], h.prev)
	le.PutUint32(b[20:], h.prevEnd)
	le.PutUint64(b[24:], h.log)
	le.PutUint64(b[32:], uint64(h.synced))
	le.PutUint64(b[40:], uint64(h.made))
	le.PutUint32(b[60:], checksum(b[:60]))
}

// version is 0 if the checksum is wrong. ok is true only for a valid header of this version.
func decodeSegmentHeader(b []byte) (h segmentHeader, version uint32, ok bool) {
	if len(b) < segmentHeaderSize || le.Uint32(b[60:]) != checksum(b[:60]) {
		return h, 0, false
	}
	magic := string(b[:8])
	if magic != magicLog && magic != magicBody {
		return h, 0, false
	}
	h = segmentHeader{
		body:    magic == magicBody,
		id:      le.Uint32(b[12:]),
		prev:    le.Uint32(b[16:]),
		prevEnd: le.Uint32(b[20:]),
		log:     le.Uint64(b[24:]),
		synced:  Position(le.Uint64(b[32:])),
		made:    int64(le.Uint64(b[40:])),
	}
	version = le.Uint32(b[8:])
	return h, version, version == formatVersion && h.id != 0 && h.prev < h.id && h.synced.sound() && h.synced < At(h.id, 0)
}

type segment struct {
	segmentHeader

	// use is read-locked while the file is used, and locked to open, close or remove the file.
	use  sync.RWMutex
	file fsys.File
	gone bool

	end    uint32 // offset after the last frame, if sealed
	sealed bool
}

func (s *segment) name() string {
	if s.body {
		return fileName(s.id, suffixBody)
	}
	return fileName(s.id, suffixLog)
}

// syncSegment does nothing if the segment was removed.
func (l *Log) syncSegment(s *segment) error {
	s.use.RLock()
	defer s.use.RUnlock()
	switch {
	case s.gone:
		return nil
	case s.file != nil:
		return s.file.Sync()
	}
	file, err := l.fs.Open(l.path(s.name()), os.O_RDWR) // the file was closed when the segment was sealed
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

func fileName(id uint32, suffix string) string { return fmt.Sprintf("%08x%s", id, suffix) }

// parseName parses the name of a segment or snapshot. ok is false for names of other files.
func parseName(name string) (id uint32, suffix string, ok bool) {
	base, _, found := strings.Cut(name, ".")
	if !found || len(base) != 8 {
		return 0, "", false
	}
	n, err := strconv.ParseUint(base, 16, 32)
	if err != nil || n == 0 || base != fmt.Sprintf("%08x", n) {
		return 0, "", false
	}
	return uint32(n), strings.TrimPrefix(name, base), true
}

func (l *Log) path(name string) string { return filepath.Join(l.dir, name) }
