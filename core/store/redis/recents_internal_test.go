package redis

import "testing"

func TestRecentRecordsAreBounded(t *testing.T) {
	t.Parallel()
	r := recents{limit: 1 << 20}
	r.reset(true)
	sh := &shard{}
	record := make([]byte, 64<<10)
	claimed := func(n int64) bool {
		entries, others := r.take(sh, []claim{{n: n}})
		return len(entries) == 1 && entries[0].N == n && len(others) == 0
	}
	for n := int64(1); n <= 10_000; n++ {
		r.add(sh, 0, []int64{n}, []stored{{record: record}})
		if n%3 == 0 && !claimed(n) {
			t.Fatalf("message %d is not there", n)
		}
		if r.bytes > r.limit || len(r.order) > 2*len(r.records)+1001 {
			t.Fatalf("after %d messages: %d bytes, %d of %d in order", n, r.bytes, len(r.order), len(r.records))
		}
	}
	if want := r.limit / len(record); len(r.records) != want {
		t.Errorf("%d records, want %d", len(r.records), want)
	}
	if claimed(3) || claimed(1) || !claimed(10_000) {
		t.Error("the oldest are kept, not the newest")
	}
	r.add(sh, 0, []int64{20_000}, []stored{{record: make([]byte, r.limit/2)}})
	if claimed(20_000) {
		t.Error("a record is kept that takes the place of most others")
	}
	r.connected()
	r.add(sh, 0, []int64{30_000}, []stored{{record: record}})
	if len(r.records) != 0 || r.bytes != 0 || len(r.order) != 0 {
		t.Errorf("%d records of %d bytes of before a connection was opened", len(r.records), r.bytes)
	}
	r.add(sh, 1, []int64{30_000}, []stored{{record: record}})
	if !claimed(30_000) || r.bytes != 0 {
		t.Errorf("afterwards: %d records of %d bytes", len(r.records), r.bytes)
	}
}
