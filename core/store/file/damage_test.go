package file

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys/faultfs"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/wal"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// flipped changes a bit of the file that has a text, in the middle of that; back changes it back.
func flipped(t *testing.T, fs *faultfs.FS, text string) (back func()) {
	t.Helper()
	names, err := fs.ReadDir(crashDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := filepath.Join(crashDir, name)
		f, err := fs.Open(path, os.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		size, err := f.Size()
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, size)
		if _, err := f.ReadAt(b, 0); err != nil && size > 0 {
			t.Fatal(err)
		}
		if i := strings.Index(string(b), text); i >= 0 {
			flip := func() {
				if err := fs.Flip(path, i+len(text)/2, 4); err != nil {
					t.Fatal(err)
				}
			}
			flip()
			return flip
		}
	}
	t.Fatalf("no file has %q", text)
	return nil
}

// cold is a store on a file system whose messages are read from the disk, as after a restart.
func cold(t *testing.T, clock *storetest.Clock, fill func(s *Store, p core.Partition)) (*faultfs.FS, Options, core.Partition) {
	t.Helper()
	fs := faultfs.New()
	o := Options{Clock: clock.Now, Sync: SyncAlways, fs: fs, Memory: -1, recent: 1, compact: -1}
	s, err := Open(crashDir, o)
	if err != nil {
		t.Fatal(err)
	}
	p := newQueue(t, s)
	fill(s, p)
	if err := s.Close(); err != nil { // what is synced is not read when the store opens
		t.Fatal(err)
	}
	return fs, o, p
}

func body(i int) string { return fmt.Sprintf("the body of message %03d", i) }

func TestADamagedMessageIsPutAsideAndTheOthersAreDelivered(t *testing.T) {
	t.Parallel()
	for _, sessions := range []bool{false, true} {
		clock := storetest.NewClock()
		fs, o, p := cold(t, clock, func(s *Store, p core.Partition) {
			for i := range 100 {
				m := message(body(i))
				m.SessionID = "x"
				p.Sessions = sessions
				if a := p.In(s).Append(t.Context(), [][]*core.Message{{m}}); a[0].Err != nil {
					t.Fatal(a[0].Err)
				}
			}
		})
		p.Sessions = sessions
		flipped(t, fs, body(37))
		s := mustOpen(t, crashDir, o)
		rung := make(chan struct{}, 100)
		defer p.In(s).Watch(core.WakeFunc(func(core.SessionKey) { rung <- struct{}{} }))()
		lock := func(limit int) ([]core.Delivery, error) {
			ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: limit}})
			return ds, err
		}
		if sessions {
			l, _, _, err := p.In(s).AcceptSession(t.Context(), core.SessionRequest{ID: "x"})
			if err != nil {
				t.Fatal(err)
			}
			lock = func(limit int) ([]core.Delivery, error) {
				ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: limit}, Session: &l})
				return ds, err
			}
		}
		var got []string
		for range 15 {
			ds, err := lock(10)
			if err != nil {
				t.Fatalf("sessions %t: lock: %v", sessions, err)
			}
			for _, d := range ds {
				if d.DeliveryCount != 0 {
					t.Errorf("%s has %d failed deliveries, want 0", d.Body.Bytes, d.DeliveryCount)
				}
				got = append(got, string(d.Body.Bytes))
			}
		}
		if len(got) != 99 || slices.Contains(got, body(37)) {
			t.Errorf("sessions %t: received %d messages, want 99: all but one", sessions, len(got))
		}
		if len(rung) == 0 {
			t.Error("a receiver that got fewer than it asked for is not told to look again")
		}
		if stats, err := storetest.Stats(t.Context(), s, p); err != nil || stats.Damaged != 1 || stats.Locked != 99 {
			t.Errorf("stats: got %+v, %v; want 1 damaged and 99 locked", stats, err)
		}
		if got := bodies(t, s, p); len(got) != 99 {
			t.Errorf("peeked %d messages, want 99", len(got))
		}
		damaged, err := p.In(s).PeekDamaged(t.Context(), 0, 9)
		if err != nil || len(damaged) != 1 || damaged[0].SequenceNumber != 38 || !strings.Contains(damaged[0].Reason, "/00000001.log is damaged from byte") || (damaged[0].SessionID == "x") != sessions {
			t.Errorf("sessions %t: damaged: got %+v, %v", sessions, damaged, err)
		}
		for _, none := range []struct {
			from  int64
			limit int
		}{{39, 9}, {0, 0}} {
			if damaged, err := p.In(s).PeekDamaged(t.Context(), none.from, none.limit); err != nil || len(damaged) > 0 {
				t.Errorf("damaged from %d, at most %d: got %+v, %v", none.from, none.limit, damaged, err)
			}
		}
		if about := s.About(t.Context()); !slices.ContainsFunc(about.Warnings, func(w string) bool {
			return strings.Contains(w, "1 message is damaged") && strings.Contains(w, "--repair")
		}) {
			t.Errorf("the store warns of %q, want the damaged message", about.Warnings)
		}
		clock.Advance(time.Hour)
		s.abandon()
		again := mustOpen(t, crashDir, o) // the state was kept
		if stats, err := storetest.Stats(t.Context(), again, p); err != nil || stats.Damaged != 1 || stats.Ready != 99 {
			t.Errorf("stats after a restart: got %+v, %v", stats, err)
		}
	}
}

func TestPeekingFindsADamagedMessageAndShowsTheOthers(t *testing.T) {
	t.Parallel()
	fs, o, p := cold(t, storetest.NewClock(), func(s *Store, p core.Partition) { send(t, s, p, body(1), body(2), body(3)) })
	flipped(t, fs, body(2))
	s := mustOpen(t, crashDir, o)
	for range 2 {
		if got, want := bodies(t, s, p), []string{body(1), body(3)}; !slices.Equal(got, want) {
			t.Errorf("peeked %q, want %q", got, want)
		}
	}
	if stats, err := storetest.Stats(t.Context(), s, p); err != nil || stats.Damaged != 1 {
		t.Errorf("stats: got %+v, %v", stats, err)
	}
}

// An error of the disk says nothing of the message: the call fails, and its locks end uncounted.
func TestALockCallThatFailsGivesItsMessagesBackUncounted(t *testing.T) {
	t.Parallel()
	fs, o, p := cold(t, storetest.NewClock(), func(s *Store, p core.Partition) { send(t, s, p, body(1), body(2), body(3)) })
	var failing atomic.Bool
	fs.Before = func(op faultfs.Op) *faultfs.Fault {
		if failing.Load() && op.Kind == faultfs.Read {
			return &faultfs.Fault{Err: faultfs.ErrIO}
		}
		return nil
	}
	s := mustOpen(t, crashDir, o)
	p.MaxDeliveryCount = 1
	for range 3 {
		failing.Store(true)
		if ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 2}}); err == nil {
			t.Errorf("locked %d messages, want the error of the disk", len(ds))
		}
		failing.Store(false)
		if stats, err := storetest.Stats(t.Context(), s, p); err != nil || stats.Ready != 3 || stats.Damaged != 0 {
			t.Errorf("after the failure: got %+v, %v; want 3 available", stats, err)
		}
	}
	ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 9}})
	if err != nil || len(ds) != 3 {
		t.Fatalf("lock: %d, %v", len(ds), err)
	}
	for i, d := range ds {
		if string(d.Body.Bytes) != body(i+1) || d.DeliveryCount != 0 {
			t.Errorf("got %s with %d failed deliveries", d.Body.Bytes, d.DeliveryCount)
		}
	}
}

func TestAStoreOpensWithADamagedScheduledMessage(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	fs, o, p := cold(t, clock, func(s *Store, p core.Partition) {
		for i := range 3 {
			m := message(body(i))
			m.ScheduledEnqueueTime, m.TimeToLive = clock.Now().Add(time.Minute), time.Hour
			if a := p.In(s).Append(t.Context(), [][]*core.Message{{m}}); a[0].Err != nil {
				t.Fatal(a[0].Err)
			}
		}
	})
	flipped(t, fs, body(1))
	for range 2 {
		s, err := Open(crashDir, o)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		if stats, err := storetest.Stats(t.Context(), s, p); err != nil || stats.Damaged != 1 || stats.Scheduled != 2 {
			t.Errorf("stats: got %+v, %v; want 1 damaged and 2 scheduled", stats, err)
		}
		s.abandon()
	}
	clock.Advance(time.Minute)
	s := mustOpen(t, crashDir, o)
	if got, want := bodies(t, s, p), []string{body(0), body(2)}; !slices.Equal(got, want) {
		t.Errorf("due: got %q, want %q", got, want)
	}
}

// A deferred message that is damaged is not found, and the others that were asked for stay deferred.
func TestDamagedDeferredMessagesAreNotFound(t *testing.T) {
	t.Parallel()
	var numbers []int64
	fs, o, p := cold(t, storetest.NewClock(), func(s *Store, p core.Partition) {
		send(t, s, p, body(1), body(2))
		ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 2}})
		if err != nil || len(ds) != 2 {
			t.Fatalf("lock: %d, %v", len(ds), err)
		}
		for _, d := range ds {
			numbers = append(numbers, d.SequenceNumber)
			if err := p.In(s).Settle(t.Context(), []core.Settlement{{Token: d.LockToken, Outcome: core.Defer}})[0]; err != nil {
				t.Fatal(err)
			}
		}
	})
	flipped(t, fs, body(1))
	s := mustOpen(t, crashDir, o)
	if _, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Numbers: numbers, Deferred: true}); core.CodeOf(err) != core.MessageNotFound {
		t.Errorf("lock deferred: got %v, want %v", err, core.MessageNotFound)
	}
	if ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Numbers: numbers[1:], Deferred: true}); err != nil || string(ds[0].Body.Bytes) != body(2) || ds[0].DeliveryCount != 1 {
		t.Errorf("lock the sound one: got %+v, %v", ds, err)
	}
}

// Repair reads every message and removes those that are damaged, whether or not they were found before.
func TestRepairRemovesDamagedMessages(t *testing.T) {
	t.Parallel()
	fs, o, p := cold(t, storetest.NewClock(), func(s *Store, p core.Partition) {
		send(t, s, p, body(1), body(2), body(3), strings.Repeat("large body", 150_000))
	})
	flipped(t, fs, body(2))
	flipped(t, fs, "large bodylarge body")
	o.Repair = true
	s, err := Open(crashDir, o)
	if err != nil {
		t.Fatal(err)
	}
	if stats, err := storetest.Stats(t.Context(), s, p); err != nil || stats.Ready != 2 || stats.Damaged != 0 {
		t.Errorf("stats: got %+v, %v; want 2 available", stats, err)
	}
	s.abandon()
	o.Repair = false
	again := mustOpen(t, crashDir, o)
	if got, want := bodies(t, again, p), []string{body(1), body(3)}; !slices.Equal(got, want) {
		t.Errorf("after the repair: got %q, want %q", got, want)
	}
}

// What was put aside and can be read again, because its file is as it was, is delivered after a repair.
func TestRepairDeliversWhatCanBeReadAgain(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"plain", "session", "scheduled"} {
		clock := storetest.NewClock()
		fs, o, p := cold(t, clock, func(s *Store, p core.Partition) {
			for i := range 3 {
				m := message(body(i))
				switch kind {
				case "session":
					m.SessionID, p.Sessions = "x", true
				case "scheduled":
					m.ScheduledEnqueueTime = clock.Now().Add(time.Minute)
				}
				if a := p.In(s).Append(t.Context(), [][]*core.Message{{m}}); a[0].Err != nil {
					t.Fatal(a[0].Err)
				}
			}
		})
		p.Sessions = kind == "session"
		back := flipped(t, fs, body(1))
		s, err := Open(crashDir, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := bodies(t, s, p); len(got) != 2 {
			t.Errorf("%s: peeked %q, want all but one", kind, got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		back()
		o.Repair = true
		s, err = Open(crashDir, o)
		if err != nil {
			t.Fatal(err)
		}
		stats, err := storetest.Stats(t.Context(), s, p)
		if err != nil || stats.Damaged != 0 || stats.Scheduled != map[bool]int64{true: 3}[kind == "scheduled"] {
			t.Errorf("%s: after the repair: %+v, %v", kind, stats, err)
		}
		s.abandon()
		o.Repair = false
		clock.Advance(time.Minute)
		again := mustOpen(t, crashDir, o)
		var got []string
		if p.Sessions {
			l, _, _, err := p.In(again).AcceptSession(t.Context(), core.SessionRequest{ID: "x"})
			if err != nil {
				t.Fatal(err)
			}
			ds, _, err := p.In(again).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 9}, Session: &l})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range ds {
				got = append(got, string(d.Body.Bytes))
			}
		} else {
			ds, _, err := p.In(again).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 9}})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range ds {
				got = append(got, string(d.Body.Bytes))
			}
		}
		slices.Sort(got)
		if want := []string{body(0), body(1), body(2)}; !slices.Equal(got, want) {
			t.Errorf("%s: received %q, want %q", kind, got, want)
		}
	}
}

// The body of another message, of the same length, is not delivered.
func TestSwappedBodyFileIsDamage(t *testing.T) {
	t.Parallel()
	fs, o, p := cold(t, storetest.NewClock(), func(s *Store, p core.Partition) {
		send(t, s, p, strings.Repeat("first body", 150_000), strings.Repeat("other body", 150_000), "small")
	})
	names, err := fs.ReadDir(crashDir)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, name := range names {
		if strings.HasSuffix(name, ".body") {
			files = append(files, filepath.Join(crashDir, name))
		}
	}
	if len(files) != 2 {
		t.Fatalf("large bodies are in %q", files)
	}
	if err := fs.Rename(files[1], files[0]); err != nil { // one is another's, one is missing
		t.Fatal(err)
	}
	s := mustOpen(t, crashDir, o)
	if got := bodies(t, s, p); !slices.Equal(got, []string{"small"}) {
		t.Errorf("peeked %d messages, want only the small one", len(got))
	}
	if stats, err := storetest.Stats(t.Context(), s, p); err != nil || stats.Damaged != 2 {
		t.Errorf("stats: got %+v, %v; want 2 damaged", stats, err)
	}
}

func TestVerifyFindsBodiesThatAreCutMissingOrSwapped(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, first, second string) error{
		"sound":   func(*testing.T, string, string) error { return nil },
		"cut":     func(_ *testing.T, first, _ string) error { return os.Truncate(first, 1<<20) },
		"emptied": func(_ *testing.T, first, _ string) error { return os.Truncate(first, 0) },
		"missing": func(_ *testing.T, first, _ string) error { return os.Remove(first) },
		"swapped": func(t *testing.T, first, second string) error {
			other := filepath.Join(t.TempDir(), "other")
			return errors.Join(os.Rename(first, other), os.Rename(second, first), os.Rename(other, second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := mustOpen(t, dir, Options{Sync: SyncNever})
			p := newQueue(t, s)
			send(t, s, p, strings.Repeat("first body", 150_000), strings.Repeat("other body", 150_000), "small")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(dir, "*.body"))
			if err != nil || len(files) != 2 {
				t.Fatalf("large bodies are in %q, %v", files, err)
			}
			if err := damage(t, files[0], files[1]); err != nil {
				t.Fatal(err)
			}
			found, err := Inspect(dir, true)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := found.Damaged(), name != "sound"; got != want {
				t.Errorf("damaged: got %t, want %t: %+v", got, want, found.Segments)
			}
			if name != "sound" && !slices.ContainsFunc(found.Segments, func(s wal.SegmentReport) bool { return s.File == files[0] && len(s.Damage) > 0 }) {
				t.Errorf("no damage of %s: %+v", files[0], found.Segments)
			}
			if again, err := Inspect(dir, true); err != nil || again.Damaged() != found.Damaged() {
				t.Errorf("a second look: %v", err)
			}
		})
	}
}

// A repair that finds no room loses nothing: it is refused, or done again with room.
func TestARepairOnAFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want string // of the start without room; "": it starts
	}{{body(2), ""}, {"xtownlog", "is full: free some space"}} {
		fs, o, p := cold(t, storetest.NewClock(), func(s *Store, p core.Partition) { send(t, s, p, body(1), body(2), body(3)) })
		flipped(t, fs, c.text)
		o.Repair = true
		fs.SetCapacity(fs.Used())
		s, err := Open(crashDir, o)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Fatalf("repair without room: got %v, want %q", err, c.want)
		}
		if err == nil {
			if got, want := bodies(t, s, p), []string{body(1), body(3)}; !slices.Equal(got, want) {
				t.Errorf("without room: got %q, want %q", got, want)
			}
			s.abandon()
		}
		fs.SetCapacity(0)
		again := mustOpen(t, crashDir, o)
		if got, want := bodies(t, again, p), []string{body(1), body(2), body(3)}; c.want != "" && !slices.Equal(got, want) || c.want == "" && len(got) != 2 {
			t.Errorf("with room: got %q, want %q", got, want)
		}
	}
}

// A disk that is filling up is warned of before sends are refused, and with what refuses them afterwards.
func TestALowDiskIsWarnedOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New()
		s, err := Open(crashDir, Options{Sync: SyncAlways, fs: fs})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		_, keep := s.log.Space()
		for _, c := range []struct {
			left int64
			want string
		}{
			{keep + 2*lowSpace, ""},
			{keep + lowSpace/2, fmt.Sprintf("has %d MiB of free space. The gateway refuses messages when %d MiB are left: free some space", (keep+lowSpace/2)>>20, keep>>20)},
			{keep / 2, "free space"},
			{keep + 2*lowSpace, ""},
		} {
			fs.SetCapacity(fs.Used() + c.left)
			time.Sleep(time.Second) // an answer of the file system is used for a while
			warned := strings.Join(s.About(t.Context()).Warnings, "\n")
			if c.want == "" && warned != "" || !strings.Contains(warned, c.want) {
				t.Errorf("%d bytes left: got %q, want %q", c.left, warned, c.want)
			}
			if got := s.Usage().Free; got != c.left {
				t.Errorf("%d bytes left: the metric has %d", c.left, got)
			}
			if err := s.Probe(t.Context()); (err != nil) != (c.left < keep) {
				t.Errorf("%d bytes left: probe: %v", c.left, err)
			}
		}
	})
}

// Wherever a store is damaged, and at whichever operation of its repair the disk becomes full, the repair
// says so or goes on, and the next one with room keeps what one with room from the start keeps.
func TestARepairThatFindsTheDiskFullCanBeRunAgain(t *testing.T) {
	t.Parallel()
	damaged, _, p := cold(t, storetest.NewClock(), func(s *Store, p core.Partition) { send(t, s, p, body(1), body(2), body(3)) })
	log := filepath.Join(crashDir, "00000001.log")
	clock := storetest.NewClock()
	// repair opens the store with repair and a disk that is full from an operation on.
	repair := func(fs *faultfs.FS, from int64) (s *Store, operations int64, err error) {
		var begun atomic.Int64 // the log writes on after the repair
		fs.Before = func(op faultfs.Op) *faultfs.Fault {
			switch op.Kind {
			case faultfs.Create, faultfs.Mkdir, faultfs.Write, faultfs.Truncate, faultfs.Link, faultfs.Rename:
				if begun.Add(1) > from {
					return &faultfs.Fault{Err: faultfs.ErrFull}
				}
			}
			return nil
		}
		s, err = Open(crashDir, Options{Clock: clock.Now, Sync: SyncAlways, fs: fs, Memory: -1, recent: 1, compact: -1, Repair: true})
		return s, begun.Load(), err
	}
	refused := 0
	for off := int64(0); off < sizeOf(t, damaged, log); off += 11 {
		flip := func() *faultfs.FS {
			fs := damaged.Restart()
			if err := fs.Flip(log, int(off), 1); err != nil {
				t.Fatal(err)
			}
			return fs
		}
		s, operations, err := repair(flip(), math.MaxInt)
		if err != nil {
			t.Fatalf("byte %d: repair: %v", off, err)
		}
		want := bodies(t, s, p)
		s.abandon()
		for from := range operations {
			fs := flip()
			s, _, err := repair(fs, from)
			if err == nil {
				s.abandon()
			} else if refused++; !strings.Contains(err.Error(), "is full: free some space") {
				t.Errorf("byte %d, full at operation %d: %v", off, from, err)
			}
			again, _, err := repair(fs, math.MaxInt)
			if err != nil {
				t.Errorf("byte %d, full at operation %d: a second repair: %v", off, from, err)
				continue
			}
			if got := bodies(t, again, p); !slices.Equal(got, want) {
				t.Errorf("byte %d, full at operation %d: got %q, want %q", off, from, got, want)
			}
			again.abandon()
		}
	}
	if refused == 0 {
		t.Error("no repair found the disk full")
	}
	t.Logf("%d repairs found the disk full", refused)
}
