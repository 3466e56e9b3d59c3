package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// again repeats an operation until it is no longer refused as Busy.
func (o *outage) again(what string, f func() error) {
	o.Helper()
	eventually.True(o, what, func() bool {
		err := f()
		if err != nil && core.CodeOf(err) != core.Busy {
			o.Fatalf("%s: %v", what, err)
		}
		return err == nil
	})
}

// becomes waits until the entity reports an availability.
func (o *outage) becomes(want string) {
	o.Helper()
	eventually.True(o, "the entity's availability becomes "+want, func() bool { return o.availability() == want })
}

// subscriptionOf is the path of one of the topic's subscriptions.
func subscriptionOf(name string) string { return core.SubscriptionPath(outageEntity, name) }

// partitionedTopic makes a topic of four partitions with two subscriptions: one
// to receive from, one that keeps its copies.
func partitionedTopic(b *broker.Broker) (core.Entity, error) {
	settings := core.DefaultSettings(core.Topic)
	settings.EnablePartitioning = true
	topic, err := b.CreateEntity(context.Background(), root, core.Topic, outageEntity, settings, nil)
	for _, name := range []string{"live", "kept"} {
		if err == nil {
			_, err = b.CreateEntity(context.Background(), root, core.Subscription, subscriptionOf(name), core.DefaultSettings(core.Subscription), nil)
		}
	}
	return topic, err
}

func TestAMasterThatFailsTakesOnlyItsPartOfATopicDown(t *testing.T) {
	t.Parallel()
	o := newOutage(t, partitionedTopic)
	o.receive(subscriptionOf("live"))
	keys := map[string]bool{} // which keys' partitions are on the victim
	for i := range 30 {
		key := fmt.Sprintf("key%d", i)
		partition, err := o.send("before "+key, key)
		if err != nil {
			t.Fatal(err)
		}
		keys[key] = o.owners[partition] == o.victim
	}
	o.await("before")
	o.becomes("Available")

	o.cluster.KillMaster(t, o.victim)
	for key, down := range keys {
		_, err := o.send("keyed "+key, key)
		if code := core.CodeOf(err); !down && err != nil || down && (code != core.Busy || !code.Retriable()) {
			t.Errorf("%s, whose partition is down: %v: got %v", key, down, err)
		}
	}
	for i := range 30 {
		if partition, err := o.send(fmt.Sprint("keyless ", i), ""); err != nil || o.owners[partition] == o.victim {
			t.Errorf("without a key: got partition %d, %v, want one that is well", partition, err)
		}
	}
	o.await("while the master is down")
	o.becomes("Limited")
	if _, r, err := o.broker.Entity(t.Context(), root, subscriptionOf("live")); err != nil || r.Availability != "Limited" {
		t.Errorf("the subscription: got availability %s, %v, want Limited", r.Availability, err)
	}
	o.refusesChanges()

	o.cluster.AwaitPromotion(t, o.victim)
	for key := range keys {
		o.again("send after the promotion", func() error { _, err := o.send("after "+key, key); return err })
	}
	o.await("after the promotion")
	o.becomes("Available")
	o.keeps("kept")
	o.again("delete", func() error { return o.broker.DeleteEntity(t.Context(), root, outageEntity) })
}

// refusesChanges checks that what concerns all partitions says that one is down.
func (o *outage) refusesChanges() {
	o.Helper()
	b, ctx := o.broker, o.Context()
	refused := func(what string, err error) {
		o.Helper()
		if code := core.CodeOf(err); code != core.Busy || !code.Retriable() {
			o.Errorf("%s while a partition is down: got %v, want %v", what, err, core.Busy)
		}
	}
	topic, _, err := b.Entity(ctx, root, outageEntity)
	if err != nil {
		o.Fatal(err)
	}
	live, _, err := b.Entity(ctx, root, subscriptionOf("live"))
	if err != nil {
		o.Fatal(err)
	}
	_, err = b.UpdateEntity(ctx, root, outageEntity, topic.Settings)
	refused("update the topic", err)
	_, err = b.UpdateEntity(ctx, root, subscriptionOf("live"), live.Settings)
	refused("update a subscription", err)
	_, err = b.CreateEntity(ctx, root, core.Subscription, subscriptionOf("new"), core.DefaultSettings(core.Subscription), nil)
	refused("create a subscription", err)
	refused("delete a subscription", b.DeleteEntity(ctx, root, subscriptionOf("kept")))
	refused("delete the topic", b.DeleteEntity(ctx, root, outageEntity))

	// Of new topics those are made that have no partition there.
	settings := core.DefaultSettings(core.Topic)
	settings.EnablePartitioning = true
	well := 0
	const tries = 12
	for i := range tries {
		e, err := b.CreateEntity(ctx, root, core.Topic, fmt.Sprint("new", i), settings, nil)
		if err != nil {
			refused("create a topic", err)
			continue
		}
		well++
		if owners := o.ownersOf(e); slices.Contains(owners[:], o.victim) {
			o.Errorf("a topic was created with a partition that is down")
		}
	}
	if well == tries {
		o.Errorf("none of %d topics had a partition that is down", tries)
	}
}

// keeps checks that a subscription has exactly one copy of all that was acknowledged.
func (o *outage) keeps(name string) {
	o.Helper()
	e, _, err := o.broker.Entity(o.Context(), root, subscriptionOf(name))
	if err != nil {
		o.Fatal(err)
	}
	copies := map[string]int{}
	for i := range o.owners {
		for from := core.SequenceNumber(uint16(i), 0); ; {
			ds, err := o.broker.Peek(o.Context(), root, core.At(e.Name), nil, from, 100)
			if err != nil {
				o.Fatal(err)
			}
			if len(ds) == 0 {
				break
			}
			for _, d := range ds {
				if p, _ := core.SplitSequenceNumber(d.SequenceNumber); int(p) == i {
					copies[string(d.Body.Bytes)]++
				}
			}
			last := ds[len(ds)-1].SequenceNumber
			if p, _ := core.SplitSequenceNumber(last); int(p) != i {
				break
			}
			from = last + 1
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for body := range o.acked {
		if copies[body] != 1 {
			o.Errorf("%q was acknowledged and has %d copies in %s", body, copies[body], name)
		}
	}
}

// partitionedSessions makes a queue of four partitions with sessions.
func partitionedSessions(b *broker.Broker) (core.Entity, error) {
	settings := core.DefaultSettings(core.Queue)
	settings.EnablePartitioning, settings.RequiresSession = true, true
	return b.CreateEntity(context.Background(), root, core.Queue, outageEntity, settings, nil)
}

// sendTo sends a message to a session, and returns its partition.
func (o *outage) sendTo(session string, i int) (uint16, error) {
	m := message(fmt.Sprintf("%s %d", session, i))
	m.SessionID = session
	return o.post(m)
}

// turn is a session that is held.
type turn struct {
	core.Session
	mu  sync.Mutex
	got []core.Delivery
}

func (o *outage) accept(id string, within time.Duration) (*turn, error) {
	ctx, cancel := context.WithTimeout(o.Context(), within)
	defer cancel()
	t := new(turn)
	s, err := o.broker.AcceptSession(ctx, root, core.At(outageEntity), core.SessionOptions{ID: id, Next: id == "", ReceiverOptions: core.ReceiverOptions{
		Deliver: func(ds []core.Delivery) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.got = append(t.got, ds...)
		},
	}})
	t.Session = s
	return t, err
}

// take completes the session's next n messages and checks their order from first on.
func (o *outage) take(t *turn, first, n int) {
	o.Helper()
	t.AddCredit(n, core.AnyMessage)
	arrived := func() []core.Delivery {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.got
	}
	eventually.True(o, fmt.Sprintf("session %s gets %d messages from %d on", t.ID(), n, first), func() bool { return len(arrived()) >= n })
	ds := arrived()
	for i, d := range ds {
		if want := fmt.Sprintf("%s %d", t.ID(), first+i); string(d.Body.Bytes) != want {
			o.Errorf("session %s: got message %q, want %q", t.ID(), d.Body.Bytes, want)
		}
	}
	o.again("complete", func() error {
		return errors.Join(o.broker.Settle(o.Context(), root, core.At(outageEntity), settlementsOf(ds))...)
	})
	t.mu.Lock()
	t.got = nil
	t.mu.Unlock()
}

func TestAMasterThatFailsTakesOnlyItsSessionsDown(t *testing.T) {
	t.Parallel()
	o := newOutage(t, partitionedSessions)
	down := map[string]bool{} // which sessions are on the victim
	var lame, well *turn      // one of each kind that is held throughout
	const sessions, each = 24, 3
	for i := range sessions {
		id := fmt.Sprint("s", i)
		for n := range each {
			partition, err := o.sendTo(id, n)
			if err != nil {
				t.Fatal(err)
			}
			down[id] = o.owners[partition] == o.victim
		}
		if held := map[bool]**turn{true: &lame, false: &well}[down[id]]; *held == nil {
			var err error
			if *held, err = o.accept(id, patience); err != nil {
				t.Fatal(err)
			}
			o.take(*held, 0, 1)
			if err := (*held).SetState(t.Context(), []byte("state of "+id)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if lame == nil || well == nil {
		t.Fatal("all sessions are in one place")
	}

	o.cluster.KillMaster(t, o.victim)
	for id, isDown := range down {
		if _, err := o.sendTo(id, each); isDown && core.CodeOf(err) != core.Busy || !isDown && err != nil {
			t.Errorf("send to session %s, whose partition is down: %v: got %v", id, isDown, err)
		}
	}
	o.becomes("Limited")
	if _, err := lame.Renew(t.Context()); core.CodeOf(err) != core.Busy {
		t.Errorf("renew a session whose partition is down: got %v, want %v", err, core.Busy)
	}
	if _, err := well.Renew(t.Context()); err != nil {
		t.Errorf("renew a session whose partition is well: %v", err)
	}
	o.take(well, 1, each) // what was left, and what came
	rest := 0
	for id, isDown := range down {
		if isDown && id != lame.ID() {
			if _, err := o.accept(id, patience); core.CodeOf(err) != core.Busy {
				t.Errorf("accept a session whose partition is down: got %v, want %v", err, core.Busy)
			}
		}
		if !isDown && id != well.ID() {
			rest++
		}
	}
	for range rest { // whoever takes the next one gets all that are well
		s, err := o.accept("", patience)
		if err != nil {
			t.Fatalf("accept the next session while a partition is down: %v", err)
		}
		if down[s.ID()] {
			t.Errorf("session %s was accepted, whose partition is down", s.ID())
		}
		o.take(s, 0, each+1)
		s.Close()
	}
	if _, err := o.accept("", 300*time.Millisecond); core.CodeOf(err) != core.Timeout {
		t.Errorf("accept the next session where no more are well: got %v, want %v", err, core.Timeout)
	}

	o.cluster.AwaitPromotion(t, o.victim)
	o.again("renew after the promotion", func() error { _, err := lame.Renew(t.Context()); return err })
	if state, err := lame.State(t.Context()); err != nil || string(state) != "state of "+lame.ID() {
		t.Errorf("state after the promotion: got %q, %v", state, err)
	}
	o.take(lame, 1, each-1)
	for id, isDown := range down {
		if !isDown || id == lame.ID() {
			continue
		}
		o.again("send after the promotion", func() error { _, err := o.sendTo(id, each); return err })
		var s *turn
		o.again("accept after the promotion", func() (err error) { s, err = o.accept(id, patience); return err })
		o.take(s, 0, each+1)
		s.Close()
	}
	o.becomes("Available")
	lame.Close()
	well.Close()
	if _, r, err := o.broker.Entity(t.Context(), root, outageEntity); err != nil || r.Active != 0 {
		t.Errorf("in the end: got %d messages, %v, want none", r.Active, err)
	}
}
