package wal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys/faultfs"
)

// The kernel may have dropped the pages of a failed sync and show them all the same. So nothing is
// acknowledged after it, and what a restart reads is made durable before anything is.
func TestFailedSyncIsFinal(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t) * 10 {
		r := rand.New(rand.NewPCG(seed, 2))
		fs := faultfs.New()
		o := Options{Sync: Always, SegmentSize: 4 << 10}
		s := begin(t, fs, o)
		left := r.IntN(40)
		fs.Before = func(op faultfs.Op) *faultfs.Fault {
			if op.Kind != faultfs.Sync && op.Kind != faultfs.SyncDir {
				return nil
			}
			if left--; left == -1 {
				return &faultfs.Fault{Err: faultfs.ErrIO}
			}
			return nil
		}
		var err error
		for err == nil {
			err = s.send(false)
		}
		var failed *FailedError
		if !errors.As(err, &failed) || !errors.Is(err, faultfs.ErrIO) {
			t.Fatalf("after a failed sync: got %v", err)
		}
		select {
		case <-s.l.Failed():
		default:
			t.Error("Failed is open after a failed sync")
		}
		if err := s.send(false); !errors.As(err, &failed) {
			t.Errorf("Wait after a failed sync: got %v", err)
		}
		if _, err := s.l.Reserve(t.Context(), 100); !errors.As(err, &failed) {
			t.Errorf("Reserve after a failed sync: got %v", err)
		}
		if err := s.l.Close(); !errors.As(err, &failed) {
			t.Errorf("Close after a failed sync: got %v", err)
		}
		restarted := fs.Restart()
		l, err := Open(restarted, dir, o)
		if err != nil {
			t.Fatal(err)
		}
		st, err := load(l)
		if err != nil || st.n < s.acked {
			t.Fatalf("seed %d: got %d frames of %d, %v", seed, st.n, s.acked, err)
		}
		// What was read may be delivered now. It stays.
		if err := survives(t, restarted.Crash(r, r.Float64()), o, r, st.n, st.n); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		_ = l.Close()
	}
}

// Any write may fail: with an error that is final the log stops, and what was acknowledged is there.
func TestFailedWriteStopsTheLog(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t) * 10 {
		r := rand.New(rand.NewPCG(seed, 3))
		fs := faultfs.New()
		o := Options{Sync: Always, SegmentSize: 4 << 10}
		s := begin(t, fs, o)
		left := r.IntN(200)
		fs.Before = func(op faultfs.Op) *faultfs.Fault {
			if left--; left < 0 && op.Kind != faultfs.Read {
				return &faultfs.Fault{Err: faultfs.ErrIO, Done: r.IntN(op.Len + 1)}
			}
			return nil
		}
		var err error
		for err == nil {
			err = s.send(false)
		}
		if !errors.Is(err, faultfs.ErrIO) {
			t.Fatalf("after a failed write: got %v", err)
		}
		_ = s.l.Close()
		fs.Before = nil
		after := fs.Restart()
		if r.IntN(2) == 0 {
			after = fs.Crash(r, r.Float64())
		}
		if err := survives(t, after, o, r, s.acked, s.appended); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// A full disk refuses what grows, lets control records use what is kept, and recovers by itself.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New()
		fs.SetCapacity(64 << 10)
		o := Options{Sync: Always, SegmentSize: 8 << 10, Keep: 16 << 10}
		s := begin(t, fs, o)
		var full *FullError
		var err error
		for range 1000 {
			var r Reservation
			if r, err = s.l.Reserve(t.Context(), 200); err != nil {
				break
			}
			if err := s.send(false); err != nil {
				t.Fatal(err)
			}
			r.Release()
			time.Sleep(spaceInterval)
		}
		if !errors.As(err, &full) || s.acked == 0 || s.acked == 1000 {
			t.Fatalf("after %d frames: got %v", s.acked, err)
		}
		if large := largeBody; !errors.As(s.l.WriteBody(t.Context(), &large), &full) {
			t.Error("a large body was not refused")
		}
		if err := s.l.Full(); !errors.As(err, &full) {
			t.Errorf("Full: got %v", err)
		}
		if full.Cause != nil {
			t.Errorf("no write has failed: got the cause %v", full.Cause)
		}
		if err := s.send(false); err != nil { // from what is kept
			t.Fatal(err)
		}

		fs.SetCapacity(fs.Used() + 100) // others took the rest: a write is cut short
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		i, end := 0, Position(0)
		for range 20 { // more than is filled ahead
			i, end = s.append(nil)
		}
		if err := s.l.Wait(ctx, end); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Wait on a full disk: got %v", err)
		}
		if err := s.l.Full(); !errors.Is(err, faultfs.ErrFull) || !strings.Contains(err.Error(), faultfs.ErrFull.Error()) {
			t.Errorf("Full after a write that was cut short: got %v, want the error of the write", err)
		}
		fs.SetCapacity(fs.Used() + 50)
		if large := largeBody; !errors.Is(s.l.WriteBody(t.Context(), &large), faultfs.ErrFull) {
			t.Error("a large body was refused without the error of the write")
		}
		acked := s.acked
		if err := survives(t, withCapacity(fs.Crash(rand.New(rand.NewPCG(1, 1)), 1)), o, rand.New(rand.NewPCG(1, 2)), acked, s.appended); err != nil {
			t.Error(err)
		}
		fs.SetCapacity(1 << 20)
		if err := s.l.Wait(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		time.Sleep(spaceInterval)
		if _, err := s.l.Reserve(t.Context(), 200); err != nil {
			t.Errorf("Reserve with space: got %v", err)
		}
		if err := s.l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := survives(t, fs.Crash(rand.New(rand.NewPCG(1, 3)), 0), o, rand.New(rand.NewPCG(1, 4)), i+1, i+1); err != nil {
			t.Error(err)
		}
	})
}

func withCapacity(fs *faultfs.FS) *faultfs.FS {
	fs.SetCapacity(0)
	return fs
}

// Close does not wait for space that does not come.
func TestCloseOnAFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, mode := range []Sync{Always, Interval} {
			fs := faultfs.New()
			s := begin(t, fs, Options{Sync: mode})
			if err := s.send(false); err != nil {
				t.Fatal(err)
			}
			fs.SetCapacity(fs.Used() - fillSize/2)
			for range 2000 {
				_, _ = s.append(nil)
			}
			time.Sleep(time.Second)
			if err := s.l.Close(); !fsys.Full(err) {
				t.Errorf("%v: got %v", mode, err)
			}
		}
	})
}

// The disk is full when the first segment after a restart, or the next one, is to be made.
func TestFullDiskAtANewSegment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, mode := range []Sync{Always, Interval} {
			o := Options{Sync: mode, SegmentSize: 1 << 10}
			fs, _ := build(t, 1, o) // frame 0 is larger than a segment, so a new one begins
			s := begin(t, fs, o)
			s.appended = 1
			var full atomic.Bool
			full.Store(true)
			fs.Before = func(op faultfs.Op) *faultfs.Fault {
				if op.Kind == faultfs.Create && full.Load() {
					return &faultfs.Fault{Err: faultfs.ErrFull}
				}
				return nil
			}
			for range 10 { // over several segments
				sent := make(chan error, 1)
				go func() { sent <- s.send(false) }()
				time.Sleep(time.Second)
				full.Store(false)
				if err := <-sent; err != nil {
					t.Fatal(err)
				}
				full.Store(true)
			}
			full.Store(false)
			if err := s.l.Close(); err != nil {
				t.Error(err)
			}
			if err := readAll(fs, o, s.appended); err != nil {
				t.Error(err)
			}
		}
	})
}

// build makes a closed log of n frames, one send each.
func build(t *testing.T, n int, o Options) (fs *faultfs.FS, files []string) {
	t.Helper()
	fs = faultfs.New()
	s := begin(t, fs, o)
	for range n {
		if err := s.send(false); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.l.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := fs.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return fs, names
}

// A flipped bit anywhere is noticed: by Open, Replay or Read. With Repair all frames come back but
// those that the bit is in, and the next start needs no Repair.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	const n = 60
	o := Options{Sync: Always, SegmentSize: 4 << 10}
	fs, names := build(t, n, o)
	r := rand.New(rand.NewPCG(5, 5))
	noticed := 0
	for _, name := range names {
		name = filepath.Join(dir, name)
		size := fileSize(t, fs, name)
		for range max(40, int(seeds(t))*5) {
			damaged := fs.Restart()
			off := r.IntN(size)
			if err := damaged.Flip(name, off, 1<<r.IntN(8)); err != nil {
				t.Fatal(err)
			}
			err := readAll(damaged.Restart(), o, n)
			if err == nil {
				continue // a bit that nothing uses
			}
			noticed++
			var damage *DamageError
			if !errors.As(err, &damage) && !strings.Contains(err.Error(), "format") {
				// The last frames of the log may be cut: nothing behind them says that they were synced.
				if x, inspected := Inspect(damaged, dir, true); inspected != nil || x.Damaged() || x.Closed {
					t.Fatalf("%s:%d: got %v, %+v", name, off, err, x)
				}
				continue
			}
			var version *VersionError
			if errors.As(err, &version) {
				t.Errorf("%s:%d: a damaged header is taken for another version", name, off)
			}
			repair := o
			repair.Repair = true
			l, err := Open(damaged, dir, repair)
			if err != nil {
				t.Fatalf("%s:%d: repair: %v", name, off, err)
			}
			after := effects(t, l)
			if _, end := l.Append([]byte("more"), nil); l.Wait(t.Context(), end) != nil {
				t.Fatal(l.Err())
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if len(after) < n-1 || !slices.IsSorted(after) {
				t.Errorf("%s:%d: repair left %d frames of %d", name, off, len(after), n)
			}
			l, err = Open(damaged, dir, o)
			if err != nil {
				t.Fatalf("%s:%d: after repair: %v", name, off, err)
			}
			if again := effects(t, l); !slices.Equal(again, after) {
				t.Errorf("%s:%d: after repair got %v, then %v", name, off, after, again)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if noticed < 100 {
		t.Errorf("only %d flipped bits were noticed", noticed)
	}
}

func fileSize(t *testing.T, fs fsys.FS, name string) int {
	t.Helper()
	f, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	return int(size)
}

// readAll reads all that a log of n frames has.
func readAll(fs fsys.FS, o Options, n int) error {
	l, err := Open(fs, dir, o)
	if err != nil {
		return err
	}
	st, err := load(l)
	if err == nil {
		err = st.check(l)
	}
	if err == nil && st.n != n {
		err = fmt.Errorf("got %d frames of %d", st.n, n)
	}
	return errors.Join(err, l.Close())
}

// effects returns the numbers of all frames but those of other tests.
func effects(t *testing.T, l *Log) (all []uint32) {
	t.Helper()
	if err := l.Replay(0, func(f Frame) error {
		if string(f.Effects) != "more" {
			all = append(all, le.Uint32(f.Effects))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// Missing and cut files in the middle are damage too, and Repair goes on behind them.
func TestMissingFiles(t *testing.T) {
	t.Parallel()
	const n = 60
	o := Options{Sync: Always, SegmentSize: 4 << 10}
	fs, names := build(t, n, o)
	for _, name := range names[:len(names)-1] { // the last is the lock or the active segment
		if filepath.Ext(name) != suffixLog {
			continue
		}
		for _, remove := range []bool{true, false} {
			damaged := fs.Restart()
			path := filepath.Join(dir, name)
			if remove {
				if err := damaged.Remove(path); err != nil {
					t.Fatal(err)
				}
			} else {
				f, err := damaged.Open(path, os.O_RDWR)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(f.Truncate(1000), f.Close()); err != nil {
					t.Fatal(err)
				}
			}
			var damage *DamageError
			if err := readAll(damaged.Restart(), o, n); !errors.As(err, &damage) {
				t.Errorf("%s removed=%v: got %v", name, remove, err)
			}
			repair := o
			repair.Repair = true
			l, err := Open(damaged, dir, repair)
			if err != nil {
				t.Fatalf("%s removed=%v: repair: %v", name, remove, err)
			}
			after := effects(t, l)
			if len(after) < n/3 || len(after) >= n || !slices.IsSorted(after) {
				t.Errorf("%s removed=%v: repair left %d frames: %v", name, remove, len(after), after)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if l, err = Open(damaged, dir, o); err != nil {
				t.Fatalf("%s removed=%v: after repair: %v", name, remove, err)
			}
			if again := effects(t, l); !slices.Equal(again, after) {
				t.Errorf("%s removed=%v: after repair got %v, then %v", name, remove, after, again)
			}
			_ = l.Close()
		}
	}
}
