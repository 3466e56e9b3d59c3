//go:build linux

package file

import (
	"encoding/binary"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// gigabytes are the backlogs at which TestGigabytes measures.
var gigabytes = []int64{0, 1, 10}

// TestGigabytes fills a queue with messages of BACKLOG_BODY bytes, up to BACKLOG_GIB GiB of bodies.
// On the way it reports how fast messages are sent and received, and what memory that takes; then it
// opens the store again, and receives all messages in order. With a GOMEMLIMIT the process's own
// memory must stay within it:
//
//	BACKLOG_GIB=10 BACKLOG_BODY=1024 GOMEMLIMIT=1GiB go test -run TestGigabytes -v -timeout 1h ./core/store/file
func TestGigabytes(t *testing.T) {
	most, err := strconv.ParseInt(os.Getenv("BACKLOG_GIB"), 10, 64)
	if err != nil {
		t.Skip("BACKLOG_GIB is not set")
	}
	body, err := strconv.Atoi(os.Getenv("BACKLOG_BODY"))
	if err != nil {
		t.Fatalf("BACKLOG_BODY: %v", err)
	}
	limit := debug.SetMemoryLimit(-1)
	watched := watchMemory(t)
	dir := t.TempDir()
	o := Options{Memory: min(limit/8, 256<<20)} // as the gateway has it
	q := &long{TB: t, body: body, batch: max(1, min(32, 256<<10/body))}
	if q.s, err = Open(dir, o); err != nil {
		t.Fatal(err)
	}
	q.p = newQueue(t, q.s)
	for _, gib := range gigabytes {
		if gib > most {
			break
		}
		begun, sent := time.Now(), q.sent
		for (q.sent-q.received)*int64(body) < gib<<30 {
			q.send()
		}
		if q.sent > sent {
			t.Logf("filled with %d messages, %.0f/s", q.sent-sent, float64(q.sent-sent)/time.Since(begun).Seconds())
		}
		few := int64(256<<20) / int64(body)
		sending := q.rate(few, q.send)
		receiving := q.rate(few, q.receive)
		t.Logf("%2d GiB, %9d messages: sends %.0f/s, receives and completes %.0f/s, longest call %v; own memory %d MiB, at most %d MiB",
			gib, q.sent-q.received, sending, receiving, q.longest, ownMemory(t)>>20, watched.Load()>>20)
		q.longest = 0
	}
	begun := time.Now()
	if err := q.s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("closed in %v", time.Since(begun))
	q.s = nil // two stores do not fit
	debug.FreeOSMemory()
	begun = time.Now()
	if q.s, err = Open(dir, o); err != nil {
		t.Fatal(err)
	}
	t.Logf("opened in %v", time.Since(begun))
	left := q.sent - q.received
	t.Logf("%d messages received, %.0f/s, longest call %v", left, q.rate(left, q.receive), q.longest)
	if err := q.s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("own memory: at most %d MiB", watched.Load()>>20)
	if taken := watched.Load(); taken > limit {
		t.Errorf("the process took %d MiB of its own, and GOMEMLIMIT is %d MiB", taken>>20, limit>>20)
	}
}

// TestSteadyState sends and receives 2,000 messages of 1 KiB a second for STEADY, and leaves one of 500
// deferred. Each minute it reports what the store takes on the disk and in memory:
//
//	STEADY=30m go test -run TestSteadyState -v -timeout 1h ./core/store/file
//
// The disk must not take more than twice what is left, and a few segments.
func TestSteadyState(t *testing.T) {
	lasting, err := time.ParseDuration(os.Getenv("STEADY"))
	if err != nil {
		t.Skip("STEADY is not set")
	}
	const batch, deferOne = 20, 500
	s := mustOpen(t, t.TempDir(), Options{})
	q := &long{TB: t, s: s, p: newQueue(t, s), body: 1 << 10, batch: batch}
	begun, processor := time.Now(), processorTime()
	report := func() {
		u := s.Usage()
		t.Logf("%4.0f min: %8d messages, %d left; %d MiB in %d segments on the disk, own memory %d MiB, %.1f µs of processor a message",
			time.Since(begun).Minutes(), q.sent, q.left, u.Bytes>>20, u.Segments, ownMemory(t)>>20,
			float64((processorTime()-processor).Microseconds())/float64(max(q.sent, 1)))
		if most := 2*q.left*int64(q.body) + 10<<26; u.Bytes > most {
			t.Errorf("the store takes %d MiB on the disk for %d messages, want %d at most", u.Bytes>>20, q.left, most>>20)
		}
	}
	each := time.NewTicker(batch * time.Second / 2000)
	defer each.Stop()
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for time.Since(begun) < lasting {
		select {
		case <-minute.C:
			report()
		case <-each.C:
			q.send()
			q.receiveBut(deferOne)
		}
	}
	report()
}

// long is a queue whose messages are numbered.
type long struct {
	testing.TB
	s              *Store
	p              core.Partition
	body, batch    int
	sent, received int64
	left           int64         // deferred
	longest        time.Duration // of the calls
}

// rate does something until so many messages have come or gone, and returns how many that were a
// second.
func (q *long) rate(n int64, do func()) float64 {
	begun, before := time.Now(), q.sent+q.received
	for q.sent+q.received < before+n {
		at := time.Now()
		do()
		q.longest = max(q.longest, time.Since(at))
	}
	return float64(q.sent+q.received-before) / time.Since(begun).Seconds()
}

func (q *long) send() {
	group := make([]*core.Message, q.batch)
	for i := range group {
		b := make([]byte, q.body)
		binary.LittleEndian.PutUint64(b, uint64(q.sent)+uint64(i))
		group[i] = &core.Message{MessageID: core.StringID("0123456789abcdef"), Body: core.Body{Bytes: b}}
	}
	if a := q.p.In(q.s).Append(q.Context(), [][]*core.Message{group}); a[0].Err != nil {
		q.Fatal(a[0].Err)
	}
	q.sent += int64(q.batch)
}

func (q *long) receive() { q.receiveBut(math.MaxInt64) }

// receiveBut is receive, but defers one of so many messages.
func (q *long) receiveBut(deferred int64) {
	ds, _, err := q.p.In(q.s).Lock(q.Context(), core.LockRequest{Most: core.Most{Messages: q.batch}})
	if err != nil || len(ds) == 0 {
		q.Fatalf("lock after %d of %d: %d messages, %v", q.received, q.sent, len(ds), err)
	}
	settlements := make([]core.Settlement, len(ds))
	for i := range ds {
		b := ds[i].Message.Body.Bytes
		if number := binary.LittleEndian.Uint64(b); len(b) != q.body || number != uint64(q.received)+uint64(i) {
			q.Fatalf("got message %d of %d bytes, want %d", number, len(b), q.received+int64(i))
		}
		settlements[i].Token = ds[i].LockToken
		if (q.received+int64(i))%deferred == deferred-1 {
			settlements[i].Outcome = core.Defer
			q.left++
		}
	}
	for _, err := range q.p.In(q.s).Settle(q.Context(), settlements) {
		if err != nil {
			q.Fatal(err)
		}
	}
	q.received += int64(len(ds))
}

// watchMemory keeps the most memory that the process has had of its own.
func watchMemory(t *testing.T) *atomic.Int64 {
	var most atomic.Int64
	done := make(chan struct{})
	go func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				most.Store(max(most.Load(), ownMemory(t)))
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() { close(done) })
	return &most
}

// ownMemory is the resident memory of the process, without pages of files.
func ownMemory(t testing.TB) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Error(err)
		return 0
	}
	_, line, _ := strings.Cut(string(status), "RssAnon:")
	kib, err := strconv.ParseInt(strings.Fields(line)[0], 10, 64)
	if err != nil {
		t.Error(err)
	}
	return kib << 10
}
