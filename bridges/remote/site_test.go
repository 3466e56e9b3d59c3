package remote

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

var root = core.Identity{{Policy: "root", Rights: core.AllRights}}

// site is a broker with its AMQP bridge, and a way to it that can be cut.
type site struct {
	*broker.Broker
	way *way
}

// newSite runs a site until the test ends.
func newSite(t testing.TB, remotes map[string]core.Remote) *site {
	t.Helper()
	return newSiteAt(t, remotes, nil)
}

// newSiteAt is newSite with a clock.
func newSiteAt(t testing.TB, remotes map[string]core.Remote, clock func() time.Time) *site {
	t.Helper()
	b := broker.New(memory.New(memory.Options{Clock: clock}), broker.Options{Namespace: "ns", Remotes: remotes})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	authority := auth.New(auth.Options{Policies: []core.AccessRule{{Name: "root", PrimaryKey: "key", Rights: core.AllRights}}})
	bridge := amqp.New(b, authority, amqp.Options{DrainGrace: time.Millisecond})
	running(t, b.Run)
	running(t, func(ctx context.Context) error { return bridge.Serve(ctx, ln) })
	return &site{b, newWay(t, ln.Addr().String())}
}

// running runs a task until the test ends.
func running(t testing.TB, task func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := task(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// way passes connections on, as long as it is open.
type way struct {
	to string
	ln net.Listener

	mu    sync.Mutex
	shut  bool
	mute  chan struct{} // not nil: nothing passes until it is closed, and nobody is told
	left  int           // in a storm: bytes that pass before the next cut
	cuts  int           // in this storm
	wild  bool          // there is a storm
	conns map[net.Conn]struct{}
}

func newWay(t testing.TB, to string) *way {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{to: to, ln: ln, conns: map[net.Conn]struct{}{}}
	t.Cleanup(func() { _ = ln.Close(); w.swallow(false); w.cut(true) })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go w.pass(c)
		}
	}()
	return w
}

func (w *way) dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", w.ln.Addr().String())
}

func (w *way) pass(c net.Conn) {
	defer func() { _ = c.Close() }()
	w.mu.Lock()
	shut := w.shut
	w.mu.Unlock()
	if shut {
		return
	}
	onward, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer func() { _ = onward.Close() }()
	w.mu.Lock()
	w.conns[c], w.conns[onward] = struct{}{}, struct{}{}
	w.mu.Unlock()
	go w.copy(c, onward)
	w.copy(onward, c)
}

func (w *way) copy(to, from net.Conn) {
	b := make([]byte, 8<<10)
	for {
		n, err := from.Read(b)
		w.mu.Lock()
		mute := w.mute
		w.mu.Unlock()
		if mute != nil {
			<-mute
		}
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				break
			}
			w.passed(n)
		}
		if err != nil {
			break
		}
	}
	_, _ = to.Close(), io.EOF
}

// storm cuts the way again and again, each time when some bytes have passed: so much passes between two
// cuts, however slow the machine is.
func (w *way) storm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wild, w.left = true, 0
}

// calm ends a storm, and returns how often it has cut the way.
func (w *way) calm() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wild = false
	return w.cuts
}

func (w *way) passed(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left -= n; w.wild && w.left < 0 {
		w.left = rand.IntN(16 << 10)
		w.cuts++
		w.breakAll()
	}
}

// cut breaks what passes, and keeps others from passing while it is shut.
func (w *way) cut(shut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = shut
	w.breakAll()
}

func (w *way) breakAll() {
	for c := range w.conns {
		_ = c.Close()
		delete(w.conns, c)
	}
}

// swallow has nothing pass, without a word, until it is told otherwise.
func (w *way) swallow(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mute != nil {
		close(w.mute)
		w.mute = nil
	}
	if on {
		w.mute = make(chan struct{})
	}
}

// options are those of a remote that is the site.
func (s *site) options(change ...func(*Options)) Options {
	o := Options{Name: "hq", Address: s.way.to, Dial: s.way.dial, Host: "hq.example", Policy: "root", Key: "key", Batches: true}
	for _, c := range change {
		c(&o)
	}
	return o
}

// pair is a site here that has the other for a remote.
func pair(t testing.TB, change ...func(*Options)) (here, there *site, hq *Remote) {
	t.Helper()
	there = newSite(t, nil)
	hq = New(there.options(change...))
	here = newSite(t, map[string]core.Remote{"hq": hq})
	here.runs(t, hq)
	return here, there, hq
}

// runs keeps the site's connection to a remote until the test ends.
func (s *site) runs(t testing.TB, r *Remote) {
	t.Helper()
	s.runsWithin(t, r, nil)
}

// runsWithin is runs with the memory for messages that are pulled.
func (s *site) runsWithin(t testing.TB, r *Remote, memory *fair.Pool) {
	t.Helper()
	running(t, func(ctx context.Context) error {
		return r.Run(ctx, Local{Broker: s, Identity: root, Memory: memory, ForwardedTo: s.ForwardedTo, Forget: s.Forget})
	})
}

func (s *site) create(t testing.TB, name string, change ...func(*core.Settings)) {
	t.Helper()
	settings := core.DefaultSettings(core.Queue)
	for _, c := range change {
		c(&settings)
	}
	if _, err := s.CreateEntity(t.Context(), root, core.Queue, name, settings, nil); err != nil {
		t.Fatal(err)
	}
}

func forwardTo(name string) func(*core.Settings) {
	return func(s *core.Settings) { s.ForwardTo = name }
}

func detecting(s *core.Settings) { s.RequiresDuplicateDetection = true }

func (s *site) send(t testing.TB, name string, ms ...*core.Message) {
	t.Helper()
	to, err := s.OpenSender(t.Context(), root, core.At(name), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	groups := make([][]*core.Message, len(ms))
	for i, m := range ms {
		groups[i] = []*core.Message{m}
	}
	for i, a := range to.Send(t.Context(), groups) {
		if a.Err != nil {
			t.Fatalf("message %d: %v", i, a.Err)
		}
	}
}

func text(body string) *core.Message {
	return &core.Message{MessageID: core.StringID("id" + body), Body: core.Body{Bytes: []byte(body)}}
}

func numbered(from, n int) []*core.Message {
	ms := make([]*core.Message, n)
	for i := range ms {
		ms[i] = text(fmt.Sprint(from + i))
	}
	return ms
}

// arrive waits until an address holds at least n messages.
func (s *site) arrive(t testing.TB, address string, n int) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("%s holds %d messages", address, n), func() bool {
		_, rt, err := s.Entity(t.Context(), root, address)
		return err == nil && rt.Active >= int64(n)
	})
}

// all is what an address holds, when that is at least n, or after a long time.
func (s *site) all(t testing.TB, address string, n int) (got []core.Delivery) {
	t.Helper()
	eventually.Within(eventually.Bound, func() bool {
		got = nil
		for from := int64(0); ; {
			ds, err := s.Peek(t.Context(), root, core.At(address), nil, from, 500)
			if err != nil {
				t.Fatal(err)
			}
			if len(ds) == 0 {
				break
			}
			got = append(got, ds...)
			from = ds[len(ds)-1].SequenceNumber + 1
		}
		return len(got) >= n
	})
	return got
}
