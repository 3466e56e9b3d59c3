package file

import (
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// plainKinds are those of which a backlog is to take little memory.
var plainKinds = []string{"plain", "with properties", "expiring", "in transfer"}

// taken is what so many messages of a kind take in memory where the log alone has their contents, and
// what of it the collector looks at, in bytes for each; again after they were read from the log.
func taken(t testing.TB, kind storetest.Kind, n, size int) (heap, scanned, reopened, rescanned float64) {
	t.Helper()
	clock := storetest.NewClock()
	o := Options{Clock: clock.Now, Sync: SyncNever, Memory: -1, recent: 1}
	dir := t.TempDir()
	heapBefore, scanBefore := heapInUse(), scannedHeap()
	each := func() (float64, float64) {
		return (float64(heapInUse()) - float64(heapBefore)) / float64(n), (float64(scannedHeap()) - float64(scanBefore)) / float64(n)
	}
	measure := func(fill func(*Store)) (heap, scanned float64) {
		s, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		fill(s)
		heap, scanned = each()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return heap, scanned
	}
	heap, scanned = measure(func(s *Store) { storetest.NewStock(t, s, clock, kind).Fill(n, size) })
	reopened, rescanned = measure(func(*Store) {})
	return heap, scanned, reopened, rescanned
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func scannedHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/scan/heap:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// It does not run beside other tests, whose memory it would count.
func TestABacklogTakesLittleMemory(t *testing.T) {
	for _, kind := range storetest.Kinds() {
		if !slices.Contains(plainKinds, kind.Name) {
			continue
		}
		heap, scanned, reopened, rescanned := taken(t, kind, 50_000, 100)
		t.Logf("%s: %.0f B each, scanned %.0f; opened again: %.0f B, scanned %.0f", kind.Name, heap, scanned, reopened, rescanned)
		if heap > 64 || reopened > 64 {
			t.Errorf("%s: a message takes %.0f B, and %.0f B when the store was opened again, want 64 B at most", kind.Name, heap, reopened)
		}
		if scanned > 16 || rescanned > 16 {
			t.Errorf("%s: the collector looks at %.0f B of each message, and at %.0f B when the store was opened again", kind.Name, scanned, rescanned)
		}
	}
}

// The contents of a message are not in memory, whatever its state is. It does not run beside other
// tests either.
func TestNoStateKeepsContentsInMemory(t *testing.T) {
	for _, kind := range storetest.Kinds() {
		if kind.Name == "states of sessions" {
			continue // they are in memory
		}
		heap, _, reopened, _ := taken(t, kind, 1000, 8<<10)
		if heap > 1<<10 || reopened > 1<<10 {
			t.Errorf("%s: a message of 8 KiB takes %.0f B of memory, and %.0f B when the store was opened again", kind.Name, heap, reopened)
		}
	}
}

// BenchmarkIndex reports what messages of all kinds take in memory where the log alone has their
// contents.
func BenchmarkIndex(b *testing.B) {
	for _, kind := range storetest.Kinds() {
		b.Run(kind.Name, func(b *testing.B) {
			var heap, scanned, reopened float64
			for b.Loop() {
				heap, scanned, reopened, _ = taken(b, kind, 20*kind.ManyOf(100), 100)
			}
			b.ReportMetric(heap, "heap-B/message")
			b.ReportMetric(scanned, "scanned-B/message")
			b.ReportMetric(reopened, "reopened-B/message")
		})
	}
}

// What is remembered counts against its budget after a restart too, from a snapshot and from the log.
func TestRememberedIDsCountAfterARestart(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	o := Options{Clock: clock.Now, Sync: SyncNever, Remember: 10_000}
	dir := t.TempDir()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	p := newQueue(t, s)
	p.DuplicateWindow = time.Minute
	sent := 0
	send := func() error {
		sent++
		return p.In(s).Append(t.Context(), [][]*core.Message{{{MessageID: core.StringID(strconv.Itoa(sent))}}})[0].Err
	}
	for err = send(); err == nil && sent < 1000; err = send() {
	}
	for _, how := range []string{"at first", "from the log", "from a snapshot"} {
		if core.CodeOf(err) != core.Busy {
			t.Errorf("%s: id %d: got %v, want busy", how, sent, err)
		}
		if how == "at first" {
			s.abandon()
		} else if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(dir, o); err != nil {
			t.Fatal(err)
		}
		err = send()
	}
	clock.Advance(time.Minute)
	if err := send(); err != nil {
		t.Errorf("when the window is over: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
