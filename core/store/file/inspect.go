package file

import (
	"cmp"
	"maps"
	"slices"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/journal"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/wal"
	"github.com/crosstown-mq/crosstown/core/store/internal/state"
)

type Inspection = wal.Inspection

// Inspect reads a directory without changing it. A file to which a gateway is writing may seem
// incomplete. If contents is true, Inspect also checks the contents of all messages and snapshots.
func Inspect(dir string, contents bool) (*Inspection, error) {
	found, err := wal.Inspect(fsys.OS{}, dir, contents)
	if err == nil && contents && found.Closed && len(found.Snapshots) > 0 {
		err = inspectNamed(dir, found)
	}
	return found, err
}

// inspectNamed needs a cleanly closed store, because only then does the snapshot have all messages.
func inspectNamed(dir string, found *wal.Inspection) error {
	newest := slices.MaxFunc(found.Snapshots, func(a, b wal.SnapshotReport) int { return cmp.Compare(a.ID, b.ID) })
	if newest.Damage != "" {
		return nil // wal.Inspect has already reported it
	}
	in, err := wal.OpenSnapshot(fsys.OS{}, dir, wal.SnapshotInfo{ID: newest.ID, Size: newest.Size})
	if err != nil {
		return err
	}
	mem := state.New(state.Options{})
	err = journal.Load(mem, in)
	named := make(map[uint32]bool) // key: segment; value: it contains a large body
	if err == nil {
		mem.Records(func(r state.Ref, large bool) { named[wal.Position(r.Position).Segment()] = large })
	}
	for i := range found.Segments {
		s := &found.Segments[i]
		if named[s.ID] && s.Torn != "" {
			s.Damage, s.Torn = append(s.Damage, s.Torn), ""
		}
		delete(named, s.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(named)) {
		found.Segments = append(found.Segments, wal.MissingSegment(dir, id, named[id]))
	}
	return err
}

type Usage struct {
	Bytes    int64 `json:"diskBytes"`
	Free     int64 `json:"freeBytes"`
	Segments int   `json:"segments"`
	Resident int64 `json:"memoryBytes"` // bytes of messages in memory that the log also has
	Unsynced int64 `json:"-"`           // about how many acknowledged bytes a power failure would lose
}

func (s *Store) Usage() Usage {
	u := Usage{Resident: s.journal.InMemory()}
	u.Free, _ = s.log.Space()
	for _, x := range s.log.Segments() {
		u.Segments++
		u.Bytes += x.Size
	}
	for _, x := range s.log.Snapshots() {
		u.Bytes += x.Size
	}
	if end, synced := s.log.End(), s.log.Synced(); end.Segment() == synced.Segment() {
		u.Unsynced = int64(end - synced)
	} else {
		u.Unsynced = int64(end.Offset())
	}
	return u
}
