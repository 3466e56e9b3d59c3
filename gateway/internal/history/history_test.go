package history

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core/broker"
)

// fakeSource is a namespace whose counts a test sets.
type fakeSource struct {
	mu    sync.Mutex
	holds map[string]*broker.Count
	grown []string // since the last call
	took  map[string]int64
	asked []string // names that were counted
}

func (f *fakeSource) Grown(each func(string, int64)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range f.grown {
		each(name, f.took[name])
	}
	f.grown, f.took = nil, map[string]int64{}
}

func (f *fakeSource) Counts(_ context.Context, names []string) (all []broker.Count) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		f.asked = append(f.asked, name)
		if c := f.holds[name]; c != nil {
			all = append(all, *c)
		}
	}
	return all
}

// flow has messages come to and leave an entity.
func (f *fakeSource) flow(name string, in, out int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.holds[name]
	if c == nil {
		c = &broker.Count{Name: name}
		if f.holds == nil {
			f.holds = map[string]*broker.Count{}
		}
		f.holds[name] = c
	}
	c.Enqueued += in
	c.Active += in - out
	if f.grown = append(f.grown, name); f.took == nil {
		f.took = map[string]int64{}
	}
	f.took[name] += in
}

// vitals are those of a gateway in which nothing changes.
var vitals = Vitals{LatencyMS: 2, InUse: 5 << 20, Messages: 1 << 20}

func steady(context.Context) Vitals { return vitals }

// begin follows a namespace in a bubble.
func begin(t *testing.T, story func(t *testing.T, h *History, f *fakeSource, pass func(ticks int))) {
	synctest.Test(t, func(t *testing.T) {
		h, f := New(steady), &fakeSource{}
		h.Add("ns", f)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.Run(ctx) }()
		synctest.Wait()
		story(t, h, f, func(ticks int) {
			time.Sleep(time.Duration(ticks) * Interval)
			synctest.Wait()
		})
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestVitalsAreKeptForADay(t *testing.T) {
	begin(t, func(t *testing.T, h *History, _ *fakeSource, pass func(int)) {
		pass(3)
		want := vitals
		want.At = uint32(time.Now().Unix()) - 20
		if got := h.Vitals(); len(got) != 3 || got[0] != want {
			t.Errorf("got %+v, want 3 that begin with %+v", got, want)
		}
		pass(2 * 24 * 360)
		got, now := h.Vitals(), uint32(time.Now().Unix())
		if n := len(got); n < 1735 || n > 1745 || got[0].At < now-24*3600 || got[0].At > now-24*3600+60 || got[n-1].At != now { // 23 hours by the minute, and 360
			t.Errorf("after two days: %d, from %d to %d at %d", n, got[0].At, got[n-1].At, now)
		}
	})
}

func TestWhatComesAndGoesIsKept(t *testing.T) {
	begin(t, func(t *testing.T, h *History, f *fakeSource, pass func(int)) {
		f.flow("orders", 100, 0)
		pass(1)
		began := uint32(time.Now().Unix())
		f.flow("orders", 30, 10)
		pass(1)
		f.flow("orders", 0, 20)
		pass(1)
		want := []Sample{{At: began - 10}, {At: began, In: 100, Active: 100}, {At: began + 10, In: 130, Out: 10, Active: 120}, {At: began + 20, In: 130, Out: 30, Active: 100}}
		if got := h.Of(t.Context(), "ns", "ORDERS"); !slices.Equal(got, want) {
			t.Errorf("of the entity:\n got %+v\nwant %+v", got, want)
		}
		if in, out := h.Rates(); in != 0 || out != 2 {
			t.Errorf("rates: got %v, %v, want 0, 2", in, out)
		}
		for i := range want {
			want[i].Active = 0
		}
		if got := h.Of(t.Context(), "ns", ""); !slices.Equal(got, want) {
			t.Errorf("of the namespace:\n got %+v\nwant %+v", got, want)
		}
		if got := h.Of(t.Context(), "other", ""); got != nil {
			t.Errorf("of another namespace: got %+v", got)
		}
	})
}

// While nothing happens there are no samples, and what then comes is not spread over that time.
func TestSilenceIsNotSampled(t *testing.T) {
	begin(t, func(t *testing.T, h *History, f *fakeSource, pass func(int)) {
		f.flow("orders", 1, 0)
		pass(1)
		asked := len(f.asked)
		pass(5)
		if len(f.asked) != asked {
			t.Errorf("an entity that is silent is counted: %v", f.asked)
		}
		f.flow("orders", 60, 0)
		pass(1)
		got := h.Of(t.Context(), "ns", "orders")
		if n := len(got); n != 4 || got[3].In-got[2].In != 60 || got[3].At-got[2].At != 10 || got[2].At-got[1].At != 50 {
			t.Errorf("got %+v", got)
		}
		pass(2 * 360)
		if n := len(f.asked) - asked; n > 20 {
			t.Errorf("a silent entity was counted %d times in two hours", n)
		}
		got = h.Of(t.Context(), "ns", "orders")
		if last := got[len(got)-1]; last.At != uint32(time.Now().Unix()) || last.In != 61 || last.Active != 61 {
			t.Errorf("the last sample: got %+v", last)
		}
	})
}

func TestADayIsKeptInBoundedMemory(t *testing.T) {
	begin(t, func(t *testing.T, h *History, f *fakeSource, pass func(int)) {
		for range 30 * 360 {
			f.flow("orders", 10, 10)
			pass(1)
		}
		got := h.Of(t.Context(), "ns", "orders")
		if n := len(got); n > fineSamples+coarseSamples || n < fineSamples+coarseSamples-coarseSamples/20 {
			t.Errorf("%d samples of 30 hours are kept", n)
		}
		if span := got[len(got)-1].At - got[0].At; span < 23*3600 || span > 24*3600 {
			t.Errorf("they are those of %d s", span)
		}
		for i := 1; i < len(got); i++ {
			if got[i].At <= got[i-1].At || (got[i].In-got[i-1].In) != int64(got[i].At-got[i-1].At) {
				t.Fatalf("sample %d: got %+v after %+v", i, got[i], got[i-1])
			}
		}
	})
}

func TestASubscriptionIsCountedWhenItsTopicIsPublishedTo(t *testing.T) {
	begin(t, func(t *testing.T, h *History, f *fakeSource, pass func(int)) {
		const name = "events/Subscriptions/eu"
		f.flow(name, 0, 0)
		pass(1)
		f.mu.Lock()
		f.asked = nil
		f.mu.Unlock()
		f.flow(name, 5, 0)
		f.flow("events", 5, 0)
		f.mu.Lock()
		f.grown = []string{"events"} // the gateway has no receiver of the subscription
		f.mu.Unlock()
		pass(1)
		if !slices.Contains(f.asked, name) {
			t.Errorf("counted: %v", f.asked)
		}
	})
}

func TestTheBusiestEntitiesKeepTheirHistory(t *testing.T) {
	begin(t, func(t *testing.T, h *History, f *fakeSource, pass func(int)) {
		for i := range 2 * MaxSeries {
			f.flow(fmt.Sprint("q", i), 1, 0)
		}
		pass(1)
		if h.series != MaxSeries {
			t.Errorf("%d have a history, want %d", h.series, MaxSeries)
		}
		for range 100 { // more than keepTime
			f.flow("busy", 1, 0)
			pass(1)
		}
		if got := h.Of(t.Context(), "ns", "busy"); len(got) < 30 {
			t.Errorf("an entity that is busy later has %d samples", len(got))
		}
	})
}
