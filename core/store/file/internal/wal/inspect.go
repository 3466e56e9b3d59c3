package wal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
)

type Inspection struct {
	Segments  []SegmentReport  `json:"segments"`
	Snapshots []SnapshotReport `json:"snapshots"`
	Others    []string         `json:"others,omitempty"`
	Synced    Position         `json:"synced"` // last position that is known to be synced
	Closed    bool             `json:"closed"`
}

type SegmentReport struct {
	File    string    `json:"file"`
	ID      uint32    `json:"id"`
	Body    bool      `json:"body,omitempty"`
	Size    int64     `json:"size"`
	Made    time.Time `json:"made"`
	Prev    uint32    `json:"prev,omitempty"`
	PrevEnd uint32    `json:"prev_end,omitempty"`
	Frames  int       `json:"frames"`
	Records int       `json:"records"`
	Gaps    int       `json:"gaps,omitempty"`
	Sealed  bool      `json:"sealed"`
	End     uint32    `json:"end"`
	Torn    string    `json:"torn,omitempty"` // why the bytes from End on are unsound; Open will cut them
	Damage  []string  `json:"damage,omitempty"`

	unsound []unsound
}

// unsound is an unsound part of a file. It is damage if it was synced, otherwise torn.
type unsound struct {
	off    uint32
	reason string
}

func MissingSegment(dir string, id uint32, body bool) SegmentReport {
	s := &segment{segmentHeader: segmentHeader{id: id, body: body}}
	return SegmentReport{File: filepath.Join(dir, s.name()), ID: id, Body: body, Damage: []string{"the file is missing"}}
}

type SnapshotReport struct {
	File   string    `json:"file"`
	ID     uint32    `json:"id"`
	Size   int64     `json:"size"`
	Made   time.Time `json:"made"`
	From   Position  `json:"from"`
	End    Position  `json:"end"`
	Damage string    `json:"damage,omitempty"`
}

func (i *Inspection) Damaged() bool {
	return slices.ContainsFunc(i.Segments, func(s SegmentReport) bool { return len(s.Damage) > 0 }) ||
		slices.ContainsFunc(i.Snapshots, func(s SnapshotReport) bool { return s.Damage != "" })
}

// Inspect reads a directory without changing or locking it, so a file that another process writes
// may seem incomplete. If records is true, it also checks all records and snapshots.
func Inspect(fs fsys.FS, dir string, records bool) (*Inspection, error) {
	names, err := fs.ReadDir(dir)
	if err != nil {
		return nil, explain(dir, err)
	}
	x := &Inspection{}
	for _, name := range names {
		id, suffix, ok := parseName(name)
		switch {
		case ok && (suffix == suffixLog || suffix == suffixBody):
			r := SegmentReport{File: filepath.Join(dir, name), ID: id, Body: suffix == suffixBody}
			if err := x.segment(fs, &r, records); err != nil {
				return nil, explain(dir, err)
			}
			x.Segments = append(x.Segments, r)
		case ok && suffix == suffixSnapshot:
			r := SnapshotReport{File: filepath.Join(dir, name), ID: id}
			if err := x.snapshot(fs, &r, dir, records); err != nil {
				return nil, explain(dir, err)
			}
			x.Snapshots = append(x.Snapshots, r)
		case name != lockName:
			x.Others = append(x.Others, name)
		}
	}
	slices.SortFunc(x.Segments, func(a, b SegmentReport) int { return cmp.Compare(a.ID, b.ID) })
	var prev *SegmentReport
	for i := range x.Segments {
		s := &x.Segments[i]
		if s.Body {
			s.judge(0)
			continue
		}
		s.judge(x.Synced)
		if prev != nil && prev.ID == s.Prev && prev.End != s.PrevEnd && At(prev.ID, s.PrevEnd) <= x.Synced {
			prev.Damage = append(prev.Damage, "the frames at its end are damaged: the next segment begins later than the last intact frame")
		}
		prev = s
	}
	return x, nil
}

func (x *Inspection) segment(fs fsys.FS, r *SegmentReport, records bool) error {
	file, err := fs.Open(r.File, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if r.Size, err = file.Size(); err != nil {
		return err
	}
	b := make([]byte, segmentHeaderSize)
	_, _ = file.ReadAt(b, 0) // an unreadable header is not sound
	h, version, ok := decodeSegmentHeader(b)
	if version != 0 && version != formatVersion {
		return &VersionError{r.File, version}
	}
	if ok {
		r.Made, r.Prev, r.PrevEnd = time.UnixMilli(h.made), h.prev, h.prevEnd
		x.Synced = max(x.Synced, h.synced)
	}
	if !ok || h.id != r.ID || h.body != r.Body {
		r.unsound = append(r.unsound, unsound{0, "the header is damaged"})
	}
	if r.Body {
		r.body(file, records)
		return nil
	}
	sc := newScanner(file, r.Size, r.ID, segmentHeaderSize)
	sc.records = records
	x.frames(sc, r)
	return nil
}

func (r *SegmentReport) judge(synced Position) {
	for _, u := range r.unsound {
		if At(r.ID, u.off) < synced {
			r.Damage = append(r.Damage, fmt.Sprintf("byte %d: %s", u.off, u.reason))
		} else if r.Torn == "" {
			r.Torn, r.End = u.reason, u.off
		}
	}
}

// frames also reads frames after damage.
func (x *Inspection) frames(sc *scanner, r *SegmentReport) {
	for {
		ok := sc.next()
		if sc.reason != "" {
			r.unsound = append(r.unsound, unsound{sc.off, sc.reason})
			if sc.records { // perhaps only the records are unsound
				sc.reason, sc.records = "", false
				ok = sc.next()
				sc.records = true
			}
		}
		x.Synced = max(x.Synced, sc.synced)
		if ok {
			r.Frames++
			r.Records += len(sc.refs)
			r.End = sc.off
			switch sc.header.kind {
			case kindGap:
				r.Gaps++
			case kindSeal:
				r.Sealed = true
			}
			x.Closed = sc.header.kind == kindClose
			continue
		}
		clean := sc.reason == ""
		off := sc.off
		if !sc.resync() {
			return
		}
		if clean {
			r.unsound = append(r.unsound, unsound{off, "frames are missing"})
		}
	}
}

func (r *SegmentReport) body(file fsys.File, records bool) {
	r.Sealed, r.End, r.Records = true, uint32(min(r.Size, maxSegment)), 1
	n := r.Size - segmentHeaderSize
	if n < recordHeaderSize || n > maxSegment {
		r.Torn = "the file is truncated"
		return
	}
	if !records {
		return
	}
	b := make([]byte, n)
	if k, err := file.ReadAt(b, segmentHeaderSize); int64(k) < n {
		r.Damage = append(r.Damage, err.Error())
		return
	}
	h, body := recordLengths(b)
	if size := recordHeaderSize + int64(h+body); int64(align(int(size))) != n {
		r.Torn = "the file is truncated"
	} else if _, _, ok := decodeRecord(b[:size]); !ok {
		r.Damage = append(r.Damage, "the record's checksum is wrong")
	}
}

func (x *Inspection) snapshot(fs fsys.FS, r *SnapshotReport, dir string, content bool) error {
	file, err := fs.Open(r.File, os.O_RDONLY)
	if err != nil {
		return err
	}
	b := make([]byte, snapshotHeaderSize)
	_, _ = file.ReadAt(b, 0) // an unreadable header is not sound
	if r.Size, err = file.Size(); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return err
	}
	s, _, version, ok := decodeSnapshotHeader(b)
	if version != 0 && version != formatVersion {
		return &VersionError{r.File, version}
	}
	if !ok || s.ID != r.ID {
		r.Damage = "the header is damaged"
		return nil
	}
	r.Made, r.From, r.End = s.Made, s.From, s.End
	x.Synced = max(x.Synced, s.End)
	if !content {
		return nil
	}
	in, err := OpenSnapshot(fs, dir, s)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		r.Damage = err.Error()
	}
	return in.Close()
}
