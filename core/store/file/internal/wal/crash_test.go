package wal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys/faultfs"
)

// A log under load is looked at before each of its operations on the file system, as a loss of
// power at that moment would leave it.
func TestLossOfPower(t *testing.T) {
	t.Parallel()
	for _, mode := range []Sync{Always, Interval, Never} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			t.Parallel()
			var points atomic.Int64
			began := time.Now()
			for seed := range seeds(t) {
				losePower(t, mode, seed, &points)
			}
			t.Logf("%d crash points, %.0f a second", points.Load(), float64(points.Load())/time.Since(began).Seconds())
		})
	}
}

// seeds is the number of runs a test makes: CRASH_SEEDS, or a few, for the race detector makes them slow.
func seeds(t *testing.T) uint64 {
	t.Helper()
	if n, err := strconv.ParseUint(os.Getenv("CRASH_SEEDS"), 10, 64); err == nil {
		return n
	}
	return 2
}

func losePower(t *testing.T, mode Sync, seed uint64, points *atomic.Int64) {
	fs := faultfs.New()
	o := Options{Sync: mode, Interval: time.Millisecond, SegmentSize: 8 << 10, Recent: 4 << 10}
	r := rand.New(rand.NewPCG(seed, 1))
	var s *story
	var looking sync.Mutex // one crash at a time
	fs.Before = func(op faultfs.Op) *faultfs.Fault {
		if op.Kind == faultfs.Read || s == nil || t.Failed() {
			return nil
		}
		looking.Lock()
		defer looking.Unlock()
		s.mu.Lock()
		acked := s.acked
		s.mu.Unlock()
		image := fs.Crash(r, []float64{0, 0.3, 0.6, 0.9, 1}[r.IntN(5)])
		s.mu.Lock()
		appended := s.appended
		s.mu.Unlock()
		if mode != Always {
			acked = 0
		}
		points.Add(1)
		if err := survives(t, image, o, r, acked, appended); err != nil {
			t.Errorf("seed %d, before %+v: %v", seed, op, err)
		}
		return nil
	}
	begun := begin(t, fs, o)
	s = begun
	var senders sync.WaitGroup
	for range 3 {
		senders.Go(func() {
			for i := 0; i < 40 && !t.Failed(); i++ {
				if err := s.send(i%10 == 9); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 4 {
		time.Sleep(time.Millisecond) // the senders append meanwhile, which is a random number of frames
		if err := s.snapshot(); err != nil {
			t.Error(err)
		}
		if err := s.clean(); err != nil {
			t.Error(err)
		}
	}
	senders.Wait()
	if t.Failed() {
		_ = s.l.Close()
		return
	}
	if err := s.l.Close(); err != nil {
		t.Error(err)
	}
	fs.Before = nil
	if err := survives(t, fs.Crash(r, 0), o, r, 120, 120); err != nil {
		t.Errorf("seed %d, after Close: %v", seed, err)
	}
}
