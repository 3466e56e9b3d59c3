package memory_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// heap is what the process has allocated and still needs.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools hold goes with the second
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// It does not run beside other tests, whose memory it would count.
func TestSizesMatchTheKeptMemory(t *testing.T) {
	for _, kind := range storetest.Kinds() {
		for _, size := range kind.Sizes() {
			t.Run(fmt.Sprintf("%s/%d", kind.Name, size), func(t *testing.T) {
				clock := storetest.NewClock()
				s := memory.New(memory.Options{Clock: clock.Now})
				n := kind.ManyOf(size)
				stock := storetest.NewStock(t, s, clock, kind)
				before := heap()
				stock.Fill(n, size)
				kept := heap() - before
				said := stock.Size()
				t.Logf("%d B each: the heap grew by %d, the size says %d: %.2f", kept/int64(n), kept, said, float64(kept)/float64(said))
				if 2*kept > 3*said || 2*said > 3*kept {
					t.Errorf("%d messages took %d bytes, the entity's size says %d", n, kept, said)
				}
				stock.Empty()
				if left := stock.Size(); left != 0 {
					t.Errorf("once it is empty the size says %d", left)
				}
				runtime.KeepAlive(s)
			})
		}
	}
}

// What was remembered and is forgotten leaves no memory behind.
func TestACrowdThatIsGoneLeavesNoMemory(t *testing.T) {
	clock := storetest.NewClock()
	s := memory.New(memory.Options{Clock: clock.Now})
	for _, kind := range storetest.Kinds() {
		stock := storetest.NewStock(t, s, clock, kind)
		before := heap()
		stock.Fill(3000, 10)
		full := heap() - before
		stock.Empty()
		if left := heap() - before; left > full/20 {
			t.Errorf("%s: of %d bytes %d are left", kind.Name, full, left)
		}
	}
	runtime.KeepAlive(s)
}
