package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/journal"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/wal"
	"github.com/crosstown-mq/crosstown/core/store/internal/state"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

var updateBytes = flag.Bool("update-bytes", false, "write testdata/bytes.txt anew; with CRASH_SEEDS=200")

const bytesFile = "testdata/bytes.txt"

// The logs and snapshots of the same calls have the same bytes as before: a store that an earlier
// version wrote is read as it was meant. testdata/bytes.txt has the checksums of 200 plays. It is
// written again where plays change, or calls have other effects: by -update-bytes. No test runs beside
// this one, which has random numbers of its own.
func TestBytesOfLogsAndSnapshotsStay(t *testing.T) {
	known, err := os.ReadFile(bytesFile)
	if err != nil && !*updateBytes {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(known)), "\n")
	got := []string{"kept " + bytesOfKept(t)}
	for seed := range min(200, seeds(20)) {
		got = append(got, fmt.Sprint(seed, " ", bytesOfPlay(t, seed)))
	}
	if *updateBytes {
		if err := os.WriteFile(bytesFile, []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for i := range got {
		if i >= len(want) || got[i] != want[i] {
			t.Errorf("line %d: got %s, want %s", i+1, got[i], want[i:min(i+1, len(want))])
		}
	}
}

// bytesOfKept is the checksum of what all kinds of messages, namespaces, changes of entities and rules,
// large bodies and an import write.
func bytesOfKept(t *testing.T) string {
	cryptotest.SetGlobalRandom(t, 1)
	clock := storetest.NewClock()
	o := Options{Clock: clock.Now, Sync: SyncNever, Memory: -1, segmentSize: 16 << 10, compact: 90}
	dir, sum := t.TempDir(), sha256.New()
	s := mustOpen(t, dir, o)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	storetest.Keep(t, s, clock)
	ctx := t.Context()
	namespace, err := s.CreateNamespace(ctx, core.Namespace{Name: "Run", ID: "run", Hosts: []string{"h"}})
	must(err)
	namespace.Hosts = nil
	_, err = s.UpdateNamespace(ctx, namespace)
	must(err)
	p := newQueue(t, s)
	p.DuplicateWindow = time.Minute
	for i := range 40 {
		must(p.In(s).Append(ctx, [][]*core.Message{{{MessageID: core.StringID(fmt.Sprint(i)), Body: core.Body{Bytes: bytes.Repeat([]byte{byte(i)}, 1000)}}}})[0].Err)
	}
	must(p.In(s).Append(ctx, [][]*core.Message{{{Body: core.Body{Bytes: make([]byte, journal.LargeBody)}}}})[0].Err)
	later := s.WithTime(func(now time.Time) time.Time { return now.Add(time.Hour) })
	must(p.In(later).Append(ctx, [][]*core.Message{{{MessageID: core.StringID("later")}}})[0].Err)
	ds, _, err := p.In(s).Lock(ctx, core.LockRequest{Most: core.Most{Messages: 36}})
	must(err)
	for _, d := range ds {
		must(p.In(s).Settle(ctx, []core.Settlement{{Token: d.LockToken}})[0])
	}
	topic, err := s.Topic(ctx, "ns", "kept-topic")
	must(err)
	subscription, version, err := s.ChangeRule(ctx, topic.Subscriptions[0], core.RuleChange{Rule: core.Rule{Name: "all"}, Remove: true})
	must(err)
	copies := func(body []byte) core.Publication {
		m := &core.Message{Body: core.Body{Bytes: body}}
		to := core.Copy{Message: new(*m), To: new(subscription.Partition(0, core.Main))}
		other := to
		other.Message = new(*m)
		return core.Publication{Message: m, Copies: []core.Copy{to, other}}
	}
	at := topic.Partition(0, core.Main)
	must(at.In(s).Publish(ctx, version, [][]core.Publication{{copies([]byte("small")), copies(make([]byte, journal.LargeBody))}})[0].Err)
	must(s.TouchEntities(ctx, "ns", map[string]time.Time{"kept-topic": clock.Now()}))
	s.abandon()
	sumBytes(t, dir, sum)
	s = mustOpen(t, dir, o)
	must(s.Snapshot(ctx)) // which compacts
	var stored []*core.Stored
	must(s.Export(ctx, p.Ref, func(x *core.Stored) error {
		stored = append(stored, new(*x))
		return nil
	}))
	copied, err := s.CreateEntity(ctx, core.Entity{Namespace: "ns", Name: "copy", ID: "copy", Partitions: 1, Settings: core.DefaultSettings(core.Queue)}, core.NamespaceQuotas{})
	must(err)
	must(s.Import(ctx, copied.Ref(0, core.Main), func(yield func(*core.Stored, error) bool) {
		for _, x := range stored {
			if !yield(x, nil) {
				return
			}
		}
	}))
	must(s.DeleteEntity(ctx, "ns", "copy"))
	must(s.DeleteNamespace(ctx, "run"))
	s.abandon()
	sumBytes(t, dir, sum)
	s = mustOpen(t, dir, o)
	must(s.Close())
	sumBytes(t, dir, sum)
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// bytesOfPlay is the checksum of what a differential run writes, with restarts from the log alone and
// from snapshots.
func bytesOfPlay(t *testing.T, seed uint64) string {
	cryptotest.SetGlobalRandom(t, seed)
	clock := storetest.NewClock()
	o := Options{Clock: clock.Now, Sync: SyncNever, Memory: int64(seed%3) - 1, segmentSize: 16 << 10, compact: []int64{-1, 30, 90}[seed%3]}
	dir, sum := t.TempDir(), sha256.New()
	s := mustOpen(t, dir, o)
	engine := &reopened{Store: s}
	model := state.New(state.Options{Clock: clock.Now})
	restarts := 0
	again := func() {
		if restarts++; restarts%3 != 2 {
			s.abandon()
		} else if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		sumBytes(t, dir, sum)
		s = mustOpen(t, dir, o)
		engine.Store = s
		model.EndLinks()
	}
	storetest.Differential(t, seed, 300, model, engine, clock, again)
	again()
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// sumBytes adds the snapshots and the log of a store that is closed to a checksum: what is written, and
// where, but not what the log says of itself.
func sumBytes(t *testing.T, dir string, sum hash.Hash) {
	t.Helper()
	log, err := wal.Open(fsys.OS{}, dir, wal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	add := func(what ...any) {
		for _, x := range what {
			if b, ok := x.([]byte); ok {
				add := binary.BigEndian.AppendUint64(nil, uint64(len(b)))
				x = append(add, b...)
			}
			if err := binary.Write(sum, binary.BigEndian, x); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, info := range log.Snapshots() {
		in, err := log.OpenSnapshot(info)
		if err == nil {
			var b []byte
			b, err = io.ReadAll(in)
			add(info.From, b)
			err = errors.Join(err, in.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	from := wal.Position(0)
	if all := log.Snapshots(); len(all) > 0 {
		from = all[len(all)-1].From // of the oldest: frames before it may be removed
	}
	err = log.Replay(from, func(f wal.Frame) error {
		add(f.At, f.End, f.Effects)
		for _, r := range f.Records {
			head, body, err := log.Read(r)
			if err != nil {
				return err
			}
			add(r, head, body)
		}
		return nil
	})
	if err := errors.Join(err, log.Close()); err != nil {
		t.Fatal(err)
	}
}
