package wal

import (
	"context"
	"path/filepath"
)

// Seal syncs all frames so far, seals their segments, and returns the position after them.
func (l *Log) Seal(ctx context.Context) (Position, error) {
	l.mu.Lock()
	if l.next.Offset() > segmentHeaderSize && !l.closed.Load() {
		l.roll(l.gather)
	}
	end := l.End()
	l.mu.Unlock()
	l.wake.Set()
	return end, l.syncTo(ctx, end)
}

// HardLinkTo makes hard links, in another directory of the same file system, to all files that are
// needed to open the log as it is now: the sealed segments (after it has called Seal), the large
// bodies and the snapshots. It creates the directory. The log continues meanwhile, but Remove and
// WriteSnapshot wait.
func (l *Log) HardLinkTo(ctx context.Context, dir string) error {
	l.snapshots.linking.Lock()
	defer l.snapshots.linking.Unlock()
	end, err := l.Seal(ctx)
	if err != nil {
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
