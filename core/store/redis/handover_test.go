package redis_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// taker is a receiver on a gateway that takes what it is handed over.
type taker struct {
	free   int   // credit
	bytes  int64 // 0: no bound
	handed chan handed
	woken  chan struct{}
}

type handed struct {
	ds   []core.Delivery
	next time.Time
	more bool
	err  error
}

// watch has a taker with so much credit wait for the messages of a queue, in which it has found none.
func watch(t *testing.T, s *redisstore.Store, p core.Partition, credit int) *taker {
	t.Helper()
	w := &taker{handed: make(chan handed, 100), woken: make(chan struct{}, 1000)}
	t.Cleanup(p.In(s).Watch(w))
	await(t, w.woken) // it listens
	lock(t, s, p, 1)
	w.free = credit
	return w
}

func await[T any](t *testing.T, c <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-c:
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	return got
}

func (w *taker) Wake(core.SessionKey) { w.woken <- struct{}{} }

func (w *taker) Reserve() core.Most { return core.Most{Messages: w.free, Bytes: w.bytes} }

func (w *taker) HandOver(ds []core.Delivery, next time.Time, more bool, err error) {
	w.handed <- handed{ds, next, more, err}
}

// texts are the bodies of deliveries.
func texts(ds []core.Delivery) (all []string) {
	for i := range ds {
		all = append(all, string(ds[i].Body.Bytes))
	}
	return all
}

func TestAGatewayHandsItsMessagesToItsReceiver(t *testing.T) {
	t.Parallel()
	s := open(t, server(t).URL(), redisstore.Options{Prefix: prefix()})
	p := queue(t, s)
	w := watch(t, s, p, 2)
	for len(w.woken) > 0 {
		<-w.woken
	}

	send(t, s, p, "a")
	if got := await(t, w.handed); !slices.Equal(texts(got.ds), []string{"a"}) || got.more || got.err != nil {
		t.Errorf("one message for two: got %q, more %v, %v", texts(got.ds), got.more, got.err)
	} else if err := settle(s, p, core.Complete, got.ds[0]); err != nil {
		t.Errorf("its lock: %v", err)
	}
	send(t, s, p, "b", "c")
	if got := await(t, w.handed); !slices.Equal(texts(got.ds), []string{"b", "c"}) || got.more || got.next.IsZero() {
		t.Errorf("two messages for two: got %q, more %v, next %v", texts(got.ds), got.more, got.next)
	}
	send(t, s, p, "d", "e", "f")
	if got := await(t, w.handed); !slices.Equal(texts(got.ds), []string{"d", "e"}) || !got.more {
		t.Errorf("three messages for two: got %q, more %v", texts(got.ds), got.more)
	}
	if got := lock(t, s, p, 9); !slices.Equal(texts(got), []string{"f"}) {
		t.Errorf("the rest: got %q", texts(got))
	}
	if n := len(w.woken); n > 0 {
		t.Errorf("the receiver was woken %d times beside that", n)
	}
}

// The sizes of messages are not known when they are locked: what is too large is unlocked, in its place.
func TestNoMoreBytesAreHandedOverThanTheReceiverTakes(t *testing.T) {
	t.Parallel()
	s := open(t, server(t).URL(), redisstore.Options{Prefix: prefix()})
	p := queue(t, s)
	send(t, s, p, "small")
	lock(t, s, p, 1)
	w := watch(t, s, p, 9)
	w.bytes = 10_000
	large := strings.Repeat("x", 9000)
	send(t, s, p, "a", "b", large, "c", large)
	if got := await(t, w.handed); !slices.Equal(texts(got.ds), []string{"a", "b", large, "c"}) || !got.more {
		t.Errorf("got %d messages, more %v, want the four that fit", len(got.ds), got.more)
	}
	if got := lock(t, s, p, 9); !slices.Equal(texts(got), []string{large}) {
		t.Errorf("the rest: got %d messages", len(got))
	}
}

// Messages that cannot be unlocked are returned: those that follow must not come before them.
func TestWhatIsTooLargeAndStaysLockedIsReturned(t *testing.T) {
	t.Parallel()
	proxy := redistest.Proxied(t, server(t))
	s := open(t, proxy.URL(), redisstore.Options{Prefix: prefix()})
	p := queue(t, s)
	send(t, s, p, "small")
	lock(t, s, p, 1)
	large := strings.Repeat("x", 9000)
	send(t, s, p, "a", large, "c")
	var tries atomic.Int32
	proxy.Meddle(func(q redistest.Request) error {
		if bytes.Contains(q.Bytes, []byte("release")) {
			tries.Add(1)
			return errors.New("away")
		}
		return nil
	})
	ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 9, Bytes: 1000}})
	if err != nil || !slices.Equal(texts(ds), []string{"a", large, "c"}) || tries.Load() == 0 {
		t.Errorf("got %d messages, %v after %d tries to unlock, want all three", len(ds), err, tries.Load())
	}
}

// What became available before the messages of the call comes first, and is read from the server.
func TestMessagesAreHandedOverInOrder(t *testing.T) {
	t.Parallel()
	s := open(t, server(t).URL(), redisstore.Options{Prefix: prefix()})
	p := queue(t, s)
	send(t, s, p, "old", "older")
	ds := lock(t, s, p, 2)
	w := watch(t, s, p, 9)
	for _, d := range ds {
		if err := settle(s, p, core.Release, d); err != nil {
			t.Fatal(err)
		}
	}
	if got := lock(t, s, p, 1); !slices.Equal(texts(got), []string{"old"}) {
		t.Fatalf("got %q", texts(got))
	}
	// A lock call that finds what it asks for arms no doorbell: as nobody waits, nothing is handed over.
	send(t, s, p, "new")
	if got := await(t, w.handed); len(got.ds) > 0 || !got.more {
		t.Fatalf("while none waits: got %q, more %v, want to be told to lock", texts(got.ds), got.more)
	}
	if got := lock(t, s, p, 9); !slices.Equal(texts(got), []string{"older", "new"}) {
		t.Errorf("got %q", texts(got))
	}
}

// While another gateway waits too, both are woken, and the first to lock gets the messages.
func TestNothingIsHandedOverWhileAnotherGatewayWaits(t *testing.T) {
	t.Parallel()
	a, b := gateways(t, server(t).URL())
	p := queue(t, a)
	here, there := watch(t, a, p, 9), watch(t, b, p, 0)
	for len(here.woken)+len(there.woken) > 0 {
		select {
		case <-here.woken:
		case <-there.woken:
		}
	}
	send(t, a, p, "x")
	if got := await(t, here.handed); len(got.ds) > 0 || !got.more {
		t.Errorf("got %q, more %v, want nothing, and to be told to lock", texts(got.ds), got.more)
	}
	await(t, there.woken)
	if got := lock(t, b, p, 1); !slices.Equal(texts(got), []string{"x"}) {
		t.Errorf("the other gateway: got %q, want x", texts(got))
	}
}

// A call that stores and locks has done both, and its answer was lost: it hands over what it has locked
// when it is sent again. What a lost lock call has locked is undone. Neither is a failed delivery.
func TestLocksOfALostAnswerAreUndone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	lossy := forget(t, server)
	s := open(t, lossy.url(), redisstore.Options{Prefix: "undo:"}.WithBlocksFrom(1))
	p := queue(t, s)
	w := watch(t, s, p, 9)
	send(t, s, p, "first") // the server knows the script now
	if err := settle(s, p, core.Complete, await(t, w.handed).ds[0]); err != nil {
		t.Fatal(err)
	}
	lossy.loseNext(func() {})
	send(t, s, p, "x")
	ds := await(t, w.handed).ds
	if !slices.Equal(texts(ds), []string{"x"}) || ds[0].DeliveryCount != 0 {
		t.Fatalf("got %+v, want x, never delivered", ds)
	}

	if err := settle(s, p, core.Release, ds[0]); err != nil {
		t.Fatal(err)
	}
	lossy.loseNext(func() {})
	if ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 9}}); core.CodeOf(err) != core.Busy {
		t.Fatalf("a lock call without an answer: got %v, %v, want busy", ds, err)
	}
	if ds := lock(t, s, p, 9); !slices.Equal(texts(ds), []string{"x"}) || ds[0].DeliveryCount != 0 {
		t.Fatalf("after a lost lock call: got %+v, want x, never delivered", ds)
	}
}

// A publication is locked for receivers of its subscriptions in the exchange that stores it, and rings no
// doorbell, unless another gateway waits, too.
func TestCopiesAreHandedOver(t *testing.T) {
	t.Parallel()
	a, b := gateways(t, server(t).URL())
	st := newStand(t, a, "one", "both", "none")
	loadPublishing(t, a, st)
	one, here, there := watch(t, a, st.at("one"), 9), watch(t, a, st.at("both"), 9), watch(t, b, st.at("both"), 0)
	for _, w := range []*taker{one, here, there} {
		for len(w.woken) > 0 {
			<-w.woken
		}
	}
	for i, body := range []string{"small", "shared " + strings.Repeat("x", 1000), "read " + strings.Repeat("x", 40_000)} {
		st.mustPublish(to(message(body), st.at("one"), st.at("both"), st.at("none")))
		got := await(t, one.handed)
		if !slices.Equal(texts(got.ds), []string{body}) || got.more || got.err != nil {
			t.Errorf("publication %d: got %.20q, more %v, %v", i, texts(got.ds), got.more, got.err)
		} else if err := settle(a, st.at("one"), core.Complete, got.ds[0]); err != nil {
			t.Errorf("its lock: %v", err)
		}
		if i == 0 { // the doorbell of both is armed
			if got := await(t, here.handed); len(got.ds) > 0 || !got.more {
				t.Errorf("where two gateways wait: got %q, more %v, want to be told to lock", texts(got.ds), got.more)
			}
			await(t, there.woken)
		}
		if ds := lock(t, b, st.at("none"), 9); !slices.Equal(texts(ds), []string{body}) {
			t.Errorf("where no gateway waits: got %.20q", texts(ds))
		}
	}
	if n := len(one.woken); n > 0 {
		t.Errorf("the receiver was woken %d times beside that", n)
	}
}

// A server that knows the script of the lock calls, but not that of publications, runs the lock calls first.
// The receiver is then woken.
func TestAPublicationWithAnUnknownScriptWakesItsReceiver(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := open(t, server.URL(), redisstore.Options{})
	st := newStand(t, s, "a")
	w := watch(t, s, st.at("a"), 9)
	st.mustPublish(to(message("x"), st.at("a")))
	if got := await(t, w.handed); len(got.ds) > 0 || got.more || got.err != nil {
		t.Fatalf("got %q, more %v, %v, want nothing: the server knew the script", texts(got.ds), got.more, got.err)
	}
	if n := callsOf(t, server, "spublish"); n != 1 {
		t.Errorf("the doorbell was rung %d times, want once", n)
	}
	if ds := lock(t, s, st.at("a"), 9); !slices.Equal(texts(ds), []string{"x"}) {
		t.Errorf("got %q, want x", texts(ds))
	}
}

// loadPublishing has the server know the scripts, without which it hands nothing over.
func loadPublishing(t *testing.T, s *redisstore.Store, st *stand) {
	t.Helper()
	p := st.subscribe(s, "first", false)
	st.mustPublish(to(message("first"), p))
	lock(t, s, p, 1)
}

// The locks of a publication whose answer was lost are undone.
func TestLocksOfALostPublicationAreUndone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	lossy := forget(t, server)
	s := open(t, lossy.url(), redisstore.Options{Prefix: "undo:"}.WithBlocksFrom(1))
	st := newStand(t, s, "a")
	loadPublishing(t, s, st)
	w := watch(t, s, st.at("a"), 9)
	version := st.version(s)
	lossy.loseNext(func() {})
	if err := st.publish(s, version, to(message("x"), st.at("a"))); err != nil {
		t.Fatal(err)
	}
	if got := await(t, w.handed); len(got.ds) > 0 || !got.more {
		t.Errorf("without an answer: got %q, more %v, want to be told to lock", texts(got.ds), got.more)
	}
	if ds := lock(t, s, st.at("a"), 9); !slices.Equal(texts(ds), []string{"x"}) || ds[0].DeliveryCount != 0 {
		t.Fatalf("got %+v, want x, never delivered", ds)
	}
}
