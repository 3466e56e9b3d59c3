package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys/faultfs"
)

// What each mode promises when Wait returns, and when the rest follows.
func TestWhatWaitPromises(t *testing.T) {
	t.Parallel()
	for _, mode := range []Sync{Always, Interval, Never} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fs := faultfs.New()
				s := begin(t, fs, Options{Sync: mode})
				if err := s.send(false); err != nil {
					t.Fatal(err)
				}
				r := rand.New(rand.NewPCG(1, 1))
				frames := func(fs *faultfs.FS) int {
					l, err := Open(fs, dir, Options{})
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = l.Close() }()
					st, err := load(l)
					if err != nil {
						t.Fatal(err)
					}
					return st.n
				}
				if got := frames(fs.Restart()); got != 1 {
					t.Errorf("after a crash of the process: got %d frames", got)
				}
				want := 0
				if mode == Always {
					want = 1
				}
				if got := frames(fs.Crash(r, 0)); got != want {
					t.Errorf("after a loss of power: got %d frames, want %d", got, want)
				}
				time.Sleep(time.Second)
				if mode == Interval {
					want = 1
				}
				if got := frames(fs.Crash(r, 0)); got != want {
					t.Errorf("after a loss of power a second later: got %d frames, want %d", got, want)
				}
				if synced := s.l.Synced() == s.l.End(); synced != (want == 1) {
					t.Errorf("Synced says %v", synced)
				}
				s.append(nil) // nothing waits for it
				time.Sleep(time.Second)
				if got := frames(fs.Restart()); got != 2 {
					t.Errorf("without Wait: got %d frames", got)
				}
				if err := s.l.Close(); err != nil {
					t.Fatal(err)
				}
				if err := s.send(false); !errors.Is(err, ErrClosed) {
					t.Errorf("after Close: got %v", err)
				}
				if _, err := s.l.Reserve(t.Context(), 1); !errors.Is(err, ErrClosed) {
					t.Errorf("Reserve after Close: got %v", err)
				}
				if _, err := s.l.WriteSnapshot(t.Context(), 0, func(io.Writer) error { return nil }); !errors.Is(err, ErrClosed) {
					t.Errorf("WriteSnapshot after Close: got %v", err)
				}
				if got := frames(fs.Crash(r, 0)); got != 2 {
					t.Errorf("after Close: got %d frames", got)
				}
			})
		})
	}
}

// While a write takes long, Reserve lets at most Options.Backlog wait for it in memory.
func TestBacklogIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New()
		slow := make(chan struct{})
		fs.Before = func(op faultfs.Op) *faultfs.Fault {
			if op.Kind == faultfs.Write {
				<-slow
			}
			return nil
		}
		s := begin(t, fs, Options{Sync: Always, Backlog: 1000})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n := 0
		var err error
		for err == nil {
			var r Reservation
			if r, err = s.l.Reserve(ctx, 96); err == nil {
				s.l.Append(make([]byte, 64), nil)
				r.Release()
				n++
			}
		}
		if !errors.Is(err, context.DeadlineExceeded) || n != 10 {
			t.Errorf("after %d frames: got %v", n, err)
		}
		if err := s.l.Wait(ctx, s.l.End()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: got %v", err)
		}
		waited := make(chan error)
		go func() {
			_, err := s.l.Reserve(t.Context(), 5000) // alone it may be larger
			waited <- err
		}()
		synctest.Wait()
		close(slow)
		if err := <-waited; err != nil {
			t.Error(err)
		}
		if _, err := s.l.Reserve(t.Context(), 300<<20); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Reserve of too much: got %v", err)
		}
		if err := s.l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A segment goes only when no kept snapshot needs it and it is not being written.
func TestRemove(t *testing.T) {
	t.Parallel()
	fs := faultfs.New()
	o := Options{Sync: Always, SegmentSize: 2 << 10, Recent: 1}
	s := begin(t, fs, o)
	first := NewRecord([]byte("first"), nil)
	recs := []Record{first}
	if _, end := s.l.Append([]byte("more"), recs); s.l.Wait(t.Context(), end) != nil {
		t.Fatal(s.l.Err())
	}
	large := largeBody
	if err := s.l.WriteBody(t.Context(), &large); err != nil {
		t.Fatal(err)
	}
	fill := func() {
		for range 10 {
			if err := s.send(false); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	one := recs[0].Ref.Segment()
	if err := s.l.Remove(one); !errors.Is(err, ErrInUse) {
		t.Errorf("without a snapshot: got %v", err)
	}
	if err := s.snapshot(); err != nil {
		t.Fatal(err)
	}
	if err := s.l.Remove(s.l.End().Segment()); !errors.Is(err, ErrInUse) {
		t.Errorf("the active segment: got %v", err)
	}
	if head, _, err := s.l.Read(recs[0].Ref); err != nil || string(head) != "first" {
		t.Errorf("before Remove: got %q, %v", head, err)
	}
	if err := s.l.Remove(one); err != nil {
		t.Error(err)
	}
	if err := s.l.Remove(one); !errors.Is(err, ErrGone) {
		t.Errorf("again: got %v", err)
	}
	if _, _, err := s.l.Read(recs[0].Ref); !errors.Is(err, ErrGone) {
		t.Errorf("Read after Remove: got %v", err)
	}
	if _, body, err := s.l.Read(large.Ref); err != nil || !bytes.Equal(body, largeBody.Body) {
		t.Errorf("large body: %v", err)
	}
	if err := s.l.Remove(large.Ref.Segment()); err != nil {
		t.Error(err)
	}
	fill()
	if err := s.snapshot(); err != nil {
		t.Fatal(err)
	}
	fill()
	if err := s.snapshot(); err != nil {
		t.Fatal(err)
	}
	if err := s.clean(); err != nil {
		t.Error(err)
	}
	older := s.l.Snapshots()[1]
	if got := s.l.Segments()[0].ID; got != older.From.Segment() {
		t.Errorf("the first segment is %d, the older snapshot needs %d", got, older.From.Segment())
	}
	if err := s.l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := fs.OpenFiles(); n != 0 {
		t.Errorf("%d files are open", n)
	}
	// The newest snapshot is damaged: the older one and the frames behind it have everything.
	newest := s.l.Snapshots()[0]
	if err := fs.Flip(filepath.Join(dir, fileName(newest.ID, suffixSnapshot)), snapshotHeaderSize+9, 1); err != nil {
		t.Fatal(err)
	}
	l, err := Open(fs, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	list := l.Snapshots()
	in, err := l.OpenSnapshot(list[0])
	if err != nil {
		t.Fatal(err)
	}
	var damage *DamageError
	if _, err := io.ReadAll(in); !errors.As(err, &damage) {
		t.Errorf("damaged snapshot: got %v", err)
	}
	_ = in.Close()
	l.snapshots.list = list[1:]
	if st, err := load(l); err != nil || st.n != s.appended {
		t.Errorf("got %d frames of %d, %v", st.n, s.appended, err)
	}
	_ = l.Close()
}

// A failed snapshot leaves nothing behind and does not stop the log.
func TestFailedSnapshot(t *testing.T) {
	t.Parallel()
	fs := faultfs.New()
	s := begin(t, fs, Options{Sync: Always})
	for _, kind := range []faultfs.Kind{faultfs.Create, faultfs.Write, faultfs.Sync, faultfs.Rename} {
		if err := s.send(false); err != nil {
			t.Fatal(err)
		}
		fs.Before = func(op faultfs.Op) *faultfs.Fault {
			if op.Kind == kind && filepath.Ext(op.Name) != suffixLog {
				return &faultfs.Fault{Err: faultfs.ErrIO}
			}
			return nil
		}
		if err := s.snapshot(); !errors.Is(err, faultfs.ErrIO) {
			t.Errorf("%s fails: got %v", kind, err)
		}
		fs.Before = nil
	}
	if _, err := s.l.WriteSnapshot(t.Context(), 0, func(io.Writer) error { return io.ErrNoProgress }); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("write fails: got %v", err)
	}
	if names, _ := fs.ReadDir(dir); len(names) != 1 {
		t.Errorf("got %q", names)
	}
	if err := s.snapshot(); err != nil {
		t.Error(err)
	}
	if err := s.l.Close(); err != nil {
		t.Error(err)
	}
}

// A failed large body concerns its message alone.
func TestFailedLargeBody(t *testing.T) {
	t.Parallel()
	fs := faultfs.New()
	s := begin(t, fs, Options{Sync: Always})
	for _, kind := range []faultfs.Kind{faultfs.Create, faultfs.Write, faultfs.Truncate, faultfs.Sync, faultfs.SyncDir} {
		fs.Before = func(op faultfs.Op) *faultfs.Fault {
			if op.Kind == kind {
				return &faultfs.Fault{Err: faultfs.ErrIO}
			}
			return nil
		}
		if err := s.send(true); !errors.Is(err, faultfs.ErrIO) {
			t.Errorf("%s fails: got %v", kind, err)
		}
		fs.Before = nil
	}
	if names, _ := fs.ReadDir(dir); len(names) != 0 {
		t.Errorf("got %q", names)
	}
	if err := s.send(true); err != nil {
		t.Error(err)
	}
	if err := s.l.Close(); err != nil {
		t.Error(err)
	}
}

// A directory of hard links is a log of its own: what either does later does not concern the other.
func TestHardLinks(t *testing.T) {
	t.Parallel()
	where, backup := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "backup")
	o := Options{Sync: Always, SegmentSize: 4 << 10}
	l := open(t, where, o)
	s := &story{t: t, l: l}
	send := func(n int) {
		t.Helper()
		for i := range n {
			if err := s.send(i == 3); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(20)
	if err := s.snapshot(); err != nil {
		t.Fatal(err)
	}
	send(20)
	if err := l.HardLinkTo(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	send(5)
	for _, n := range []int{40, 45} {
		c := open(t, backup, o)
		st, err := load(c)
		if err == nil {
			err = st.check(c)
		}
		if err != nil || st.n != n {
			t.Fatalf("backup: got %d frames, want %d, %v", st.n, n, err)
		}
		b := &story{t: t, l: c, appended: st.n}
		for range 5 {
			if err := b.send(false); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, where, o)
	if st, err := load(l); err != nil || st.n != 45 {
		t.Errorf("original: got %d frames, %v", st.n, err)
	}
	if x, err := Inspect(fsys.OS{}, where, true); err != nil || x.Damaged() {
		t.Errorf("%+v, %v", x, err)
	}
	if err := l.HardLinkTo(t.Context(), backup); !errors.Is(err, os.ErrExist) {
		t.Errorf("into a directory that has a log: got %v", err)
	}
}

// Inspect tells what is damaged from what is torn.
func TestInspect(t *testing.T) {
	t.Parallel()
	fs := faultfs.New()
	s := begin(t, fs, Options{Sync: Always, SegmentSize: 4 << 10})
	for i := range 40 {
		if err := s.send(i == 5); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.snapshot(); err != nil {
		t.Fatal(err)
	}
	if err := s.send(false); err != nil {
		t.Fatal(err)
	}
	x, err := Inspect(fs, dir, true)
	if err != nil || x.Damaged() || x.Closed || len(x.Snapshots) != 1 {
		t.Fatalf("open log: %+v, %v", x, err)
	}
	frames, bodies := 0, 0
	for _, r := range x.Segments {
		frames += r.Frames
		if r.Sealed && !r.Body {
			frames-- // the seal
		}
		if r.Body {
			bodies++
		}
		if r.Torn != "" {
			t.Errorf("%+v", r)
		}
	}
	if frames != 41 || bodies != 1 {
		t.Errorf("got %d frames and %d bodies", frames, bodies)
	}
	for _, c := range []struct {
		file    string
		off     int
		damaged bool
	}{
		{x.Segments[0].File, 200, true},
		{x.Segments[0].File, 20, true},
		{x.Segments[len(x.Segments)-1].File, int(x.Segments[len(x.Segments)-1].End) - 30, false},
		{x.Snapshots[0].File, 3, true},
		{x.Snapshots[0].File, snapshotHeaderSize + 8, true},
	} {
		damaged := fs.Restart()
		if err := damaged.Flip(c.file, c.off, 8); err != nil {
			t.Fatal(err)
		}
		x, err := Inspect(damaged, dir, true)
		if err != nil || x.Damaged() != c.damaged {
			t.Errorf("%s:%d: %v, %+v", c.file, c.off, err, x)
		}
	}
	if err := s.l.Close(); err != nil {
		t.Fatal(err)
	}
	if x, err := Inspect(fs, dir, false); err != nil || !x.Closed {
		t.Errorf("closed log: %+v, %v", x, err)
	}
	if _, err := Inspect(fs, "/nowhere", true); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// Records that are not yet written, were written not long ago, and are in files only, are read
// alike.
func TestReadFromEverywhere(t *testing.T) {
	t.Parallel()
	fs := faultfs.New()
	hold := make(chan struct{})
	writes := 0
	fs.Before = func(op faultfs.Op) *faultfs.Fault {
		if op.Kind == faultfs.Write {
			if writes++; writes == 100 {
				<-hold
			}
		}
		return nil
	}
	l, err := Open(fs, dir, Options{Sync: Never, SegmentSize: 64 << 10, Recent: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	var refs []Ref
	for i := range 400 {
		recs := []Record{NewRecord(fmt.Append(nil, i), bytes.Repeat([]byte{byte(i)}, 100)), NewRecord(nil, nil), NewRecord(fmt.Append(nil, -i), nil)}
		_, end := l.Append(nil, recs)
		if i < 90 {
			if err := l.Wait(t.Context(), end); err != nil {
				t.Fatal(err)
			}
		}
		refs = append(refs, recs[0].Ref, recs[2].Ref)
	}
	for i, ref := range refs {
		want := fmt.Sprint(i / 2)
		if i%2 == 1 {
			want = fmt.Sprint(-i / 2)
		}
		if head, _, err := l.Read(ref); err != nil || string(head) != want {
			t.Errorf("record %d: got %q, %v", i, head, err)
		}
	}
	close(hold)
	wrong := refs[0]
	wrong.Length++
	var damage *DamageError
	if _, _, err := l.Read(wrong); !errors.As(err, &damage) {
		t.Errorf("wrong length: got %v", err)
	}
	wrong.Position += 8
	if _, _, err := l.Read(wrong); !errors.As(err, &damage) {
		t.Errorf("wrong place: got %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
