package redis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
)

// refreshing has n calls ask for a measurement at once, and returns how long
// they took and what they were answered.
func refreshing(n int, q *quota, measure func() (measured, error)) (time.Duration, []error) {
	began := time.Now()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = q.refresh(context.Background(), 1000, measure) })
	}
	wg.Wait()
	return time.Since(began), errs
}

func TestCallsShareAMeasurement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q quota
		var asked atomic.Int64
		took, errs := refreshing(100, &q, func() (measured, error) {
			asked.Add(1)
			time.Sleep(time.Second)
			return measured{bytes: 10}, nil
		})
		if err := errors.Join(errs...); err != nil || asked.Load() != 1 || took != time.Second || q.measured != 10 {
			t.Errorf("measured %d times in %v: got %d, %v", asked.Load(), took, q.measured, err)
		}
	})
}

func TestAnOutageCostsAllCallsOneWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q quota
		away := errors.New("away")
		took, errs := refreshing(100, &q, func() (measured, error) {
			time.Sleep(conn.CallTimeout)
			return measured{}, away
		})
		for _, err := range errs {
			if !errors.Is(err, away) {
				t.Fatalf("got %v, want %v", err, away)
			}
		}
		if took != conn.CallTimeout {
			t.Errorf("100 calls took %v, want %v", took, conn.CallTimeout)
		}
		if took, errs := refreshing(1, &q, func() (measured, error) { return measured{bytes: 5}, nil }); errs[0] != nil || took != 0 || q.measured != 5 {
			t.Errorf("afterwards: got %d, %v after %v", q.measured, errs[0], took)
		}
	})
}

// A caller that gives up must not fail others that wait for its measurement.
func TestACallThatGivesUpLeavesTheMeasurementToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q quota
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			err := q.refresh(ctx, 1000, func() (measured, error) {
				<-ctx.Done()
				return measured{}, ctx.Err()
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the first: got %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if err := q.refresh(t.Context(), 1000, func() (measured, error) { return measured{bytes: 7}, nil }); err != nil || q.measured != 7 {
				t.Errorf("the second: got %d, %v", q.measured, err)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
	})
}

func TestMeasurementsThatAreMuchWorkAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q quota
		asked := 0
		measure := func() (measured, error) {
			asked++
			return measured{bytes: 2000, work: 50 * time.Millisecond}, nil
		}
		for range 100 { // for 10 s, with a limit of 1000
			if _, errs := refreshing(1, &q, measure); errs[0] != nil {
				t.Fatal(errs[0])
			}
			time.Sleep(100 * time.Millisecond)
		}
		if asked != 2 {
			t.Errorf("measured %d times in 10 s, want 2", asked)
		}
		if err := (sizeBudget{quota: &q, max: 1000}).take(1); err == nil {
			t.Error("a full partition takes more")
		}
	})
}
