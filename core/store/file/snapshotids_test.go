package file

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/journal"
	"github.com/crosstown-mq/crosstown/core/store/internal/state"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// meanwhile calls do before each write.
type meanwhile struct {
	io.Writer
	do func()
}

func (w meanwhile) Write(b []byte) (int, error) {
	w.do()
	return w.Writer.Write(b)
}

// snapshotWhile writes a snapshot, and calls do before each of its writes.
func snapshotWhile(t *testing.T, s *Store, do func()) {
	t.Helper()
	_, err := s.log.WriteSnapshot(t.Context(), s.log.End(), func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 1<<16)
		err := journal.Write(meanwhile{out, do}, s.Store, s.journal.End, func(state.Ref) {})
		return errors.Join(err, out.Flush())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Message ids and keys of moves that are remembered and forgotten while a snapshot is written are
// those of the memory engine after a restart.
func TestIDsOfASnapshotUnderWay(t *testing.T) {
	t.Parallel()
	for seed := range seeds(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			dice := rand.New(rand.NewPCG(seed, 0))
			clock := storetest.NewClock()
			o := Options{Clock: clock.Now, Sync: SyncNever, Memory: -1}
			dir := t.TempDir()
			s, err := Open(dir, o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			model := state.New(state.Options{Clock: clock.Now})
			p := newQueue(t, s)
			newQueue(t, model)
			p.DuplicateWindow = time.Minute
			known := 0
			same := func(what string, do func(s core.Store) string) {
				t.Helper()
				if got, want := do(s), do(model); got != want {
					t.Fatalf("%s: got %s, want %s", what, got, want)
				}
			}
			act := func() {
				switch dice.IntN(10) {
				case 0:
					clock.Advance(time.Duration(dice.IntN(20)) * time.Second)
				case 1:
					key := fmt.Sprint("move ", dice.IntN(known/4+1))
					same("forget", func(s core.Store) string { return fmt.Sprint(p.In(s).Forget(t.Context(), []string{key})) })
				default:
					clock.Advance(time.Duration(dice.IntN(3)) * time.Millisecond)
					group := make([]*core.Message, 1+dice.IntN(200))
					for i := range group {
						n := known
						if known++; dice.IntN(10) == 0 {
							n = dice.IntN(known)
						}
						m := &core.Message{MessageID: core.StringID(fmt.Sprint("id ", n))}
						if n%4 == 0 {
							m = &core.Message{Transit: &core.Transit{Key: fmt.Sprint("move ", n/4)}}
						}
						group[i] = m
					}
					same("append", func(s core.Store) string { return fmt.Sprint(p.In(s).Append(t.Context(), [][]*core.Message{group})) })
				}
			}
			for range 100 {
				act()
			}
			for range 3 {
				snapshotWhile(t, s, func() {
					if dice.IntN(2) == 0 {
						act()
					}
				})
				for range dice.IntN(20) {
					act()
				}
				s.abandon()
				if s, err = Open(dir, o); err != nil {
					t.Fatal(err)
				}
				same("stats", func(s core.Store) string { return fmt.Sprint(storetest.Stats(t.Context(), s, p)) })
				all := make([]*core.Message, 0, 2*known)
				for n := range known {
					all = append(all, &core.Message{MessageID: core.StringID(fmt.Sprint("id ", n))},
						&core.Message{Transit: &core.Transit{Key: fmt.Sprint("move ", n)}})
				}
				same("all again", func(s core.Store) string { return fmt.Sprint(p.In(s).Append(t.Context(), [][]*core.Message{all})) })
			}
		})
	}
}

// A piece of a snapshot, which is made while the partition is held, is small whatever there is.
func TestPiecesOfASnapshotAreSmall(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	s := mustOpen(t, t.TempDir(), Options{Clock: clock.Now, Sync: SyncNever})
	p := newQueue(t, s)
	p.DuplicateWindow, p.Sessions = time.Hour, true
	for i := range 100 {
		group := make([]*core.Message, 1000)
		for k := range group {
			group[k] = &core.Message{SessionID: "a", MessageID: core.StringID(fmt.Sprintf("%036d", 1000*i+k))}
		}
		if a := p.In(s).Append(t.Context(), [][]*core.Message{group}); a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
		clock.Advance(time.Millisecond)
	}
	for i := range 200 {
		l, _, _, err := p.In(s).AcceptSession(t.Context(), core.SessionRequest{ID: fmt.Sprint("session ", i)})
		if err == nil {
			err = p.In(s).SetSessionState(t.Context(), l, make([]byte, 64<<10))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := writeSnapshot(&b, s.Store); err != nil {
		t.Fatal(err)
	}
	const most = 1<<20 + 128<<10
	for b.Len() > 0 {
		n, err := binary.ReadUvarint(&b)
		if err != nil || n > most {
			t.Fatalf("a piece has %d bytes, %v; want %d at most", n, err, most)
		}
		b.Next(int(n))
	}
}
