package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/forward"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// distant is a remote that keeps what it is sent, and fails as send says.
type distant struct {
	window int
	send   func(m *core.Message) (takes bool, answer error)
	took   func() time.Duration // how long a call takes; nil: no time

	mu    sync.Mutex
	down  bool
	backs map[*func()]struct{}
	got   []*core.Message
	calls int
}

func newDistant() *distant { return &distant{window: 50, backs: map[*func()]struct{}{}} }

func (r *distant) Window() int { return r.window }

func (r *distant) Watch(back func()) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backs[&back] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.backs, &back)
	}
}

func (r *distant) cut(down bool) {
	r.mu.Lock()
	r.down = down
	var backs []func()
	for b := range r.backs {
		backs = append(backs, *b)
	}
	r.mu.Unlock()
	if !down {
		for _, back := range backs {
			back()
		}
	}
}

func (r *distant) Send(ctx context.Context, _ string, ms []*core.Message) []error {
	if r.took != nil {
		select {
		case <-time.After(r.took()):
		case <-ctx.Done():
			return slices.Repeat([]error{&core.Away{Remote: "hq", Err: ctx.Err()}}, len(ms))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	answers := make([]error, len(ms))
	waits := map[string]error{}
	for i, m := range ms {
		key := m.PinKey()
		switch {
		case r.down:
			answers[i] = &core.Away{Remote: "hq", Err: errBroken}
		case key != "" && waits[key] != nil:
			answers[i] = waits[key]
		default:
			takes, err := true, error(nil)
			if r.send != nil {
				takes, err = r.send(m)
			}
			if takes {
				r.got = append(r.got, m)
			}
			answers[i] = err
		}
		if answers[i] != nil && !forward.IsPermanent(answers[i]) {
			waits[key] = answers[i]
		}
	}
	return answers
}

// all is what it has taken, and asked how often it was asked.
func (r *distant) all() []*core.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func (r *distant) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

func (r *distant) bodies() string {
	var all []string
	for _, m := range r.all() {
		all = append(all, string(m.Body.Bytes))
	}
	return strings.Join(all, " ")
}

// withRemote runs a test with a broker that knows the remote hq.
func withRemote(t *testing.T, f func(t *testing.T, b *started, hq *distant)) {
	t.Helper()
	t.Parallel()
	hq := newDistant()
	inBubbleWith(t, Options{Namespace: "ns", Remotes: map[string]core.Remote{"HQ": hq}}, func(t *testing.T, b *started) { f(t, b, hq) })
}

func TestMessagesAreForwardedToARemote(t *testing.T) {
	withRemote(t, func(t *testing.T, b *started, hq *distant) {
		b.create(t, "q", forwardTo("sb://somewhere/hq:Orders"), forwardDead("hq:graves"))
		b.createTopic(t, "t")
		sub := b.subscribe(t, "t", "s", nil, forwardTo("HQ:orders"))
		own := text("1")
		own.MessageID = core.StringID("mine")
		b.send(t, "q", own, text("2"))
		rests()
		b.send(t, "t", text("3"))
		rests()
		if got := hq.bodies(); got != "1 2 3" {
			t.Fatalf("the remote has %q, want 1 2 3", got)
		}
		b.holds(t, map[string]string{"q": "", sub: ""})
		if got := hq.all()[0]; got.MessageID != core.StringID("mine") || got.Transit != nil || hopsOf(got) != uint8(1) {
			t.Errorf("the first is %+v, want its own id, no transit and one hop", got)
		}
		if hq.all()[1].MessageID.IsZero() {
			t.Error("a message went without an id")
		}
	})
}

func hopsOf(m *core.Message) any {
	v, _ := m.Annotations.Get(core.AnnotationHops)
	return v
}

func TestSettingsNameOnlyRemotesThatThereAre(t *testing.T) {
	withRemote(t, func(t *testing.T, b *started, _ *distant) {
		s := core.DefaultSettings(core.Queue)
		for to, want := range map[string]string{
			"moon:orders": "ForwardTo is 'moon:orders', but the namespace has no remote 'moon': use one of its remotes (hq), or add the remote to the gateway's configuration.",
			"hq:":         "ForwardTo is 'hq:', which names no entity of the remote: write REMOTE:ENTITY.",
		} {
			s.ForwardTo = to
			if _, err := b.CreateEntity(t.Context(), root, core.Queue, "q", s, nil); core.TextOf(err) != want {
				t.Errorf("%s: got %v, want %s", to, err, want)
			}
		}
		s.ForwardTo = "hq:orders"
		narrow := core.Identity{{Policy: "p", Rights: core.AllRights, Scope: "q"}}
		if _, err := b.CreateEntity(t.Context(), narrow, core.Queue, "q", s, nil); !errors.Is(err, core.Unauthorized) {
			t.Errorf("with a grant for the queue alone: got %v, want %v", err, core.Unauthorized)
		}
		b.create(t, "q")
		b.update(t, "q", forwardTo("hq:orders"))
	})
}

func TestMessagesWaitForHoursUntilARemoteIsBack(t *testing.T) {
	withRemote(t, func(t *testing.T, b *started, hq *distant) {
		b.create(t, "q", partitioned, forwardTo("hq:orders"), func(s *core.Settings) { s.MaxDeliveryCount = 1 })
		hq.cut(true)
		b.send(t, "q", numbered(200)...)
		time.Sleep(12 * time.Hour)
		if n := hq.asked(); n > 4*12*360+100 {
			t.Errorf("tried %d times in 12 hours", n)
		}
		for i := range uint16(4) {
			p := b.at(t, "q", core.Main)
			p.Index = i
			if s, err := storetest.Stats(t.Context(), b.store, p); err != nil || s.Locked > 0 {
				t.Errorf("partition %d: %+v, %v, want no message under lock", i, s, err)
			}
		}
		hq.cut(false)
		rests() // at once, not after the pause
		if got := len(hq.all()); got != 200 {
			t.Errorf("%d messages arrived, want 200", got)
		}
		b.holds(t, map[string]string{"q": "", "q/$DeadLetterQueue": "", "q/$Transfer/$DeadLetterQueue": ""})
	})
}

func TestWhatARemoteWillNeverTakeIsParkedWithTheReason(t *testing.T) {
	withRemote(t, func(t *testing.T, b *started, hq *distant) {
		hq.send = func(m *core.Message) (bool, error) {
			switch string(m.Body.Bytes) {
			case "1":
				return false, core.Refuse(core.NotAllowed, "The remote 'hq' refuses it: amqp:decode-error.")
			case "2":
				return false, core.Refuse(core.TooLarge, "It is too large.")
			}
			return true, nil
		}
		b.create(t, "q", forwardTo("hq:orders"))
		ms := numbered(4)
		for _, m := range ms {
			m.SessionID = "s"
		}
		b.send(t, "q", ms...)
		rests()
		if got := hq.bodies(); got != "0 3" {
			t.Errorf("the remote has %q, want 0 3", got)
		}
		b.holds(t, map[string]string{"q": "", "q/$Transfer/$DeadLetterQueue": "1 2"})
		why := map[string]string{}
		for _, d := range b.all(t, "q/$Transfer/$DeadLetterQueue") {
			why[string(d.Body.Bytes)] = fmt.Sprint(property(t, d, core.PropertyDeadLetterReason), ": ", property(t, d, core.PropertyDeadLetterDescription))
		}
		if why["1"] != "ForwardingFailed: The remote 'hq' refuses it: amqp:decode-error." || why["2"] != "MessageSizeExceeded: It is too large." {
			t.Errorf("reasons %q", why)
		}
	})
}

func TestACircleOfBrokersEnds(t *testing.T) {
	withRemote(t, func(t *testing.T, b *started, hq *distant) {
		b.create(t, "q", forwardTo("hq:orders"))
		m := text("m")
		for range core.MaxRemoteHops {
			b.send(t, "q", m)
			rests()
			m = hq.all()[len(hq.all())-1]
		}
		b.send(t, "q", m)
		rests()
		b.holds(t, map[string]string{"q/$DeadLetterQueue": "m"})
		if len(hq.all()) != core.MaxRemoteHops {
			t.Errorf("it went %d times, want %d", len(hq.all()), core.MaxRemoteHops)
		}
	})
}

func TestARouteMayLeadToARemote(t *testing.T) {
	withRemote(t, func(t *testing.T, b *started, hq *distant) {
		b.create(t, "x")
		ent := b.create(t, "via")
		for i, to := range []string{"hq:Orders", "x"} {
			m := text(fmt.Sprint(i))
			m.Transit = &core.Transit{Destination: to}
			partition(&ent, 0, core.Transfer).In(b.store).Append(t.Context(), each(m))
		}
		time.Sleep(forward.ScanInterval)
		rests()
		b.holds(t, map[string]string{"via/$Transfer": "", "x": "1"})
		if got := hq.bodies(); got != "0" {
			t.Errorf("the remote has %q, want 0", got)
		}
	})
}

// A slow remote keeps a step's messages longer than their locks last: they are
// renewed, and nobody sends them again.
func TestLocksOutlastASlowRemote(t *testing.T) {
	withRemote(t, func(t *testing.T, b *started, hq *distant) {
		hq.took = func() time.Duration { return 90 * time.Second }
		b.create(t, "q", forwardTo("hq:orders"))
		b.send(t, "q", numbered(30)...)
		time.Sleep(10 * time.Minute)
		if len(hq.all()) != 30 {
			t.Errorf("%d messages arrived, want 30", len(hq.all()))
		}
	})
}

func TestRemotesThatHangKeepNobodyElseFromWork(t *testing.T) {
	withRemote(t, func(t *testing.T, b *started, hq *distant) {
		hq.took = func() time.Duration { return time.Hour }
		b.create(t, "to")
		b.create(t, "from", forwardTo("to"))
		for i := range forward.MaxConcurrentSteps + 10 {
			name := fmt.Sprint("q", i)
			b.create(t, name, forwardTo("hq:orders"))
			b.send(t, name, text("m"))
		}
		synctest.Wait()
		b.send(t, "from", text("m"))
		rests()
		b.holds(t, map[string]string{"to": "m"})
	})
}

// Two gateways forward over stores that fail and a remote that fails at random
// and is cut off, and one after the other dies. What the remote has, each message
// counted once, is every message, in the order of its key, but those that are
// parked because the remote will never take them.
func TestEveryMessageGetsToARemoteInTheOrderOfItsKey(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { toRemoteAtRandom(t, seed) })
		})
	}
}

func toRemoteAtRandom(t *testing.T, seed uint64) {
	const messages, keys = 1500, 7
	r, faults := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1))
	hq := newDistant()
	poison := func(n int) bool { return n%100 == 99 }
	failing := true                                                                               // guarded by hq.mu
	hq.took = func() time.Duration { return time.Duration(1+rand.IntN(3000)) * time.Millisecond } // both gateways ask at a time
	hq.send = func(m *core.Message) (bool, error) {
		var n int
		if _, err := fmt.Sscan(string(m.Body.Bytes), &n); err != nil {
			t.Error(err)
		}
		if poison(n) {
			return false, core.Refuse(core.InvalidArgument, "poison")
		}
		if !failing {
			return true, nil
		}
		switch faults.IntN(60) {
		case 0:
			return false, core.Busy
		case 1:
			return false, &core.Away{Remote: "hq", Err: errBroken}
		case 2: // it arrived, and nobody hears of it
			return true, &core.Away{Remote: "hq", Err: errBroken}
		}
		return true, nil
	}
	store := memory.New(memory.Options{})
	var mu sync.Mutex
	weather := rand.New(rand.NewPCG(seed, 2))
	fault := func(string) (before, after bool) {
		mu.Lock()
		defer mu.Unlock()
		n := weather.IntN(20)
		return n == 0, n == 1
	}
	starts := func() *gateway {
		return startGatewayWith(store, Options{Namespace: "ns", Remotes: map[string]core.Remote{"hq": hq}})
	}
	gateways := []*gateway{starts(), starts()}
	admin := newStarted(gateways[0].Broker, &faulty{Store: store}, nil)
	admin.create(t, "q", forwardTo("hq:orders"), partitioned)
	s, err := New(store, Options{Namespace: "ns"}).OpenSender(t.Context(), root, core.At("q"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gateways {
		g.store.set(fault)
	}
	for sent := 0; sent < messages; {
		var ms []*core.Message
		for range min(1+r.IntN(60), messages-sent) {
			m := text(fmt.Sprint(sent))
			m.MessageID = core.StringID(fmt.Sprint("id", sent))
			if sent%2 == 0 {
				m.SessionID = fmt.Sprint("s", sent%keys)
			} else {
				m.PartitionKey = fmt.Sprint("p", sent%keys)
			}
			ms = append(ms, m)
			sent++
		}
		for _, a := range s.Send(t.Context(), each(ms...)) {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
		switch r.IntN(8) {
		case 0:
			i := r.IntN(len(gateways))
			gateways[i].kill()
			gateways[i] = starts()
			gateways[i].store.set(fault)
		case 1:
			hq.cut(true)
		default:
			hq.cut(false)
		}
	}
	for _, g := range gateways {
		g.store.set(nil)
	}
	hq.mu.Lock()
	failing = false
	hq.mu.Unlock()
	hq.cut(false)
	time.Sleep(time.Hour)
	synctest.Wait()
	for _, g := range gateways {
		g.end()
	}
	seen, last := map[int]bool{}, map[string]int{}
	for _, m := range hq.all() {
		var n int
		_, _ = fmt.Sscan(string(m.Body.Bytes), &n)
		if seen[n] {
			continue // as a target that detects duplicates has it
		}
		seen[n] = true
		if before, ok := last[m.PinKey()]; ok && before > n {
			t.Errorf("message %d of %s came after %d", n, m.PinKey(), before)
		}
		last[m.PinKey()] = n
	}
	parked := map[int]bool{}
	b := New(store, Options{Namespace: "ns"})
	defer b.stop()
	ent, _ := store.Entity(t.Context(), "ns", "q")
	for i := range ent.Partitions {
		ds, err := partition(&ent, uint16(i), core.TransferDeadLetter).In(store).Peek(t.Context(), core.PeekRequest{Max: messages})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			var n int
			_, _ = fmt.Sscan(string(d.Body.Bytes), &n)
			if parked[n] {
				t.Errorf("message %d is parked twice", n)
			}
			parked[n] = true
		}
	}
	for n := range messages {
		if seen[n] == poison(n) || parked[n] != poison(n) {
			t.Errorf("message %d: arrived %v, parked %v", n, seen[n], parked[n])
		}
	}
	if rt, err := b.Holding(t.Context(), "q"); err != nil || rt.Counts[core.Main].Ready+rt.Counts[core.Main].Locked > 0 {
		t.Errorf("the source still holds %+v, %v", rt, err)
	}
	if !slices.ContainsFunc(hq.all(), func(m *core.Message) bool { return m.SessionID != "" }) {
		t.Error("no session was seen")
	}
}

func TestAMessageThatComesAgainIsStoredOnceUntilItIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		again := func() *core.Message {
			m := text("m")
			m.Transit = &core.Transit{Key: "remote/hq/orders/17"}
			return m
		}
		for range 5 {
			b.send(t, "q", again())
		}
		b.holds(t, map[string]string{"q": "m"})
		if err := b.Forget(t.Context(), "q", []string{"remote/hq/orders/17"}); err != nil {
			t.Fatal(err)
		}
		b.send(t, "q", again())
		b.holds(t, map[string]string{"q": "m m"})
	})
}

func TestAResetDoesNotWaitForARemote(t *testing.T) {
	withRemote(t, func(t *testing.T, b *started, hq *distant) {
		hq.took = func() time.Duration { return time.Hour }
		b.create(t, "q", forwardTo("hq:orders"))
		b.send(t, "q", text("m"))
		synctest.Wait()
		began := time.Now()
		if err := b.Reset(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > forward.CallTimeout {
			t.Errorf("it took %v", took)
		}
		b.holds(t, map[string]string{"q": ""})
	})
}

func TestAnAccountTellsOfTheRemote(t *testing.T) {
	t.Parallel()
	hq := newDistant()
	inBubbleWith(t, Options{
		Namespace: "ns", Histories: []For[core.HistoryBounds]{{Entity: "*", Set: core.HistoryBounds{Keep: 24 * time.Hour, Max: 1000}}}, Remotes: map[string]core.Remote{"hq": hq},
	}, func(t *testing.T, b *started) {
		b.create(t, "q", forwardTo("hq:Orders"))
		b.send(t, "q", named("m", text("m")))
		rests()
		b.tells(t, "q", "m", "accepted by=root", "forwarded entity=hq:Orders")
	})
}
