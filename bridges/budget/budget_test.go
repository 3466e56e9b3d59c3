package budget_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/budget"
	"github.com/crosstown-mq/crosstown/core"
)

const mb = 1 << 20

// fill takes memory in pieces until there is no more for the share, and returns how much that was.
func fill(s *budget.Share) (taken int64) {
	for s.Take(mb) {
		taken += mb
	}
	return taken
}

func TestSharesAreFair(t *testing.T) {
	t.Parallel()
	b := budget.New(120*mb, nil)
	if b.Fits(61*mb) || !b.Fits(60*mb) {
		t.Error("one connection alone may have half of the budget")
	}
	one := b.Share(func() {})
	one.Join("a")
	if got := fill(one); got != 60*mb {
		t.Errorf("one connection took %d MB, want 60", got/mb)
	}
	two := b.Share(func() {})
	two.Join("a")
	if got := fill(two); got != 20*mb {
		t.Errorf("a second one of the namespace took %d MB beside, want 20: two thirds are the namespace's", got/mb)
	}
	three := b.Share(func() {})
	three.Join("b")
	if got := fill(three); got != 20*mb {
		t.Errorf("one of another namespace took %d MB beside, want 20", got/mb)
	}
	stranger := b.Share(func() {})
	if got := fill(stranger); got != 4*mb {
		t.Errorf("one without an identity took %d MB beside, want 4", got/mb)
	}
	one.Add(20 * mb) // more than there is
	four := b.Share(func() {})
	if four.Take(1) {
		t.Error("memory was given that there is not")
	}
	one.Add(-5 * mb)
	if !four.Take(32<<10) || four.Take(mb) {
		t.Error("while anything is free, everybody may have a little")
	}
	for _, s := range []*budget.Share{one, two, three, four, stranger} {
		s.Close()
	}
	if s := b.Stats(); s != (budget.Stats{Limit: 120 * mb}) {
		t.Errorf("in the end: %+v, want nothing held", s)
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(10*mb, nil)
		holder, waiter := b.Share(func() {}), b.Waiter(nil)
		holder.Add(10 * mb)
		waiter.Join("a")
		err := waiter.Await(t.Context(), mb)
		if core.CodeOf(err) != core.Busy {
			t.Errorf("without memory: got %v, want busy", err)
		}
		if err := waiter.Await(t.Context(), 6*mb); core.CodeOf(err) != core.QuotaExceeded {
			t.Errorf("more than there ever is: got %v, want a quota", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := waiter.Await(ctx, mb); !errors.Is(err, context.Canceled) {
			t.Errorf("given up: got %v", err)
		}
		time.AfterFunc(time.Second, func() { holder.Add(-5 * mb) })
		if err := waiter.Await(t.Context(), mb); err != nil {
			t.Errorf("once there is memory: %v", err)
		}
		if s := b.Stats(); s.Held != 6*mb || s.Waiting != 0 || s.Refused != 2 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestWhoeverWaitedLongestIsWokenFirst(t *testing.T) {
	t.Parallel()
	b := budget.New(12*mb, nil)
	holder := b.Share(func() {})
	holder.Add(12 * mb)
	var woken []int
	shares := make([]*budget.Share, 3)
	for i := range shares {
		shares[i] = b.Share(func() {
			woken = append(woken, i)
			shares[i].Take(mb)
		})
		shares[i].Join("a")
		shares[i].Wait(mb)
	}
	for _, want := range []int{1, 2, 3} {
		for len(woken) < want {
			holder.Add(-mb / 4)
		}
		if len(woken) != want || woken[want-1] != want-1 {
			t.Fatalf("woken: %v", woken)
		}
	}
}

func gather(t *testing.T, b *budget.Budget, a budget.Arrival) ([]byte, *budget.Waiter, error) {
	t.Helper()
	w := b.Waiter(nil)
	w.Join("a")
	got, err := w.Gather(t.Context(), a)
	return got, w, err
}

func TestGatherTakesWhatAMessageHas(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 63 << 10, 64 << 10, 65 << 10, 3 * mb} {
		message := bytes.Repeat([]byte("0123456"), size/7+1)[:size]
		for name, said := range map[string]int64{"exactly": int64(size), "less": int64(size / 2), "more": int64(size + 1000), "nothing": -1} {
			b := budget.New(100*mb, nil)
			judged := 0
			got, w, err := gather(t, b, budget.Arrival{
				Reader: iotest.HalfReader(bytes.NewReader(message)), Size: said, Limit: 10 * mb,
				Inspect: func(start []byte) (int64, error) { judged++; return 10 * mb, nil },
			})
			if err != nil || !bytes.Equal(got, message) {
				t.Errorf("%d bytes, of which the sender says %s: got %d, %v", size, name, len(got), err)
			}
			if s := b.Stats(); s.Held != int64(size) {
				t.Errorf("%d bytes, of which the sender says %s: %d are held", size, name, s.Held)
			}
			if judged > 1 || judged == 0 && size > 128<<10 || judged > 0 && size <= 64<<10 {
				t.Errorf("%d bytes, of which the sender says %s: judged %d times", size, name, judged)
			}
			w.Close()
		}
	}
}

func TestGatherRefuses(t *testing.T) {
	t.Parallel()
	endless := iotest.OneByteReader(bytes.NewReader(make([]byte, 20*mb)))
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		arrival budget.Arrival
		want    error
	}{
		"too large, as it says":      {budget.Arrival{Reader: bytes.NewReader(nil), Size: 11, Limit: 10}, budget.ErrTooLarge},
		"too large":                  {budget.Arrival{Reader: endless, Size: -1, Limit: 10}, budget.ErrTooLarge},
		"too large, when it is seen": {budget.Arrival{Reader: bytes.NewReader(make([]byte, mb)), Size: mb, Limit: mb, Inspect: func([]byte) (int64, error) { return mb - 1, nil }}, budget.ErrTooLarge},
		"not as it should be":        {budget.Arrival{Reader: bytes.NewReader(make([]byte, mb)), Size: mb, Limit: mb, Inspect: func([]byte) (int64, error) { return 0, broken }}, broken},
		"reader":                     {budget.Arrival{Reader: iotest.ErrReader(broken), Size: -1, Limit: mb}, broken},
		"budget, as it says":         {budget.Arrival{Reader: bytes.NewReader(nil), Size: 6 * mb, Limit: 10 * mb}, core.QuotaExceeded},
		"budget":                     {budget.Arrival{Reader: bytes.NewReader(make([]byte, 20*mb)), Size: -1, Limit: 20 * mb}, core.QuotaExceeded},
	} {
		b := budget.New(10*mb, nil)
		_, _, err := gather(t, b, c.arrival)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if s := b.Stats(); s.Held != 0 {
			t.Errorf("%s: %d bytes are held afterwards", name, s.Held)
		}
	}
}

func TestReceiversShareTheBytesOfAConnection(t *testing.T) {
	t.Parallel()
	b := budget.New(100*mb, nil)
	woken := 0
	s := b.Share(func() { woken++ })
	defer s.Close()
	s.Join("a")
	for _, c := range []struct{ used, receivers, want int }{
		{0, 1, 8 * mb},
		{4 * mb, 4, 4 * mb},
		{4*mb + 1, 4, 0}, // half is not free yet
		{-mb, 1, 9 * mb}, // the last message was larger
		{0, 32, mb},
		{8 * mb, 32, 0}, // from when it had fewer to share with
	} {
		if got, waits := s.Credit(c.used, c.receivers); got != c.want || waits {
			t.Errorf("%d used of %d receivers: got %d, waits %t, want %d", c.used, c.receivers, got, waits, c.want)
		}
	}
	other := b.Share(nil)
	defer other.Close()
	other.Join("b")
	other.Add(100 * mb)
	if got, waits := s.Credit(0, 1); got != 0 || !waits {
		t.Errorf("without memory: got %d, waits %t", got, waits)
	}
	other.Add(-100 * mb)
	if woken != 1 {
		t.Errorf("once there is memory: woken %d times", woken)
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0)
	p := budget.Begin(start)
	now := start
	for range 1000 { // as slow as may be, for long
		now = now.Add(time.Second)
		p.Went(budget.MinRate, now)
		if !p.Due().Equal(now.Add(budget.Grace)) {
			t.Fatalf("after %v: due in %v, want %v", now.Sub(start), p.Due().Sub(now), budget.Grace)
		}
	}
	p.Went(100*mb, now) // what came fast earns no longer pause
	if got := p.Due().Sub(now); got != budget.Grace {
		t.Errorf("after much: due in %v, want %v", got, budget.Grace)
	}
	slow := budget.Begin(start)
	now = start
	for slow.Due().After(now) {
		now = now.Add(time.Second)
		slow.Went(budget.MinRate/2, now)
	}
	if got := now.Sub(start); got != 2*budget.Grace {
		t.Errorf("half as fast as must be: given up after %v, want %v", got, 2*budget.Grace)
	}
}
