package redis_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// Whatever befell the messages, nothing is kept about them once a queue is cleared.
func TestAClearedQueueKeepsNothing(t *testing.T) {
	t.Parallel()
	clock, names := storetest.NewClock(), prefix()
	s := open(t, server(t).URL(), redisstore.Options{Clock: clock.Now, Prefix: names})
	p := queue(t, s)
	p.LockDuration, p.MaxDeliveryCount, p.DeadLetterExpired, p.DuplicateWindow = 10*time.Second, 4, true, time.Hour
	dead := p
	dead.Sub = core.DeadLetter
	var deferred []int64
	for range 300 {
		befall(t, s, clock, p, &deferred)
		befall(t, s, clock, dead, &deferred)
	}
	if err := p.In(s).Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := keysOf(t, server(t).Client(), names, p.Entity), []string{"$h", "$m", ">$m", ">m", "h", "m"}; !slices.Equal(got, want) {
		t.Errorf("keys: got %v, want %v", got, want)
	}
}

func TestAClearedTopicKeepsItsSubscriptionsAndNothingElse(t *testing.T) {
	t.Parallel()
	names := prefix()
	s := open(t, server(t).URL(), redisstore.Options{Prefix: names})
	st := newStand(t, s, "a", "b")
	sessions := st.subscribe(s, "c", true)
	large := message(strings.Repeat("x", 2000))
	large.SessionID, large.TimeToLive = "s", time.Hour
	later := message("later")
	later.ScheduledEnqueueTime = s.Now().Add(time.Hour)
	version := st.version(s)
	st.own.DuplicateWindow = time.Hour
	for i := range 20 {
		m := *large
		m.MessageID = core.StringID(fmt.Sprint(i))
		if err := st.publish(s, version, to(&m, st.at("a"), st.at("b"), sessions), to(later)); err != nil {
			t.Fatal(err)
		}
	}
	if err := settle(s, st.at("a"), core.DeadLetterOutcome, lock(t, s, st.at("a"), 5)...); err != nil {
		t.Fatal(err)
	}
	l := accept(t, s, sessions, "s")
	if err := sessions.In(s).SetSessionState(t.Context(), l, []byte("state")); err != nil {
		t.Fatal(err)
	}
	lockIn(t, s, sessions, l, 5)
	if err := st.own.In(s).Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, key := range keysOf(t, server(t).Client(), names, st.topic.ID) {
		if end := key[len(key)-1:]; end != "m" && end != "h" && end != namesOfSubscriptions {
			t.Errorf("key %s is left", key)
		}
	}
}

// namesOfSubscriptions ends the key with the IDs of a topic's subscriptions.
const namesOfSubscriptions = "S"

// Subscriptions come and go while their topic is cleared.
func TestATopicIsClearedWhileItsSubscriptionsChange(t *testing.T) {
	t.Parallel()
	deployments(t, func(t *testing.T, url string) {
		a, b := gateways(t, url)
		st := newStand(t, a, "kept")
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				name := fmt.Sprint("s", i)
				e := core.Entity{
					Namespace: "ns", Kind: core.Subscription, Name: core.SubscriptionPath(st.topic.Name, name), ID: st.topic.ID + name,
					TopicID: st.topic.ID, Partitions: 1, Settings: core.DefaultSettings(core.Subscription),
				}
				if _, err := a.CreateEntity(t.Context(), e, core.NamespaceQuotas{}); err != nil {
					t.Errorf("subscribe: %v", err)
					return
				}
				if err := a.DeleteEntity(t.Context(), "ns", e.Name); err != nil {
					t.Errorf("unsubscribe: %v", err)
					return
				}
			}
		}()
		large := message(strings.Repeat("x", 2000))
		for range 50 {
			for {
				err := st.publish(b, st.version(b), to(large, st.at("kept")))
				if err == nil {
					break
				}
				if core.CodeOf(err) != core.Conflict {
					t.Fatalf("publish: %v", err)
				}
			}
			if err := st.own.In(b).Clear(t.Context()); err != nil {
				t.Fatalf("clear: %v", err)
			}
			if ds := lock(t, b, st.at("kept"), 9); len(ds) > 0 {
				t.Fatalf("%d messages are left", len(ds))
			}
		}
		close(stop)
		<-ended
	})
}

// One gateway's clearing is everybody's.
func TestAnotherGatewayClearsWhatThisOneHasLocked(t *testing.T) {
	t.Parallel()
	deployments(t, func(t *testing.T, url string) {
		a, b := gateways(t, url)
		p := queue(t, a)
		p.MaxBytes = 10_000
		send(t, a, p, "one", strings.Repeat("x", 20_000))
		ds := lock(t, a, p, 1)
		if err := p.In(b).Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := settle(a, p, core.Complete, ds...); core.CodeOf(err) != core.LockLost {
			t.Errorf("complete: got %v, want %v", err, core.LockLost)
		}
		send(t, a, p, "two") // which has room, though this gateway measured before
		if ds := lock(t, b, p, 9); len(ds) != 1 || string(ds[0].Body.Bytes) != "two" {
			t.Errorf("messages: got %v", ds)
		}
	})
}
