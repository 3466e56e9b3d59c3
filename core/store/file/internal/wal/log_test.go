package wal

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
)

func open(t testing.TB, dir string, o Options) *Log {
	t.Helper()
	l, err := Open(fsys.OS{}, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// replayed returns the effects of all frames from a position on.
func replayed(t testing.TB, l *Log, from Position) (all []string) {
	t.Helper()
	if err := l.Replay(from, func(f Frame) error {
		all = append(all, string(f.Effects))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestFramesComeBackInOrder(t *testing.T) {
	t.Parallel()
	for _, mode := range []Sync{Always, Interval, Never} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprint(mode, crash), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "store")
				l := open(t, dir, Options{Sync: mode, SegmentSize: 8 << 10, Recent: 1})
				var want []string
				var refs []Ref
				for i := range 200 {
					recs := []Record{NewRecord(fmt.Append(nil, "head", i), bytes.Repeat([]byte{byte(i)}, i*7)), NewRecord(nil, nil)}
					effects := fmt.Sprint("effects ", i)
					_, end := l.Append([]byte(effects), recs)
					want = append(want, effects)
					refs = append(refs, recs[0].Ref)
					if i%10 == 9 {
						if err := l.Wait(t.Context(), end); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := l.Wait(t.Context(), l.End()); err != nil {
					t.Fatal(err)
				}
				if crash {
					copied := filepath.Join(t.TempDir(), "copy")
					if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
						t.Fatal(err)
					}
					dir = copied
				} else if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					l = open(t, dir, Options{SegmentSize: 8 << 10, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
					if got := replayed(t, l, 0); fmt.Sprint(got) != fmt.Sprint(want) {
						t.Fatalf("got %q", got)
					}
					for i, ref := range refs {
						head, body, err := l.Read(ref)
						if err != nil || string(head) != fmt.Sprint("head", i) || len(body) != i*7 {
							t.Fatal(i, string(head), len(body), err)
						}
					}
					want = append(want, "more")
					if _, end := l.Append([]byte("more"), nil); l.Wait(t.Context(), end) != nil {
						t.Fatal(l.Err())
					}
					if err := l.Close(); err != nil {
						t.Fatal(err)
					}
				}
				x, err := Inspect(fsys.OS{}, dir, true)
				if err != nil || x.Damaged() || !x.Closed {
					t.Fatalf("%+v, %v", x, err)
				}
			})
		}
	}
}
