package bench

import (
	"math/bits"
	"time"
)

// subBits sets 64 buckets for each power of two, so a bucket is at most 1.6 % wide.
const subBits = 6

// histogram has log-linear buckets. It is not safe for concurrent use.
type histogram struct {
	buckets [(64 - subBits) << subBits]int64
	count   int64
	max     time.Duration
}

// bucketOf counts negative durations as zero.
func bucketOf(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - subBits
	return (shift+1)<<subBits + int(v>>shift&(1<<subBits-1))
}

func highest(bucket int) time.Duration {
	if bucket < 1<<subBits {
		return time.Duration(bucket)
	}
	shift := bucket>>subBits - 1
	low := uint64(1<<subBits+bucket&(1<<subBits-1)) << shift
	return time.Duration(low + 1<<shift - 1)
}

func (h *histogram) add(d time.Duration) {
	h.buckets[bucketOf(d)]++
	h.count++
	h.max = max(h.max, d)
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
	h.count += other.count
	h.max = max(h.max, other.max)
}

// quantile returns the upper bound of the bucket with the quantile q, or 0 if nothing was counted.
func (h *histogram) quantile(q float64) time.Duration {
	rank := int64(q * float64(h.count))
	if float64(rank) < q*float64(h.count) {
		rank++
	}
	rank = max(rank, 1)
	var seen int64
	for i, n := range h.buckets {
		if seen += n; seen >= rank {
			return min(highest(i), h.max)
		}
	}
	return 0
}
