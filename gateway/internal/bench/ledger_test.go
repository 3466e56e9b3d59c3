package bench

import "testing"

func TestLedgerFindsLostAndDoubled(t *testing.T) {
	t.Parallel()
	l := newLedger(2)
	for n := range uint64(200) {
		l.acknowledge(0, n)
	}
	l.arrive(1, 7) // arrives before its acknowledgement
	l.acknowledge(1, 7)
	l.arrive(1, 8) // never acknowledged: neither lost nor doubled
	for n := range uint64(200) {
		if n != 3 && n != 150 && !l.arrive(0, n) {
			t.Errorf("message %d is not a first delivery", n)
		}
	}
	if l.arrive(0, 70) {
		t.Error("a second delivery passed for a first")
	}
	if missing, doubled := l.totals(); missing != 2 || doubled != 1 {
		t.Errorf("got %d missing and %d doubled, want 2 and 1", missing, doubled)
	}
}

func TestOrderCountsStrays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		numbers []uint64
		want    int64
	}{
		{[]uint64{0, 1, 2, 5, 9}, 0},
		{[]uint64{1, 0}, 1},
		{[]uint64{0, 3, 1, 2, 4}, 2},
	} {
		o := order{next: make([]uint64, 1)}
		for _, n := range tt.numbers {
			o.see(0, n)
		}
		if o.strayed != tt.want {
			t.Errorf("%v: got %d out of order, want %d", tt.numbers, o.strayed, tt.want)
		}
	}
}

func TestStampSurvivesThePayload(t *testing.T) {
	t.Parallel()
	want := stamp{run: 1 << 63, sender: 3, number: 1 << 40, due: 12345}
	payload := make([]byte, stampSize+10)
	want.write(payload)
	if got, ok := readStamp(payload); !ok || got != want {
		t.Errorf("got %+v %v, want %+v", got, ok, want)
	}
	for _, other := range [][]byte{nil, payload[:stampSize-1], make([]byte, 100)} {
		if _, ok := readStamp(other); ok {
			t.Errorf("%d foreign bytes passed for a stamp", len(other))
		}
	}
}
