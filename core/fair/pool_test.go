package fair_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/intercept"
)

const mb, floor = 1 << 20, 64 << 10

// fill takes memory in pieces until there is no more for the share, and returns how much that was.
func fill(s *fair.Share) (taken int64) {
	for s.Take(mb) {
		taken += mb
	}
	return taken
}

func who(namespace, policy string) fair.Who { return fair.Who{Namespace: namespace, Policy: policy} }

func TestSharesAreFair(t *testing.T) {
	t.Parallel()
	p := fair.New(128*mb, nil, nil)
	var all []*fair.Share
	enter := func(w fair.Who) *fair.Share {
		s := p.Share(func() {})
		s.Join(w)
		all = append(all, s)
		return s
	}
	if s := enter(who("a", "x")); s.Fits(65*mb) || !s.Fits(64*mb) {
		t.Error("one connection alone may have half of the pool")
	}
	for i, c := range []struct {
		who  fair.Who
		want int64
		why  string
	}{
		{who("a", "x"), 64 * mb, "half is a connection's"},
		{who("a", "x"), 32 * mb, "three quarters are everybody's"},
		{who("a", "x"), 0, "the policy holds more than is left"},
		{who("a", "y"), 16 * mb, "another policy has half of what is left"},
		{who("a", "z"), 8 * mb, "the next half of that"},
		{who("a", "q"), 0, "the last sixteenth is not for a namespace that holds more than is left"},
		{who("b", "x"), 4 * mb, "another namespace has half of that"},
		{fair.Who{}, mb, "strangers have a quarter of what is left"},
	} {
		if got := fill(enter(c.who)); got != c.want {
			t.Errorf("%d: %v took %d MB, want %d: %s", i, c.who, got/mb, c.want/mb, c.why)
		}
	}
	if enter(who("a", "x")).Take(1000) {
		t.Error("a connection of a policy that holds more than is left took a little")
	}
	if !enter(who("e", "x")).Take(1000) {
		t.Error("another got nothing, although there is something left")
	}
	all[1].Add(20 * mb) // more than there is
	if s := enter(who("d", "x")); s.Take(1) {
		t.Error("memory was given that there is not")
	}
	for _, s := range all {
		s.Close()
	}
	if s := p.Stats(); s != (fair.Stats{Limit: 128 * mb}) {
		t.Errorf("in the end: %+v, want nothing held", s)
	}
}

func TestPlacesAreShared(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int][]int64{1: {1, 0}, 2: {2, 0}, 4: {3, 1, 0}, 5000: {3750, 625, 313}} {
		p := fair.NewPlaces(limit, "connections", nil)
		var ends []func()
		for i, want := range want {
			w := who(fmt.Sprint(i), "x")
			got := int64(0)
			for {
				end, err := p.Open(w, 1)
				if err != nil {
					if core.CodeOf(err) != core.Busy || !strings.Contains(core.TextOf(err), fmt.Sprintf("%d connections", limit)) {
						t.Errorf("of %d: refused with %v, want busy and the limit", limit, err)
					}
					break
				}
				got++
				ends = append(ends, end)
			}
			if got != want {
				t.Errorf("of %d places the client %d took %d, want %d", limit, i, got, want)
			}
		}
		for _, end := range ends {
			end()
		}
		if s := p.Stats(); s.Held != 0 {
			t.Errorf("of %d places %d are taken in the end", limit, s.Held)
		}
	}
}

func TestWhoHasSentMuchIsRefusedWhileMemoryIsTightOrFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g fair.Gauge
		p := fair.New(160*mb, nil, &g)
		heavy, light := p.Share(nil), p.Share(nil)
		defer heavy.Close()
		defer light.Close()
		heavy.Join(who("a", "x"))
		light.Join(who("a", "y"))
		set := func(l fair.Level) { // as it is measured, again and again
			time.Sleep(250 * time.Millisecond)
			g.Set(l)
		}
		if set(fair.Raised); !heavy.Take(20*mb) || !light.Take(mb) {
			t.Error("raised: nothing begins")
		}
		heavy.Add(-20 * mb) // it is stored
		once := p.Share(nil)
		once.Join(who("b", "once"))
		once.Take(20 * mb)
		once.Close()
		set(fair.Tight)
		next := p.Share(nil)
		next.Join(who("b", "once"))
		if next.Take(1) {
			t.Error("tight: what a policy has sent is forgotten with its last request")
		}
		next.Close()
		began := time.Now()
		if heavy.Take(1) || !light.Take(1) {
			t.Error("tight: one that has sent much of late goes on, or one that has not is refused")
		}
		if err := light.Await(t.Context(), 10*mb); core.CodeOf(err) != core.Busy || time.Since(began) != fair.AfterRefusal {
			t.Errorf("tight: one that asks for much: got %v after %v, want busy after %v", err, time.Since(began), fair.AfterRefusal)
		}
		began = time.Now()
		if err := heavy.Await(t.Context(), 1); core.CodeOf(err) != core.Busy || time.Since(began) != fair.AfterRefusal {
			t.Errorf("tight: got %v after %v, want busy after %v", err, time.Since(began), fair.AfterRefusal)
		}
		if bytes, waits := heavy.Credit(0, 1); bytes != 256<<10 || waits {
			t.Errorf("tight: %d bytes are delivered, waits %t, want 256 KiB", bytes, waits)
		}
		for range 40 {
			set(fair.Tight)
		}
		if !heavy.Take(1) {
			t.Error("ten seconds later what it has sent is not forgotten")
		}
		set(fair.Full)
		if heavy.Take(1) || light.Take(1) {
			t.Error("full: something begins in a namespace that has sent much")
		}
		little := p.Share(nil)
		little.Join(who("c", "z"))
		defer little.Close()
		if little.Take(10*mb) || !little.Take(mb) || !little.Take(mb) || little.Take(mb) {
			t.Error("full: a namespace that sends little may not begin 1/64 of the pool, or may begin more")
		}
		if bytes, waits := heavy.Credit(0, 1); bytes != 64<<10 || waits {
			t.Errorf("full: %d bytes are delivered, waits %t, want 64 KiB", bytes, waits)
		}
		if set(fair.Normal); !light.Take(mb) {
			t.Error("normal again: nothing begins")
		}
	})
}

func TestNewWorkNeedsRoomBesideWhatIsInProgress(t *testing.T) {
	t.Parallel()
	var g fair.Gauge
	p := fair.New(64*mb, nil, &g)
	a, b := p.Share(nil), p.Share(nil)
	a.Join(who("a", "x"))
	b.Join(who("b", "y"))
	g.SetRoom(30 * mb)
	if !a.Take(20*mb) || a.Take(11*mb) {
		t.Error("of 30 MB, 20 MB are refused, or 31 MB are given")
	}
	if !b.Take(mb / 2) {
		t.Error("a namespace that sends little is refused")
	}
	if g.SetRoom(80 * mb); !a.Take(11 * mb) {
		t.Error("11 MB more are refused although there is room")
	}
	if g.SetRoom(-mb); a.Take(1) {
		t.Error("without room, something begins")
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := fair.New(10*mb, nil, nil)
		holder, waiter := b.Share(func() {}), b.Share(nil)
		holder.Add(10 * mb)
		waiter.Join(who("a", "x"))
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
	b := fair.New(12*mb, nil, nil)
	holder := b.Share(func() {})
	holder.Add(12 * mb)
	var woken []int
	shares := make([]*fair.Share, 3)
	for i := range shares {
		shares[i] = b.Share(func() {
			woken = append(woken, i)
			shares[i].Take(mb)
		})
		shares[i].Join(who("a", "x"))
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

func gather(t *testing.T, b *fair.Pool, a fair.Arrival) ([]byte, *fair.Share, error) {
	t.Helper()
	w := b.Share(nil)
	w.Join(who("a", "x"))
	got, err := w.Gather(t.Context(), a)
	return got, w, err
}

func TestGatherTakesWhatAMessageHas(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 63 << 10, 64 << 10, 65 << 10, 3 * mb} {
		message := bytes.Repeat([]byte("0123456"), size/7+1)[:size]
		for name, said := range map[string]int64{"exactly": int64(size), "less": int64(size / 2), "more": int64(size + 1000), "nothing": -1} {
			b := fair.New(100*mb, nil, nil)
			judged := 0
			got, w, err := gather(t, b, fair.Arrival{
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
		arrival fair.Arrival
		want    error
	}{
		"too large, as it says":      {fair.Arrival{Reader: bytes.NewReader(nil), Size: 11, Limit: 10}, fair.ErrTooLarge},
		"too large":                  {fair.Arrival{Reader: endless, Size: -1, Limit: 10}, fair.ErrTooLarge},
		"too large, when it is seen": {fair.Arrival{Reader: bytes.NewReader(make([]byte, mb)), Size: mb, Limit: mb, Inspect: func([]byte) (int64, error) { return mb - 1, nil }}, fair.ErrTooLarge},
		"not as it should be":        {fair.Arrival{Reader: bytes.NewReader(make([]byte, mb)), Size: mb, Limit: mb, Inspect: func([]byte) (int64, error) { return 0, broken }}, broken},
		"reader":                     {fair.Arrival{Reader: iotest.ErrReader(broken), Size: -1, Limit: mb}, broken},
		"budget, as it says":         {fair.Arrival{Reader: bytes.NewReader(nil), Size: 6 * mb, Limit: 10 * mb}, core.QuotaExceeded},
		"budget":                     {fair.Arrival{Reader: bytes.NewReader(make([]byte, 20*mb)), Size: -1, Limit: 20 * mb}, core.QuotaExceeded},
	} {
		b := fair.New(10*mb, nil, nil)
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
	b := fair.New(100*mb, nil, nil)
	woken := 0
	s := b.Share(func() { woken++ })
	defer s.Close()
	s.Join(who("a", "x"))
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
	other.Join(who("b", "x"))
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
	p := fair.Begin(start)
	now := start
	for range 1000 { // as slow as may be, for long
		now = now.Add(time.Second)
		p.Went(fair.MinRate, now)
		if !p.Due().Equal(now.Add(fair.Grace)) {
			t.Fatalf("after %v: due in %v, want %v", now.Sub(start), p.Due().Sub(now), fair.Grace)
		}
	}
	p.Went(100*mb, now) // what came fast earns no longer pause
	if got := p.Due().Sub(now); got != fair.Grace {
		t.Errorf("after much: due in %v, want %v", got, fair.Grace)
	}
	slow := fair.Begin(start)
	now = start
	for slow.Due().After(now) {
		now = now.Add(time.Second)
		slow.Went(fair.MinRate/2, now)
	}
	if got := now.Sub(start); got != 2*fair.Grace {
		t.Errorf("half as fast as must be: given up after %v, want %v", got, 2*fair.Grace)
	}
}

// TestWhatGivesMemoryBackIsNeverRefused calls a broker at every level.
func TestWhatGivesMemoryBackIsNeverRefused(t *testing.T) {
	t.Parallel()
	var g fair.Gauge
	b, p := idle{}, fair.New(16*mb, nil, &g)
	front := intercept.New(&intercept.Space{Broker: b, Admin: b}, p)
	sent := p.Share(nil)
	defer sent.Close()
	sent.Join(fair.Of(nil))
	for range 3 * mb / floor { // strangers have little at once
		sent.Take(floor)
		sent.Add(-floor)
	}
	for level := fair.Normal; level <= fair.Full; level++ {
		g.Set(level)
		for name, c := range map[string]struct {
			refused fair.Level
			call    func() error
		}{
			"settle": {fair.Full + 1, func() error { return front.Settle(t.Context(), nil, core.Address{}, make([]core.Settlement, 1))[0] }},
			"renew":  {fair.Full + 1, func() error { return front.Renew(t.Context(), nil, core.Address{}, make([]core.LockToken, 1))[0].Err }},
			"cancel": {fair.Full + 1, func() error { return front.Cancel(t.Context(), nil, core.Address{}, nil) }},
			"purge":  {fair.Full + 1, func() error { _, err := front.Purge(t.Context(), nil, core.Address{}, time.Time{}, 1); return err }},
			"delete": {fair.Full + 1, func() error { return front.DeleteEntity(t.Context(), nil, "q") }},
			"create": {fair.Tight, func() error {
				_, err := front.CreateEntity(t.Context(), nil, core.Queue, "q", core.Settings{}, nil)
				return err
			}},
			"peek": {fair.Full, func() error { _, err := front.Peek(t.Context(), nil, core.Address{}, nil, 1, 1); return err }},
			"send": {fair.Tight, func() error {
				g.Set(fair.Normal)
				s, err := front.OpenSender(t.Context(), nil, core.Address{}, nil)
				if g.Set(level); err != nil {
					return err
				}
				defer s.Close()
				return s.Send(t.Context(), make([][]*core.Message, 1))[0].Err
			}},
		} {
			if err := c.call(); (err != nil) != (level >= c.refused) || err != nil && core.CodeOf(err) != core.Busy {
				t.Errorf("%s at %v: got %v", name, level, err)
			}
		}
	}
}

// idle is a broker that does nothing.
type idle struct {
	core.Broker
	core.Admin
}

func (idle) Settle(_ context.Context, _ core.Identity, _ core.Address, all []core.Settlement) []error {
	return make([]error, len(all))
}

func (idle) Renew(_ context.Context, _ core.Identity, _ core.Address, all []core.LockToken) []core.Renewal {
	return make([]core.Renewal, len(all))
}
func (idle) Cancel(context.Context, core.Identity, core.Address, []int64) error { return nil }
func (idle) Purge(context.Context, core.Identity, core.Address, time.Time, int) (int, error) {
	return 0, nil
}
func (idle) DeleteEntity(context.Context, core.Identity, string) error { return nil }
func (idle) CreateEntity(context.Context, core.Identity, core.Kind, string, core.Settings, *core.Rule) (core.Entity, error) {
	return core.Entity{}, nil
}

func (idle) Peek(context.Context, core.Identity, core.Address, *core.State, int64, int) ([]core.Delivery, error) {
	return nil, nil
}

func (idle) OpenSender(context.Context, core.Identity, core.Address, func(error)) (core.Sender, error) {
	return idleSender{}, nil
}

type idleSender struct{ core.Sender }

func (idleSender) Send(_ context.Context, groups [][]*core.Message) []core.Appended {
	return make([]core.Appended, len(groups))
}
func (idleSender) Close() {}
