package wal

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
)

type recovery struct {
	*Log
	logs   []*segment // by id; a segment with an unsound header has its own id as prev
	synced Position   // last position that is known to be synced
	first  int        // index in logs of the first segment that find has read
	last   int        // index in logs of the segment in which the log ends; -1: none
	end    Position   // position after the last frame
	kind   kind       // kind of the last frame that find has read; 0: none
	lost   bool       // there are frames after end
}

func (l *Log) recover() (end Position, err error) {
	r := &recovery{Log: l, last: -1}
	if err := r.list(); err != nil {
		return 0, err
	}
	if err := r.find(); err != nil {
		return 0, err
	}
	return r.end, r.settle()
}

func (r *recovery) list() error {
	names, err := r.fs.ReadDir(r.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if filepath.Ext(name) == suffixTemp {
			if err := r.fs.Remove(r.path(name)); err != nil {
				return err
			}
			continue
		}
		id, suffix, ok := parseName(name)
		if !ok {
			continue
		}
		switch suffix {
		case suffixLog:
			r.ids = max(r.ids, id)
			err = r.listLog(name, id)
		case suffixBody:
			r.ids = max(r.ids, id)
			err = r.listBody(name, id)
		case suffixSnapshot:
			err = r.listSnapshot(name, id)
		}
		if err != nil {
			return err
		}
	}
	slices.SortFunc(r.snapshots.list, func(a, b SnapshotInfo) int { return cmp.Compare(b.ID, a.ID) })
	if r.id == 0 {
		r.id = rand.Uint64() | 1
	}
	return nil
}

// readHeader fills b with zeros after the end of the file.
func (r *recovery) readHeader(name string) (b [segmentHeaderSize]byte, size int64, err error) {
	file, err := r.openFile(name)
	if err != nil {
		return b, 0, err
	}
	defer func() { _ = file.Close() }()
	if size, err = file.Size(); err != nil {
		return b, 0, err
	}
	n := int(min(size, segmentHeaderSize))
	if k, err := file.ReadAt(b[:n], 0); k < n {
		r.o.Logger.Error("cannot read the header of a file of the log; the gateway continues without the header", "file", r.path(name), "err", err)
		clear(b[:])
	}
	return b, size, nil
}

// belongs checks that all files have the same log id. log is the id in the header of the file.
func (r *recovery) belongs(name string, log uint64) error {
	if r.id != 0 && r.id != log {
		return fmt.Errorf("%s and another file of the directory belong to different stores: move the files of the wrong store out of the directory", r.path(name))
	}
	r.id = log
	return nil
}

func (r *recovery) listLog(name string, id uint32) error {
	b, _, err := r.readHeader(name)
	if err != nil {
		return err
	}
	h, version, ok := decodeSegmentHeader(b[:])
	if version != 0 && version != formatVersion {
		return &VersionError{r.path(name), version}
	}
	if !ok || h.body || h.id != id {
		h = segmentHeader{id: id, prev: id}
	} else if err := r.belongs(name, h.log); err != nil {
		return err
	}
	r.synced = max(r.synced, h.synced)
	r.logs = append(r.logs, &segment{segmentHeader: h})
	return nil
}

func (r *recovery) listBody(name string, id uint32) error {
	size, err := r.size(name)
	r.segments.add(&segment{segmentHeader: segmentHeader{body: true, id: id}, end: size, sealed: true})
	return err
}

func (r *recovery) listSnapshot(name string, id uint32) error {
	b, size, err := r.readHeader(name)
	if err != nil {
		return err
	}
	info, log, version, ok := decodeSnapshotHeader(b[:])
	if version != 0 && version != formatVersion {
		return &VersionError{r.path(name), version}
	}
	if !ok || info.ID != id {
		r.o.Logger.Error("a snapshot is damaged: the gateway does not use it", "file", r.path(name))
		return nil
	}
	if err := r.belongs(name, log); err != nil {
		return err
	}
	info.Size = size
	r.synced = max(r.synced, info.End)
	r.snapshots.list = append(r.snapshots.list, info)
	return nil
}

// find finds the end of the sound frames. It begins at the position known to be synced or, with
// Repair, at the beginning of the log. Frames that it reads may move r.synced forward.
func (r *recovery) find() error {
	off := uint32(segmentHeaderSize)
	next := 0               // index of the segment to read next
	mended := [2]int{-2, 0} // r.last and r.end at the last call of mend
	if r.synced != 0 && !r.o.Repair {
		i := slices.IndexFunc(r.logs, func(s *segment) bool { return s.id == r.synced.Segment() })
		if i < 0 || r.logs[i].prev == r.logs[i].id {
			return &DamageError{r.path(fileName(r.synced.Segment(), suffixLog)), 0, r.synced.Offset(), "the segment or its header is missing"}
		}
		next, off = i, r.synced.Offset()
		r.first, r.last, r.end = i, i, r.synced
	}
	for {
		// All frames up to r.end were read; segment next begins at r.end.
		reason := "the next segment is missing, or its header is damaged"
		if next == r.last || r.follows(next) {
			var err error
			if reason, err = r.read(next, off); err != nil {
				return err
			}
			if r.follows(next + 1) {
				next, off = next+1, segmentHeaderSize
				continue
			}
		}
		before := r.synced
		if err := r.evidence(); err != nil {
			return err
		}
		if r.synced <= r.end {
			if len(r.logs) > 0 && (r.lost || reason != "") {
				r.o.Logger.Warn("removed the incompletely written end of the log, after the last synced record",
					"dir", r.dir, "segment", r.end.Segment(), "offset", r.end.Offset(), "reason", reason)
			}
			return nil
		}
		damage := &DamageError{r.path(fileName(max(r.end.Segment(), 1), suffixLog)), r.end.Offset(), 0, reason}
		if !r.o.Repair {
			return damage
		}
		// If r.evidence has just found that the log was synced beyond r.end, the next round
		// continues at r.end, and does not check the records before r.synced.
		if before > r.end || r.last < 0 {
			if place := [2]int{r.last, int(r.end)}; place != mended {
				mended = place
			} else {
				return damage
			}
			if err := r.mend(); err != nil {
				return err
			}
			r.o.Logger.Error("repair: left out a damaged part of the log, whose records are lost; the damaged file, if there is one, is kept as *.damaged", "err", damage)
		}
		next, off = max(r.last, 0), r.end.Offset()
		if r.last < 0 {
			off = segmentHeaderSize
		}
	}
}

func (r *recovery) follows(i int) bool {
	if i >= len(r.logs) {
		return false
	}
	s := r.logs[i]
	if r.last < 0 {
		return s.prev == 0 || s.prev != s.id && slices.ContainsFunc(r.snapshots.list, func(x SnapshotInfo) bool {
			return x.From.Segment() >= s.id
		})
	}
	return s.prev == r.logs[r.last].id && s.prevEnd == r.end.Offset()
}

// read reads the frames of segment i from off on, and moves r.end after the last sound frame.
// reason says why the segment does not end there cleanly, or is "" if it does.
func (r *recovery) read(i int, off uint32) (reason string, err error) {
	s := r.logs[i]
	sc, err := r.scan(s, off)
	if err != nil {
		return "", err
	}
	defer sc.close()
	if r.last < 0 {
		r.first = i
	}
	r.last = i
	for {
		// Records that are known to be synced are not checked here: Log.Read checks them.
		sc.records = At(s.id, sc.off) >= r.synced
		if !sc.next() {
			break
		}
		r.kind = sc.header.kind
		r.synced = max(r.synced, sc.synced)
	}
	s.end = sc.off
	r.end = At(s.id, sc.off)
	return sc.reason, nil
}

// evidence searches for sound frames after the end, because they say how far the log was synced.
func (r *recovery) evidence() error {
	r.lost = false
	for i := max(r.last, 0); i < len(r.logs); i++ {
		s := r.logs[i]
		off := uint32(segmentHeaderSize) - frameHeaderSize // resync begins at the header after off
		if i == r.last {
			off = r.end.Offset()
		}
		sc, err := r.scan(s, off)
		if err != nil {
			return err
		}
		for sc.err == nil && sc.resync() {
			r.lost = true
			for sc.next() {
			}
			r.synced = max(r.synced, sc.synced)
		}
		sc.close()
		if sc.err != nil {
			r.o.Logger.Error("cannot read the end of a file of the log, which would show whether synced records are lost", "file", r.path(s.name()), "err", sc.err)
		}
	}
	return nil
}

// mend replaces unsound bytes at the end by a gap frame, so that the log continues after them.
func (r *recovery) mend() error {
	off := r.end.Offset()
	if r.last >= 0 {
		s := r.logs[r.last]
		sc, err := r.scan(s, off)
		if err != nil {
			return err
		}
		found := sc.resync() // what cannot be read contains no sound frame
		sc.close()
		if found {
			return r.rewrite(s, off, sc.off)
		}
		if next := r.last + 1; next < len(r.logs) && r.logs[next].prev == s.id && r.logs[next].prevEnd > off {
			return r.rewrite(s, off, r.logs[next].prevEnd)
		}
		if r.last == len(r.logs)-1 && r.synced.Segment() == s.id {
			return r.rewrite(s, off, r.synced.Offset())
		}
	}
	h := segmentHeader{log: r.id, synced: r.end}
	if r.last >= 0 {
		h.prev, h.prevEnd = r.logs[r.last].id, off
	}
	if next := r.last + 1; next < len(r.logs) {
		h.id = r.logs[next].id
		r.logs[next].segmentHeader = h
		return r.rewrite(r.logs[next], 0, 0)
	}
	h.id = r.synced.Segment()
	r.ids = max(r.ids, h.id)
	r.logs = append(r.logs, &segment{segmentHeader: h})
	return r.rewrite(r.logs[len(r.logs)-1], segmentHeaderSize, r.synced.Offset())
}

const copySize = 1 << 20

// rewrite writes a segment, with the header of s, to a temporary file, syncs this file, and gives
// it the segment's name. If to is not 0, a gap frame replaces the bytes from offset gap to offset
// to. With Repair the old file is kept as *.damaged, and zeros replace what cannot be read. Without
// a gap frame, the new file ends at s.end if that is known.
func (r *recovery) rewrite(s *segment, gap, to uint32) error {
	name := r.path(s.name())
	return r.replace(name, func(temp fsys.File) error { return r.copy(temp, s, gap, to) }, func() error {
		if !r.o.Repair {
			return nil
		}
		err := r.fs.Link(name, fmt.Sprintf("%s.%d%s", name, gap, suffixDamaged))
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrExist) {
			r.o.Logger.Warn("cannot keep a copy of the damaged file", "file", name, "err", err)
		}
		return nil
	})
}

func (r *recovery) copy(temp fsys.File, s *segment, gap, to uint32) error {
	old, err := r.openFile(s.name())
	size := int64(0)
	switch {
	case err == nil:
		defer func() { _ = old.Close() }()
		if size, err = old.Size(); err != nil {
			return err
		}
	case !r.o.Repair || !errors.Is(err, os.ErrNotExist):
		return err
	}
	if !r.o.Repair {
		size = int64(s.end)
	}
	buf := make([]byte, max(min(size, copySize), segmentHeaderSize))
	for off := int64(0); off < size; {
		n := min(int64(len(buf)), size-off)
		if k, err := old.ReadAt(buf[:n], off); int64(k) < n {
			if !r.o.Repair {
				return &DamageError{r.path(s.name()), uint32(off), uint32(off + n), err.Error()}
			}
			clear(buf[k:n])
		}
		if _, err := temp.WriteAt(buf[:n], off); err != nil {
			return err
		}
		off += n
	}
	if s.log != 0 {
		s.put(buf[:segmentHeaderSize])
		if _, err := temp.WriteAt(buf[:segmentHeaderSize], 0); err != nil {
			return err
		}
	}
	if to == 0 {
		return nil
	}
	if to < gap+frameHeaderSize {
		return &DamageError{r.path(s.name()), gap, to, "the damaged part is too short to be marked as left out"}
	}
	h := header{kind: kindGap, records: to - gap - frameHeaderSize}
	h.put(buf[:frameHeaderSize], At(s.id, gap))
	if _, err := temp.WriteAt(buf[:frameHeaderSize], int64(gap)); err != nil {
		return err
	}
	return temp.Truncate(max(size, int64(to)))
}

func (r *recovery) settle() (err error) {
	ends := make(map[uint32]uint32) // end of each segment by its id, from the header of the next segment
	for _, s := range r.logs[:r.last+1] {
		ends[s.prev] = s.prevEnd
		s.sealed = true
		r.segments.add(s)
	}
	for _, s := range r.logs[:r.first] { // find has not read these
		if end, ok := ends[s.id]; ok {
			s.end = end
		} else if s.end, err = r.size(s.name()); err != nil {
			return err
		}
	}
	closed := r.kind == kindClose && r.synced == r.end-frameHeaderSize
	again := false // the last segment was rewritten
	if !closed {
		for i := max(r.first, 0); i <= r.last; i++ {
			if s := r.logs[i]; At(s.id, s.end) > r.synced {
				if err := r.rewrite(s, 0, 0); err != nil {
					return err
				}
				again = i == r.last
			}
		}
	}
	if err := r.discard(); err != nil {
		return err
	}
	if r.last >= 0 {
		s := r.logs[r.last]
		r.w.active, r.w.off, r.w.filled = s, s.end, s.end
		// Continue to write to the file only after a clean close or a rewrite: otherwise, a backup
		// may have a hard link to it.
		if (closed || again) && r.kind != kindSeal && !r.o.Repair && int(s.end) < r.o.SegmentSize {
			s.file, err = r.fs.Open(r.path(s.name()), os.O_RDWR)
			s.sealed, r.next = false, r.end
			return err
		}
	}
	r.ids++
	r.next = At(r.ids, segmentHeaderSize)
	return nil
}

func (r *recovery) size(name string) (uint32, error) {
	file, err := r.openFile(name)
	if err != nil {
		return 0, err
	}
	size, err := file.Size()
	return uint32(min(size, maxSegment)), errors.Join(err, file.Close())
}

func (r *recovery) discard() error {
	names := []string{}
	for _, s := range r.logs[r.last+1:] {
		names = append(names, s.name())
	}
	if list := r.snapshots.list; len(list) > keptSnapshots {
		for _, s := range list[keptSnapshots:] {
			names = append(names, fileName(s.ID, suffixSnapshot))
		}
		r.snapshots.list = list[:keptSnapshots]
	}
	for _, name := range slices.Backward(names) {
		if err := r.fs.Remove(r.path(name)); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		return nil
	}
	return r.fs.SyncDir(r.dir)
}
