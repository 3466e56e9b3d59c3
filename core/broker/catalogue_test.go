package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// another is a second gateway on the same store.
func (b *started) another(t *testing.T) *Broker {
	t.Helper()
	other := New(b.store, Options{Namespace: "ns"})
	t.Cleanup(other.stop)
	return other
}

func TestDeletionClosesWhatIsOpen(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		closed := make(chan error, 2)
		if _, err := b.OpenSender(t.Context(), root, core.At("q"), func(err error) { closed <- err }); err != nil {
			t.Fatal(err)
		}
		in := b.receive(t, "q", core.PeekLock, 1)
		dead := b.receive(t, "q/$DeadLetterQueue", core.PeekLock, 1)
		if err := b.another(t).DeleteEntity(t.Context(), root, "Q"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, c := range []*inbox{in, dead} {
			if got := c.closures(); len(got) != 1 || !errors.Is(got[0], core.NotFound) {
				t.Errorf("receiver: got %v, want %v once", got, core.NotFound)
			}
		}
		if err := <-closed; !errors.Is(err, core.NotFound) {
			t.Errorf("sender: got %v, want %v", err, core.NotFound)
		}
		if _, err := b.Resolve(t.Context(), nil, core.At("q")); !errors.Is(err, core.NotFound) {
			t.Errorf("resolve: got %v, want %v", err, core.NotFound)
		}
	})
}

func TestARecreatedEntityDoesNotKeepOldLinks(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		in := b.receive(t, "q", core.PeekLock, 1)
		other := b.another(t)
		if err := other.DeleteEntity(t.Context(), root, "q"); err != nil {
			t.Fatal(err)
		}
		if _, err := other.CreateEntity(t.Context(), root, core.Queue, "q", core.DefaultSettings(core.Queue), nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := in.closures(); len(got) != 1 {
			t.Fatalf("closed %d times, want once", len(got))
		}
		in = b.receive(t, "q", core.PeekLock, 1)
		b.send(t, "q", text("new"))
		if got := bodies(in.take()); got != "new" {
			t.Fatalf("got %q", got)
		}
	})
}

func TestStatusChangesCloseWhatTheyForbid(t *testing.T) {
	for status, want := range map[core.Status]struct{ send, receive bool }{
		core.StatusActive:          {true, true},
		core.StatusDisabled:        {false, false},
		core.StatusSendDisabled:    {false, true},
		core.StatusReceiveDisabled: {true, false},
	} {
		inBubbleNamed(t, string(status), func(t *testing.T, b *started) {
			b.create(t, "q")
			s := b.sender(t, "q")
			in := b.receive(t, "q", core.PeekLock, 1)
			dead := b.receive(t, "q/$DeadLetterQueue", core.PeekLock, 1)
			settings := core.DefaultSettings(core.Queue)
			settings.Status = status
			if _, err := b.UpdateEntity(t.Context(), root, "q", settings); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			err := s.Send(t.Context(), each(text("m")))[0].Err
			if (err == nil) != want.send || err != nil && !errors.Is(err, core.EntityDisabled) {
				t.Errorf("send: got %v", err)
			}
			for _, c := range []*inbox{in, dead} {
				if got := c.closures(); (len(got) == 0) != want.receive {
					t.Errorf("receiver closed with %v, want open %v", got, want.receive)
				}
			}
			_, err = b.OpenReceiver(t.Context(), root, core.At("q/$DeadLetterQueue"), core.ReceiverOptions{})
			if (err == nil) != want.receive || err != nil && !errors.Is(err, core.EntityDisabled) {
				t.Errorf("open: got %v", err)
			}
			if _, err = b.Peek(t.Context(), root, core.At("q"), nil, 0, 1); (err == nil) != want.receive {
				t.Errorf("peek: got %v", err)
			}
		})
	}
}

func TestSettingsTakeEffectWithoutReopening(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		in := b.receive(t, "q", core.PeekLock, 2)
		s := b.sender(t, "q")
		settings := core.DefaultSettings(core.Queue)
		settings.LockDuration, settings.MaxMessageSizeInKilobytes = 10*time.Second, 1024
		if _, err := b.another(t).UpdateEntity(t.Context(), root, "q", settings); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.send(t, "q", text("m"))
		if d := in.take()[0]; d.LockedUntil.Sub(b.store.Now()) != 10*time.Second {
			t.Errorf("locked for %v, want the new 10s", d.LockedUntil.Sub(b.store.Now()))
		}
		if s.MaxMessageSize() != 1<<20 {
			t.Errorf("max message size: got %d, want the new 1 MB", s.MaxMessageSize())
		}
	})
}

func TestAMissedChangeIsSeenAfterFiveSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		running := start(t)
		running.create(t, "q")
		deaf := running.another(t) // nobody runs it, so it hears of no change
		s, err := deaf.OpenSender(t.Context(), root, core.At("q"), nil)
		if err != nil {
			t.Fatal(err)
		}
		settings := core.DefaultSettings(core.Queue)
		settings.Status = core.StatusDisabled
		if _, err := running.UpdateEntity(t.Context(), root, "q", settings); err != nil {
			t.Fatal(err)
		}
		time.Sleep(maxAge)
		if a := s.Send(t.Context(), each(text("m")))[0]; !errors.Is(a.Err, core.EntityDisabled) {
			t.Fatalf("got %v, want %v", a.Err, core.EntityDisabled)
		}
	})
}

func TestKnownEntitiesSurviveACatalogueThatDoesNotAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.create(t, "gone")
		in := b.receive(t, "gone", core.PeekLock, 1)
		b.send(t, "q", text("m"))
		b.store.failEntities(errors.New("connection refused"))
		time.Sleep(time.Minute)
		b.send(t, "q", text("m"))
		if _, err := b.Resolve(t.Context(), nil, core.At("unknown")); !errors.Is(err, core.Busy) {
			t.Errorf("unknown entity: got %v, want %v", err, core.Busy)
		}
		if err := b.store.DeleteEntity(t.Context(), "ns", "gone"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := in.closures(); len(got) != 0 {
			t.Errorf("closed with %v while nobody could know", got)
		}
		b.store.failEntities(nil)
		time.Sleep(refreshRetry)
		synctest.Wait()
		if got := in.closures(); len(got) != 1 || !errors.Is(got[0], core.NotFound) {
			t.Errorf("once the catalogue answers: closed with %v, want %v", got, core.NotFound)
		}
	})
}

func TestConcurrentHealthChecksShareAProbe(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		slow := &slowProbe{Store: b.store.Store}
		b.wrap(slow)
		results := make(chan error, 5)
		for range 5 {
			go func() { results <- errorOf(b.Health(context.Background())) }()
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Health(impatient); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("impatient: got %v", err)
		}
		for range 5 {
			if err := <-results; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the probe's own time-out", err)
			}
		}
		if slow.probes != 1 {
			t.Errorf("%d probes, want 1", slow.probes)
		}
		b.wrap(slow.Store)
		if about, err := b.Health(t.Context()); err != nil || about.Engine != "memory" {
			t.Errorf("healthy: got %+v, %v", about, err)
		}
	})
}

// slowProbe is a store that never answers a probe.
type slowProbe struct {
	core.Store
	probes int
}

func (s *slowProbe) Probe(ctx context.Context) error {
	s.probes++
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestMissingPartitionReloadsItsEntity(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		closed := make(chan error, 1)
		s, err := b.OpenSender(t.Context(), root, core.At("q"), func(err error) { closed <- err })
		if err != nil {
			t.Fatal(err)
		}
		b.store.failEntities(core.NotFound)
		b.store.fail(core.NotFound, 0)
		if a := s.Send(t.Context(), each(text("m"))); !errors.Is(a[0].Err, core.NotFound) {
			t.Fatalf("send: got %v, want %v", a[0].Err, core.NotFound)
		}
		if err := <-closed; !errors.Is(err, core.NotFound) {
			t.Fatalf("closed: got %v, want %v", err, core.NotFound)
		}
	})
}

func TestMissedChangesReloadEverything(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		in := b.receive(t, "q", core.PeekLock, 1)
		b.store.failEntities(core.NotFound)
		b.entityChanged("elsewhere", "q")
		synctest.Wait()
		if got := in.closures(); len(got) != 0 {
			t.Errorf("another namespace's change closed it: %v", got)
		}
		b.entityChanged("", "")
		synctest.Wait()
		if got := in.closures(); len(got) != 1 {
			t.Errorf("closed %d times, want once", len(got))
		}
	})
}

func TestAnOlderReadDoesNotReplaceAYoungerEntity(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		old := b.create(t, "q")
		if err := b.DeleteEntity(t.Context(), root, "q"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		young := b.create(t, "q")
		in := b.receive(t, "q", core.PeekLock, 1)
		e, err := b.keep(old, time.Now())
		if err != nil || e.View().ID != young.ID || len(in.closures()) != 0 {
			t.Fatalf("got %v, %v, closed %v, want the younger one left alone", e, err, in.closures())
		}
	})
}

func TestADeletionBetweenTwoPagesHidesNoEntity(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		const n = 3*listPage + 5
		for i := range n {
			b.create(t, fmt.Sprintf("Q%03d", i))
		}
		for deleted := range 3 {
			first := true
			b.store.onList(func(_ core.Listing, page []core.Entity) {
				if !first || len(page) < listPage {
					return
				}
				first = false
				for i := range 40 { // of the first page
					if err := b.store.DeleteEntity(t.Context(), "ns", fmt.Sprintf("q%03d", 40*deleted+i)); err != nil {
						t.Error(err)
					}
				}
			})
			var got []string
			if err := b.walk(t.Context(), func(ent *core.Entity) { got = append(got, ent.Name) }); err != nil {
				t.Fatal(err)
			}
			var want []string
			for i := 40 * deleted; i < n; i++ {
				if name := fmt.Sprintf("Q%03d", i); i < 40*deleted+listPage || i >= 40*(deleted+1) {
					want = append(want, name)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %d entities, want %d: %v", len(got), len(want), got)
			}
		}
	})
}
