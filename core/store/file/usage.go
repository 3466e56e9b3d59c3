package file

// Usage is what a store takes on the disk and in memory.
type Usage struct {
	Segments  int   // files of the log and of large bodies
	Bytes     int64 // of these files and the snapshots
	Unsynced  int64 // bytes acknowledged that a loss of power would lose, about
	Resident  int64 // bytes of messages that are in memory beside the log
	Snapshots int   // that there are
	Failed    bool  // the store has stopped because of an error of the disk
}

// Usage looks at the files that the store knows.
func (s *Store) Usage() Usage {
	u := Usage{Resident: s.journal.InMemory(), Failed: s.log.Err() != nil}
	for _, x := range s.log.Segments() {
		u.Segments++
		u.Bytes += x.Size
	}
	for _, x := range s.log.Snapshots() {
		u.Snapshots++
		u.Bytes += x.Size
	}
	if end, synced := s.log.End(), s.log.Synced(); end.Segment() == synced.Segment() {
		u.Unsynced = int64(end - synced)
	} else {
		u.Unsynced = int64(end.Offset())
	}
	return u
}
