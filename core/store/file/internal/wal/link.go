package wal

import (
	"context"
	"path/filepath"
)

// HardLinkTo makes hard links, in another directory of the same file system, to all files that are
// needed to open the log as it is now: segments, large bodies and snapshots. It first seals and
// syncs the log's segments, and creates the directory. The log continues meanwhile, but Remove and
// WriteSnapshot wait.
func (l *Log) HardLinkTo(ctx context.Context, dir string) error {
	l.snapshots.linking.Lock()
	defer l.snapshots.linking.Unlock()
	l.mu.Lock()
	if l.next.Offset() > segmentHeaderSize && !l.closed.Load() {
		l.roll(l.gather)
	}
	end := l.End()
	l.mu.Unlock()
	l.wake.Set()
	if err := l.syncTo(ctx, end); err != nil {
		return err
	}
	if err := l.fs.MkdirAll(dir); err != nil {
		return err
	}
	var names []string
	for _, s := range l.segments.list() {
		if s.body || s.id <= end.Segment() {
			names = append(names, s.name())
		}
	}
	for _, s := range l.Snapshots() {
		if s.End <= end {
			names = append(names, fileName(s.ID, suffixSnapshot))
		}
	}
	for _, name := range names {
		if err := l.fs.Link(l.path(name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return l.fs.SyncDir(dir)
}
