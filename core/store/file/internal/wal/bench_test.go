//go:build unix

package wal

import (
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
)

// benchDir is a directory on the disk, not in memory: /tmp may be a tmpfs.
func benchDir(b *testing.B) string { return filepath.Join(b.TempDir(), "wal") }

// BenchmarkAppend appends what a message costs, a put with its record, a lock and a removal, from
// several callers, each of which waits after a batch of messages: the life of a queue without the
// store. Segments are removed behind it, so that the disk stays small.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct{ size, batch, callers int }{
		{1200, 1, 1}, {1200, 4, 1}, {1200, 32, 1}, {1200, 4, 16}, {64 << 10, 4, 1}, {64 << 10, 4, 4},
	} {
		for _, mode := range []Sync{Never, Interval, Always} {
			b.Run(fmt.Sprintf("%s/size=%d/batch=%d/callers=%d", mode, c.size, c.batch, c.callers), func(b *testing.B) {
				benchAppend(b, mode, c.size, c.batch, c.callers)
			})
		}
	}
}

func benchAppend(b *testing.B, mode Sync, size, batch, callers int) {
	l, err := Open(fsys.OS{}, benchDir(b), Options{Sync: mode})
	if err != nil {
		b.Fatal(err)
	}
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(i * 7)
	}
	head := []byte("id, time, properties of about forty bytes")
	var effects [64]byte
	var work sync.WaitGroup
	messages := make(chan int, callers)
	send := func() {
		records := make([]Record, batch)
		for range messages {
			for i := range records {
				records[i] = NewRecord(head, body)
			}
			r, err := l.Reserve(b.Context(), FrameSize(len(effects), records))
			if err != nil {
				b.Error(err)
			}
			_, end := l.Append(effects[:batch*2], records)
			r.Release()
			if err := l.Wait(b.Context(), end); err != nil {
				b.Error(err)
			}
			_, _ = l.Append(effects[:40], nil) // lock: nothing waits for it
			_, end = l.Append(effects[:40], nil)
			if err := l.Wait(b.Context(), end); err != nil {
				b.Error(err)
			}
		}
	}
	for range callers {
		work.Go(send)
	}
	b.ReportAllocs()
	before, began, calls, forgetAt := cpu(b), time.Now(), 0, 256<<20
	for b.Loop() {
		messages <- batch
		calls++
		if calls*batch*size >= forgetAt {
			forget(b, l)
			forgetAt += 256 << 20
		}
	}
	close(messages)
	work.Wait()
	took, used := time.Since(began), cpu(b)-before
	n := float64(calls * batch)
	b.ReportMetric(n/took.Seconds(), "msg/s")
	b.ReportMetric(n*float64(size)/took.Seconds()/1e6, "MB/s")
	b.ReportMetric(float64(used.Nanoseconds())/1e3/n, "cpu-µs/msg")
	b.ReportMetric(0, "ns/op")
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}

// forget removes what is sealed, as a store does whose messages are settled.
func forget(b *testing.B, l *Log) {
	l.snapshots.mu.Lock()
	floor := l.Synced()
	l.snapshots.list = []SnapshotInfo{{From: floor}}
	l.snapshots.mu.Unlock()
	for _, s := range l.Segments() {
		if s.Sealed && s.ID < floor.Segment() {
			if err := l.Remove(s.ID); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLone is a message alone: appended and waited for, and nothing else is being done.
func BenchmarkLone(b *testing.B) {
	for _, mode := range []Sync{Never, Interval, Always} {
		b.Run(string(mode), func(b *testing.B) {
			l, err := Open(fsys.OS{}, benchDir(b), Options{Sync: mode})
			if err != nil {
				b.Fatal(err)
			}
			body := make([]byte, 1200)
			records := make([]Record, 1)
			b.ReportAllocs()
			before, calls := cpu(b), 0
			for b.Loop() {
				records[0] = NewRecord(nil, body)
				_, end := l.Append(body[:60], records)
				if err := l.Wait(b.Context(), end); err != nil {
					b.Fatal(err)
				}
				if calls++; calls%(256<<10) == 0 {
					forget(b, l)
				}
			}
			b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/1e3/float64(calls), "cpu-µs/msg")
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkReplay reads a log of 100,000 messages, as a start does.
func BenchmarkReplay(b *testing.B) {
	const n = 100_000
	where := benchDir(b)
	l, err := Open(fsys.OS{}, where, Options{Sync: Never})
	if err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 1200)
	for range n {
		_, end := l.Append(body[:60], []Record{NewRecord(nil, body)})
		if err := l.Wait(b.Context(), end); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	rounds, began, before := 0, time.Now(), cpu(b)
	for b.Loop() {
		rounds++
		l, err := Open(fsys.OS{}, where, Options{Sync: Never})
		if err != nil {
			b.Fatal(err)
		}
		frames := 0
		if err := l.Replay(0, func(Frame) error {
			frames++
			return nil
		}); err != nil || frames != n {
			b.Fatal(frames, err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(time.Since(began).Seconds()/float64(rounds)*1e6/n, "s/1M-messages")
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/1e3/float64(rounds)/n, "cpu-µs/msg")
}

// BenchmarkRead reads records from the file.
func BenchmarkRead(b *testing.B) {
	for _, size := range []int{1200, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l, err := Open(fsys.OS{}, benchDir(b), Options{Sync: Never, Recent: 1})
			if err != nil {
				b.Fatal(err)
			}
			var refs []Ref
			for range 1000 {
				recs := []Record{NewRecord(nil, make([]byte, size))}
				if _, end := l.Append(nil, recs); l.Wait(b.Context(), end) != nil {
					b.Fatal(l.Err())
				}
				refs = append(refs, recs[0].Ref)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, _, err := l.Read(refs[i%len(refs)]); err != nil {
					b.Fatal(err)
				}
				i++
			}
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
