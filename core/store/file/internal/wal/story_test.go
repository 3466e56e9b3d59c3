package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys/faultfs"
)

const dir = "/data"

// story is a log under load, and what a test knows of it. Frame i has the effects i and two
// records made of i.
type story struct {
	t testing.TB
	o Options
	l *Log

	mu       sync.Mutex
	appended int // frames
	acked    int // frames that Wait has returned for
}

func begin(t testing.TB, fs fsys.FS, o Options) *story {
	t.Helper()
	l, err := Open(fs, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return &story{t: t, o: o, l: l}
}

func contents(i int) (effects []byte, records []Record) {
	effects = binary.LittleEndian.AppendUint32(nil, uint32(i))
	effects = append(effects, bytes.Repeat([]byte{'e'}, i%50)...)
	size := i * 37 % 300
	if i%40 == 0 {
		size = directSize + i
	}
	return effects, []Record{
		NewRecord(fmt.Append(nil, "head ", i), bytes.Repeat([]byte{byte(i)}, size)),
		NewRecord(nil, []byte{1, 2, 3}),
	}
}

// append appends the next frame. A large body is named at the end of its effects.
func (s *story) append(large *Record) (i int, end Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i = s.appended
	effects, records := contents(i)
	if large != nil {
		effects = binary.LittleEndian.AppendUint64(effects, uint64(large.Ref.Position))
	}
	_, end = s.l.Append(effects, records)
	s.appended++
	return i, end
}

var largeBody = NewRecord([]byte("large"), bytes.Repeat([]byte("large"), 1000))

// send appends a frame, sometimes with a large body, and waits for it.
func (s *story) send(withBody bool) error {
	var large *Record
	if withBody {
		large = new(largeBody)
		if err := s.l.WriteBody(s.t.Context(), large); err != nil {
			return err
		}
	}
	i, end := s.append(large)
	if err := s.l.Wait(s.t.Context(), end); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = max(s.acked, i+1)
	return nil
}

func (s *story) snapshot() error {
	s.mu.Lock()
	n, from := s.appended, s.l.End()
	s.mu.Unlock()
	_, err := s.l.WriteSnapshot(s.t.Context(), from, func(w io.Writer) error {
		_, err := w.Write(binary.LittleEndian.AppendUint32(nil, uint32(n)))
		return err
	})
	return err
}

// clean removes the segments that no snapshot needs.
func (s *story) clean() error {
	for _, x := range s.l.Segments() {
		if x.Body {
			continue
		}
		if err := s.l.Remove(x.ID); err != nil && !errors.Is(err, ErrInUse) {
			return err
		}
	}
	return nil
}

// state is what a restart finds.
type state struct {
	base  int // frames that the snapshot stands for
	refs  [][2]Ref
	n     int   // frames, with those of the snapshot
	large []Ref // bodies that frames name
}

// load reads a log: its newest snapshot and the frames behind it, which must be the next ones.
func load(l *Log) (st state, err error) {
	var from Position
	if list := l.Snapshots(); len(list) > 0 {
		in, err := l.OpenSnapshot(list[0])
		if err != nil {
			return st, err
		}
		b, err := io.ReadAll(in)
		if err != nil {
			return st, err
		}
		if err := in.Close(); err != nil {
			return st, err
		}
		st.base, from = int(binary.LittleEndian.Uint32(b)), list[0].From
	}
	st.n = st.base
	err = l.Replay(from, func(f Frame) error {
		want, _ := contents(st.n)
		large, ok := bytes.CutPrefix(f.Effects, want)
		if len(large) == 8 {
			st.large = append(st.large, Ref{Position(binary.LittleEndian.Uint64(large)), largeBody.Ref.Length})
		} else {
			ok = ok && len(large) == 0
		}
		if !ok || len(f.Records) != 2 {
			return fmt.Errorf("frame %d: got %q and %d records", st.n, f.Effects, len(f.Records))
		}
		st.refs = append(st.refs, [2]Ref(f.Records))
		st.n++
		return nil
	})
	return st, err
}

// check reads the records of a state.
func (st *state) check(l *Log) error {
	for i, refs := range st.refs {
		_, want := contents(st.base + i)
		for j, ref := range refs {
			head, body, err := l.Read(ref)
			if err != nil {
				return fmt.Errorf("record %d of frame %d: %w", j, st.base+i, err)
			}
			if !bytes.Equal(head, want[j].Head) || !bytes.Equal(body, want[j].Body) {
				return fmt.Errorf("record %d of frame %d: got %q with %d bytes", j, st.base+i, head, len(body))
			}
		}
	}
	for _, ref := range st.large {
		head, body, err := l.Read(ref)
		if err != nil || !bytes.Equal(head, largeBody.Head) || !bytes.Equal(body, largeBody.Body) {
			return fmt.Errorf("large body: got %q with %d bytes, %w", head, len(body), err)
		}
	}
	return nil
}

// survives opens what a crash left and checks it: at least acked frames, none beyond appended, in
// order and whole. It goes on with it, crashes again, and checks that too.
func survives(t testing.TB, fs *faultfs.FS, o Options, r *rand.Rand, acked, appended int) error {
	for round := range 2 {
		l, err := Open(fs, dir, o)
		if err != nil {
			return err
		}
		st, err := load(l)
		if err == nil {
			err = st.check(l)
		}
		if err == nil && (st.n < acked || st.n > appended) {
			err = fmt.Errorf("round %d: got %d frames, of which %d were acknowledged and %d appended", round, st.n, acked, appended)
		}
		s := &story{t: t, l: l, appended: st.n}
		for range 1 + r.IntN(3) {
			if err == nil {
				err = s.send(r.IntN(5) == 0)
			}
		}
		if err == nil && r.IntN(4) == 0 {
			err = s.snapshot()
		}
		acked, appended = st.n, s.appended
		if o.Sync == Always {
			acked = s.appended
		}
		next := fs.Crash(r, r.Float64())
		err = errors.Join(err, l.Close())
		if n := fs.OpenFiles(); n != 0 {
			err = errors.Join(err, fmt.Errorf("%d files are open after Close", n))
		}
		if err != nil {
			return err
		}
		if r.IntN(4) == 0 { // or after Close
			next, acked = fs.Crash(r, 0), s.appended
		}
		fs = next
	}
	return nil
}
