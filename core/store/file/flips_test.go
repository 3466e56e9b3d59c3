package file

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys/faultfs"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// Any flipped bit of a small store leaves one that opens, or an error that names the file. What opens
// delivers every message as it was, without a failed delivery, but for those that it counts as damaged.
// What does not open does so with repair, and then delivers what is sound.
func TestAFlippedBitIsNamedOrLosesNoMoreThanItsMessage(t *testing.T) {
	t.Parallel()
	stride := int64(7)
	if seeds(0) > 0 {
		stride = 1 // each byte
	}
	for name, c := range map[string]struct {
		bodies []string
		stride int64
	}{
		"small messages": {[]string{body(0), body(1), body(2), body(3)}, stride},
		"a large body":   {[]string{"small", strings.Repeat("large body", 110_000), "last"}, 50_021},
	} {
		for _, ended := range []string{"closed", "killed"} {
			t.Run(name+" "+ended, func(t *testing.T) {
				t.Parallel()
				fs := faultfs.New()
				clock := storetest.NewClock()
				o := Options{Clock: clock.Now, Sync: SyncAlways, fs: fs, Memory: -1, recent: 1, compact: -1}
				s, err := Open(crashDir, o)
				if err != nil {
					t.Fatal(err)
				}
				p := newQueue(t, s)
				half := len(c.bodies) / 2
				send(t, s, p, c.bodies[:half]...)
				if err := s.Snapshot(t.Context()); err != nil {
					t.Fatal(err)
				}
				send(t, s, p, c.bodies[half:]...)
				if ended == "killed" {
					s.abandon()
				} else if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				outcomes := map[string]int{}
				names, err := fs.ReadDir(crashDir)
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range names {
					path := filepath.Join(crashDir, name)
					for off := int64(0); off < sizeOf(t, fs, path); off++ {
						if off > 64 && off%c.stride != 0 {
							continue // the headers are flipped whole
						}
						after := fs.Restart()
						if err := after.Flip(path, int(off), 1<<(off%8)); err != nil {
							t.Fatal(err)
						}
						what := fmt.Sprintf("byte %d of %s", off, name)
						outcomes[filepath.Ext(name)+" "+judge(t, what, after, o, p, c.bodies)]++
					}
				}
				for _, outcome := range slices.Sorted(maps.Keys(outcomes)) {
					t.Logf("%5d %s", outcomes[outcome], outcome)
				}
			})
		}
	}
}

func sizeOf(t *testing.T, fs *faultfs.FS, path string) int64 {
	t.Helper()
	f, err := fs.Open(path, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// judge opens a store with a flipped bit and receives all that it has.
func judge(t *testing.T, what string, fs *faultfs.FS, o Options, p core.Partition, sent []string) (outcome string) {
	t.Helper()
	o.fs = fs
	outcome = "opens"
	s, err := Open(crashDir, o)
	if err != nil {
		if !strings.Contains(err.Error(), crashDir+"/0") {
			t.Errorf("%s: the error names no file: %v", what, err)
		}
		o.Repair, outcome = true, "is refused, and repaired"
		if s, err = Open(crashDir, o); err != nil {
			t.Errorf("%s: with repair: %v", what, err)
			return "is refused, with repair too"
		}
	}
	defer s.abandon()
	var got []string
	for range len(sent) + 1 {
		ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 2}})
		if err != nil {
			t.Fatalf("%s: lock: %v", what, err)
		}
		for _, d := range ds {
			if d.DeliveryCount != 0 {
				t.Errorf("%s: a message has %d failed deliveries", what, d.DeliveryCount)
			}
			got = append(got, string(d.Body.Bytes))
		}
	}
	for i, m := range got {
		if !slices.Contains(sent, m) || slices.Contains(got[:i], m) {
			t.Errorf("%s: received %.40q, which was not sent, or twice", what, m)
		}
	}
	stats, err := storetest.Stats(t.Context(), s, p)
	if err != nil {
		t.Fatal(err)
	}
	lost := len(sent) - len(got)
	if outcome == "opens" && int64(lost) != stats.Damaged || lost > 1 && outcome == "opens" {
		t.Errorf("%s: opens, received %d of %d, damaged %d", what, len(got), len(sent), stats.Damaged)
	}
	return fmt.Sprintf("%s, %d lost", outcome, lost)
}
