package batching

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

// Each submission is a call with one item. Redis answers at once.
func TestPatientCallsWaitForOthers(t *testing.T) {
	t.Parallel()
	type flush struct {
		at    time.Duration
		items int
	}
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		patient []time.Duration // when these calls arrive
		urgent  []time.Duration
		hurry   time.Duration
		want    []flush
	}{
		"a lone call":           {patient: []time.Duration{0}, want: []flush{{patience, 1}}},
		"calls in that time":    {patient: []time.Duration{0, ms, patience - 1}, want: []flush{{patience, 3}}},
		"calls one by one":      {patient: []time.Duration{0, 5 * ms, 10 * ms}, want: []flush{{patience, 1}, {5*ms + patience, 1}, {10*ms + patience, 1}}},
		"before an urgent call": {patient: []time.Duration{0, 0}, urgent: []time.Duration{ms}, want: []flush{{ms, 3}}},
		"after an urgent call":  {patient: []time.Duration{ms}, urgent: []time.Duration{0}, want: []flush{{0, 1}, {ms + patience, 1}}},
		"hurried":               {patient: []time.Duration{0}, hurry: ms, want: []flush{{ms, 1}}},
		"enough":                {patient: append(slices.Repeat([]time.Duration{ms}, enough), ms+1), want: []flush{{ms, enough}, {ms + patience, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b Batcher[int]
				var mu sync.Mutex
				var got []flush
				began := time.Now()
				b.Start(&server.Server{}, &Counter{}, func(calls []*Call[int]) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, flush{time.Since(began), len(calls)})
				})
				var callers sync.WaitGroup
				submit := func(at time.Duration, patient bool) {
					callers.Go(func() {
						time.Sleep(at)
						if err := b.Submit(context.Background(), 0, 1, 1, patient); err != nil {
							t.Error(err)
						}
					})
				}
				for _, at := range test.patient {
					submit(at, true)
				}
				for _, at := range test.urgent {
					submit(at, false)
				}
				if test.hurry > 0 {
					time.Sleep(test.hurry)
					b.Hurry()
				}
				callers.Wait()
				if !slices.Equal(got, test.want) {
					t.Errorf("flushed %v, want %v", got, test.want)
				}
			})
		})
	}
}

// A caller that ends takes its call back; others are flushed in time.
func TestAPatientCallCanBeWithdrawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b Batcher[int]
		var got []int
		b.Start(&server.Server{}, &Counter{}, func(calls []*Call[int]) {
			for _, c := range calls {
				got = append(got, c.Work)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := b.Submit(ctx, 1, 1, 1, true); err == nil {
			t.Error("the withdrawn call succeeded")
		}
		if err := b.Submit(t.Context(), 2, 1, 1, true); err != nil {
			t.Error(err)
		}
		if b.items != 0 || b.bytes != 0 || !slices.Equal(got, []int{2}) {
			t.Errorf("flushed %v, %d items of %d bytes wait", got, b.items, b.bytes)
		}
	})
}
