package wal

import (
	"runtime"
	"testing"
)

// Small records take no more memory than Options.Recent says, and no buffer stays that a large batch
// has grown. It does not run beside other tests, whose memory it would count.
func TestWrittenRecordsTakeNoMoreMemoryThanRecent(t *testing.T) {
	for _, c := range []struct{ recent, most int }{{1, 1 << 20}, {4 << 20, 5 << 20}} {
		l := open(t, t.TempDir(), Options{Sync: Never, Recent: c.recent})
		before := heapInUse()
		for range 70 {
			records := make([]Record, 4500)
			for i := range records {
				records[i] = NewRecord([]byte("a head"), nil)
			}
			_, end := l.Append(make([]byte, 20*len(records)), records)
			if err := l.Wait(t.Context(), end); err != nil {
				t.Fatal(err)
			}
		}
		if _, end := l.Append(nil, nil); l.Wait(t.Context(), end) != nil { // the batch before is not the last
			t.Fatal(l.Err())
		}
		if grown := heapInUse() - before; grown > c.most {
			t.Errorf("recent records may take %d bytes: the log takes %d, want %d at most", c.recent, grown, c.most)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func heapInUse() int {
	runtime.GC()
	runtime.GC() // what pools hold goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
