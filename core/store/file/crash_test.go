package file

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys/faultfs"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/journal"
	"github.com/crosstown-mq/crosstown/core/store/internal/state"
	"github.com/crosstown-mq/crosstown/core/storetest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

const crashDir = "/data"

// Disks in memory leave much garbage: with the limit of 2 GiB that make sets, these tests take all of it,
// and three times as much under the race detector. TestGigabytes has a limit of its own.
func init() {
	if os.Getenv("BACKLOG_GIB") == "" {
		debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), 700<<20))
	}
}

// snapshotOf is all that a store holds, its locks, ids, keys and histories included.
func snapshotOf(t testing.TB, s *state.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := writeSnapshot(&b, s); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	return b.Bytes()
}

// writeSnapshot writes a snapshot for nobody.
func writeSnapshot(w io.Writer, s *state.Store) error {
	return journal.Write(w, s, func() state.Position { return 0 }, func(state.Ref) {})
}

// itemsOf is snapshotOf in a form that is the same for the same state.
func itemsOf(t testing.TB, s *state.Store) (items []string) {
	t.Helper()
	for rest := snapshotOf(t, s); len(rest) > 0; {
		n, k := binary.Uvarint(rest)
		item := rest[k : k+int(n)]
		rest = rest[k+int(n):]
		_, k = binary.Uvarint(item[1:]) // the position
		item = item[1+k:]
		if item[0] == 0 { // the catalogue: the time
			_, k = binary.Varint(item[1:])
			item = item[1+k:]
		}
		items = append(items, string(item))
	}
	return items
}

// afterRestart is what a store has when it opens at an instant with what it held: what lives with
// links has ended.
func afterRestart(t testing.TB, held []byte, at time.Time, j *journal.Journal) []string {
	t.Helper()
	s := state.New(state.Options{Clock: func() time.Time { return at }, Journal: noJournal{j}})
	if err := journal.Load(s, io.NopCloser(bytes.NewReader(held))); err != nil {
		t.Fatalf("load: %v", err)
	}
	s.EndLinks()
	return itemsOf(t, s)
}

// noJournal keeps nothing of a copy of a store.
type noJournal struct{ state.Journal }

func (j noJournal) Begin() state.Call { return noCall{j.Journal.Begin()} }

type noCall struct{ state.Call }

func (noCall) Append() state.Position { return 0 }

// common is the number of items two states have in common, from the first on.
func common(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// difference is the first item that differs.
func difference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			at := 0
			for at < min(len(a[i]), len(b[i])) && a[i][at] == b[i][at] {
				at++
			}
			from := max(0, at-60)
			return fmt.Sprintf("item %d from byte %d on: %q\n%q", i, from, a[i][from:], b[i][from:])
		}
	}
	return fmt.Sprintf("%d and %d items", len(a), len(b))
}

// crasher is a store whose file system is crashed at many points; what a restart would find then must
// be what the store held when some call returned: none before the last that was acknowledged.
type crasher struct {
	*Store
	t     testing.TB
	dice  *rand.Rand
	every int // crash points are one in so many operations of the file system
	o     Options

	mu      sync.Mutex
	states  []moment // after each call, from the opening on
	pending []point
	points  int
	busy    bool // a crash point is being tried
	moving  bool // records are given other places: only the start after a crash is tried
}

// moment is what a store held when its log ended at a position.
type moment struct {
	end  uint64
	held []byte
}

// point is what a crash left.
type point struct {
	items []string
	from  int // the first state that it may be
	at    time.Time
	op    faultfs.Op
}

func (c *crasher) open(fs *faultfs.FS) {
	c.o.fs = fs
	s, err := Open(crashDir, c.o)
	if err != nil {
		c.t.Fatalf("open: %v", err)
	}
	// What the opening has ended is written: the next one would end it again, at another time.
	if err := s.log.Wait(context.Background(), s.log.End()); err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.Store, c.states, c.pending = s, nil, nil
	c.mu.Unlock()
	c.after()
	fs.Before = func(op faultfs.Op) *faultfs.Fault { c.crash(fs, op); return nil }
}

// after notes what the store holds, and judges the crash points of the call that has returned.
func (c *crasher) after() {
	now := moment{uint64(c.log.End()), snapshotOf(c.t, c.Store.Store)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states = append(c.states, now)
	for _, p := range c.pending {
		var wanted []string // by the state that comes closest
		for _, s := range c.states[p.from:] {
			if may := afterRestart(c.t, s.held, p.at, c.journal); wanted == nil || common(may, p.items) > common(wanted, p.items) {
				wanted = may
			}
		}
		if !slices.Equal(wanted, p.items) {
			c.t.Errorf("crash before %+v: the store holds what it did not hold at any moment since the last acknowledged call:\n%s", p.op, difference(p.items, wanted))
		}
	}
	c.pending = c.pending[:0]
	c.states = append(c.states[:0], c.states[c.firstAlive():]...)
}

// firstAlive is the state that is left by a crash that keeps no more than what is synced.
func (c *crasher) firstAlive() (first int) {
	synced := uint64(c.log.Synced())
	for i, s := range c.states {
		if s.end <= synced {
			first = i
		}
	}
	return first
}

// acknowledged is after for a call that acknowledges: unless it has refused all, what it did is synced.
func (c *crasher) acknowledged(errs ...error) {
	end, synced := c.log.End(), c.log.Synced()
	if synced < end && slices.Contains(errs, nil) {
		c.t.Errorf("a call was acknowledged with the log at %v, which is synced up to %v", end, synced)
	}
	c.after()
}

// crash tries what a loss of power would leave now.
func (c *crasher) crash(fs *faultfs.FS, op faultfs.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if op.Kind == faultfs.Read || c.busy || c.dice.IntN(c.every) > 0 {
		return
	}
	c.busy = true
	defer func() { c.busy = false }()
	from := c.firstAlive()
	crashed := fs.Crash(c.dice, []float64{0, 0.5, 1}[c.dice.IntN(3)])
	o := c.o
	at := o.Clock()
	o.Clock = func() time.Time { return at } // whatever the test beside this does
	o.fs, o.compact = crashed, -1            // it would give records other places
	s, err := Open(crashDir, o)
	if err != nil {
		c.t.Errorf("crash before %+v: open: %v", op, err)
		return
	}
	_ = s.Store.Close() // removals of namespaces have ended
	items := itemsOf(c.t, s.Store)
	if !c.moving {
		c.pending = append(c.pending, point{items, from, at, op})
	}
	c.points++
	if c.dice.IntN(8) == 0 { // once more, from the snapshot of an orderly end
		if err := s.Close(); err != nil {
			c.t.Errorf("close after a crash: %v", err)
		}
		again, err := Open(crashDir, o)
		if err != nil {
			c.t.Errorf("open again after a crash: %v", err)
			return
		}
		if second := itemsOf(c.t, again.Store); !slices.Equal(second, items) {
			c.t.Errorf("crash before %+v: the second start finds another state than the first:\n%s", op, difference(items, second))
		}
		s = again
	}
	s.abandon()
}

// abandon ends a store as a crash does: nothing more is written that a restart would find.
func (s *Store) abandon() {
	s.once.Do(func() {
		s.stop()
		s.tasks.Wait()
		_ = s.Store.Close()
		_ = s.log.Close()
	})
}

// restart crashes the store for good, keeping only what is synced.
func (c *crasher) restart() {
	if err := c.log.Wait(context.Background(), c.log.End()); err != nil {
		c.t.Fatal(err)
	}
	if c.dice.IntN(2) == 0 {
		c.mu.Lock()
		c.moving = c.o.compact >= 0
		c.mu.Unlock()
		if err := c.Snapshot(context.Background()); err != nil {
			c.t.Fatalf("snapshot: %v", err)
		}
		c.after()
		c.mu.Lock()
		c.moving = false
		c.mu.Unlock()
	}
	fs := c.o.fs.(*faultfs.FS)
	c.mu.Lock()
	crashed := fs.Crash(c.dice, 0)
	c.busy = true
	c.mu.Unlock()
	c.abandon()
	c.mu.Lock()
	c.busy = false
	c.mu.Unlock()
	c.open(crashed)
}

// seeds is the number of runs a test makes: CRASH_SEEDS, or a few, for the race detector makes them slow.
func seeds(few uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv("CRASH_SEEDS"), 10, 64); err == nil {
		return n
	}
	return few
}

// All that was acknowledged survives a loss of power at any moment of any call, and nothing is half
// there, whatever the calls are; and the store goes on as the model does.
func TestCrashAtAnyMoment(t *testing.T) {
	t.Parallel()
	const steps = 250
	var mu sync.Mutex
	points, begun := 0, time.Now()
	t.Cleanup(func() {
		t.Logf("%d crash points, %.0f a second", points, float64(points)/time.Since(begun).Seconds())
	})
	for seed := range seeds(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			clock := storetest.NewClock()
			c := &crasher{t: t, dice: rand.New(rand.NewPCG(seed, 1)), every: 4, o: Options{
				Clock: clock.Now, Sync: SyncAlways, Memory: int64(seed%2)*5000 - 1, segmentSize: 16 << 10, compact: []int64{-1, 30, 90}[seed%3],
			}}
			c.open(faultfs.New())
			model := state.New(state.Options{Clock: clock.Now})
			storetest.Differential(t, seed, steps, model, c, clock, func() {
				c.restart()
				model.EndLinks()
			})
			c.after()
			c.mu.Lock()
			c.busy = true
			c.mu.Unlock()
			if err := c.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			mu.Lock()
			points += c.points
			mu.Unlock()
		})
	}
}

// A sync that fails is final: nothing is acknowledged or delivered any more, and what was
// acknowledged before is there after a restart.
func TestAFailedSyncStopsTheStore(t *testing.T) {
	t.Parallel()
	fs := faultfs.New()
	var failing atomic.Bool
	fs.Before = func(op faultfs.Op) *faultfs.Fault {
		if failing.Load() && op.Kind == faultfs.Sync {
			return &faultfs.Fault{Err: faultfs.ErrIO}
		}
		return nil
	}
	clock := storetest.NewClock()
	o := Options{Clock: clock.Now, Sync: SyncAlways, fs: fs}
	s, err := Open(crashDir, o)
	if err != nil {
		t.Fatal(err)
	}
	p := newQueue(t, s)
	send(t, s, p, "kept")
	failing.Store(true)
	a := p.In(s).Append(t.Context(), [][]*core.Message{{message("lost")}})
	if a[0].Err == nil || core.CodeOf(a[0].Err) != core.Busy || core.IsNotDone(a[0].Err) {
		t.Errorf("append: got %v, want Busy, and that it is not known whether it was done", a[0].Err)
	}
	select {
	case <-s.Failed():
	case <-time.After(eventually.Bound):
		t.Fatal("the store goes on")
	}
	if ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 10}}); err == nil {
		t.Errorf("lock: got %d messages, want an error", len(ds))
	}
	if err := s.Probe(t.Context()); err == nil {
		t.Error("probe: got nil")
	}
	if a := p.In(s).Append(t.Context(), [][]*core.Message{{message("refused")}}); !core.IsNotDone(a[0].Err) {
		t.Errorf("append to a stopped store: got %v, want a refusal that is certain", a[0].Err)
	}
	if err := s.Close(); err == nil {
		t.Error("close: got nil")
	}
	failing.Store(false)
	o.fs = fs.Restart()
	again := mustOpen(t, crashDir, o)
	if got := bodies(t, again, p); got[0] != "kept" {
		t.Errorf("after a restart: got %q", got)
	}
}

// On a full disk sends are refused for sure, and receiving and settling go on; when there is room,
// sends are taken again.
func TestAFullDiskRefusesSendsOnly(t *testing.T) {
	t.Parallel()
	fs := faultfs.New()
	clock := storetest.NewClock()
	s := mustOpen(t, crashDir, Options{Clock: clock.Now, Sync: SyncAlways, fs: fs})
	p := newQueue(t, s)
	fs.SetCapacity(fs.Used() + 80<<20)
	sent := 0
	var refused error
	for refused == nil {
		a := p.In(s).Append(t.Context(), [][]*core.Message{{{Body: core.Body{Bytes: make([]byte, 1<<19)}}}})
		if refused = a[0].Err; refused == nil {
			sent++
		}
		if sent > 1000 {
			t.Fatal("the disk is never full")
		}
		time.Sleep(time.Millisecond) // the free space is asked for each 100 ms: 160 messages would fill the disk before
	}
	if core.CodeOf(refused) != core.Busy || !core.IsNotDone(refused) || core.TextOf(refused) == "" {
		t.Fatalf("append: got %v, want Busy for sure, with a text", refused)
	}
	for range sent {
		ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 1}})
		if err != nil || len(ds) != 1 {
			t.Fatalf("lock: %d, %v", len(ds), err)
		}
		if err := p.In(s).Settle(t.Context(), []core.Settlement{{Token: ds[0].LockToken}})[0]; err != nil {
			t.Fatalf("settle: %v", err)
		}
	}
	fs.SetCapacity(0)
	eventually.True(t, "a message is taken when there is room again", func() bool {
		return p.In(s).Append(t.Context(), [][]*core.Message{{message("again")}})[0].Err == nil
	})
}

func newQueue(t testing.TB, s core.Store) core.Partition {
	t.Helper()
	e := core.Entity{Namespace: "ns", Name: "q", ID: "q", Partitions: 1, Settings: core.DefaultSettings(core.Queue)}
	if _, err := s.CreateEntity(t.Context(), e, core.NamespaceQuotas{}); err != nil {
		t.Fatal(err)
	}
	return core.Partition{Ref: core.Ref{Entity: "q"}, Policy: core.Policy{LockDuration: time.Minute, MaxDeliveryCount: 10}}.In(s)
}

func message(body string) *core.Message {
	return &core.Message{Body: core.Body{Bytes: []byte(body)}}
}

func send(t testing.TB, s core.Store, p core.Partition, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if a := p.In(s).Append(t.Context(), [][]*core.Message{{message(text)}}); a[0].Err != nil {
			t.Fatalf("append: %v", a[0].Err)
		}
	}
}

func bodies(t testing.TB, s core.Store, p core.Partition) (texts []string) {
	t.Helper()
	ds, err := p.In(s).Peek(t.Context(), core.PeekRequest{Max: 1000})
	if err != nil {
		t.Fatalf("peek: %v", err)
	}
	for _, d := range ds {
		texts = append(texts, string(d.Body.Bytes))
	}
	return texts
}
