package main

import "testing"

// atRest is about what a gateway takes that has nothing to do, in bytes.
const atRest = 46 << 20

func TestThePartsOfMemoryFitIntoIt(t *testing.T) {
	t.Parallel()
	for _, available := range []int64{256 << 20, 512 << 20, 1 << 30, 4 << 30, 64 << 30} {
		if sum := partsOf(available).sum() + atRest; sum > available/10*9 {
			t.Errorf("of %d MiB %d %% are promised, want at most 90", available>>20, sum*100/available)
		}
	}
}
