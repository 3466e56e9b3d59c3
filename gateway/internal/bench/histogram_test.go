package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestQuantilesAreWithinTheBucketWidth(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var h, other histogram
	var all []time.Duration
	for i := range 20_000 {
		d := time.Duration(math.Exp(random.Float64() * 25)) // 1 ns to a minute
		all = append(all, d)
		if i%2 == 0 {
			h.add(d)
		} else {
			other.add(d)
		}
	}
	h.merge(&other)
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(int(math.Ceil(q*float64(len(all)))), 1)-1]
		got := h.quantile(q)
		if got < want || float64(got) > float64(want)*(1+1.0/64) {
			t.Errorf("quantile %v: got %d, want %d to 1.6 %% above", q, got, want)
		}
	}
	if h.quantile(1) != all[len(all)-1] || h.max != all[len(all)-1] {
		t.Errorf("the maximum is %v: got quantile %v and max %v", all[len(all)-1], h.quantile(1), h.max)
	}
}

func TestBucketsAreContiguous(t *testing.T) {
	t.Parallel()
	last := bucketOf(math.MaxInt64)
	var h histogram
	if last >= len(h.buckets) {
		t.Fatalf("the longest duration falls in bucket %d of %d", last, len(h.buckets))
	}
	for b := range last {
		if got := bucketOf(highest(b)); got != b {
			t.Fatalf("highest(%d) = %d lies in bucket %d", b, highest(b), got)
		}
		if got := bucketOf(highest(b) + 1); got != b+1 {
			t.Fatalf("highest(%d)+1 lies in bucket %d", b, got)
		}
	}
	if bucketOf(-time.Second) != 0 {
		t.Error("a negative duration does not count as zero")
	}
}

func TestEmptyHistogram(t *testing.T) {
	t.Parallel()
	var h histogram
	if got := percentiles(&h); got != (Percentiles{}) {
		t.Errorf("got %+v, want zeros", got)
	}
}
