package link

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestJobsRunInOrderAndWhatTheyBringFollows(t *testing.T) {
	t.Parallel()
	var got []string
	after := 0
	o := New(func() { after++ }, nil)
	o.Do(func() {
		got = append(got, "a")
		o.Do(func() { got = append(got, "b") }) // left to the goroutine that runs this job
		o.Post(func() { got = append(got, "c") })
		got = append(got, "a ends")
	})
	if want := []string{"a", "a ends", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("ran %q, want %q", got, want)
	}
	if after != 2 {
		t.Errorf("after ran %d times, want once for each of two rounds", after)
	}
}

func TestJobsOfManyGoroutinesRunOneAtATime(t *testing.T) {
	t.Parallel()
	const goroutines, each = 8, 1000
	n, rounds := 0, 0 // without a lock: the race detector looks
	o := New(func() { rounds++ }, nil)
	var wg sync.WaitGroup
	ran := make(chan struct{}, goroutines*each)
	for i := range goroutines {
		wg.Go(func() {
			for range each {
				job := func() { n++; ran <- struct{}{} }
				if i%2 == 0 {
					o.Do(job)
				} else {
					o.Post(job)
				}
			}
		})
	}
	wg.Wait()
	for range goroutines * each {
		<-ran
	}
	o.Do(o.Stop)
	<-o.Ended()
	if n != goroutines*each || rounds == 0 || rounds > n+1 {
		t.Errorf("%d jobs ran in %d rounds, want %d", n, rounds, goroutines*each)
	}
}

func TestAStoppedOwnerRunsNothingButWhatIsFinished(t *testing.T) {
	t.Parallel()
	o, got := New(func() {}, nil), ""
	o.Do(func() {
		o.Stop()
		o.Do(func() { got += "a" })
	})
	<-o.Ended()
	o.Do(func() { got += "b" })
	o.Post(func() { got += "c" })
	if got != "" {
		t.Errorf("ran %q though it was stopped", got)
	}
	if !o.Finish() || got != "abc" || o.Finish() {
		t.Errorf("the rest: ran %q, want abc, once", got)
	}
}

func TestAPanicStopsTheOwner(t *testing.T) {
	t.Parallel()
	var err error
	o := New(func() {}, func(e error) { err = e })
	o.Do(func() { panic("out of order") })
	<-o.Ended()
	if err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("got %v, want the panic", err)
	}
	o.Do(func() { t.Error("a job ran after a panic") })
}

func BenchmarkDo(b *testing.B) {
	n := 0
	o := New(func() { n++ }, nil)
	job := func() {}
	b.ReportAllocs()
	for b.Loop() {
		o.Do(job)
	}
}
