package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

var crowdStories = []story{
	{"many senders and receivers: every message is completed once, numbers have no gaps", func(s *fixture) {
		const senders, groups, size, receivers = 4, 25, 3, 4
		c := newCrowd(s, senders*groups*size)
		for sender := range senders {
			c.work.Go(func() { c.send(sender, groups, size) })
		}
		for receiver := range receivers {
			c.work.Go(func() { c.receive(receiver) })
		}
		c.work.Wait()
		c.wantAll(senders * groups * size)
		s.wantStats("left", s.main, core.Stats{})
	}},
	{"many catalogue changes at once: one of each wins", func(s *fixture) {
		const rivals = 8
		created, updated, deleted := make([]error, rivals), make([]error, rivals), make([]error, rivals)
		race := func(results []error, act func(i int) error) {
			var work sync.WaitGroup
			for i := range rivals {
				work.Go(func() { results[i] = act(i) })
			}
			work.Wait()
		}
		race(created, func(i int) error {
			_, err := s.store.CreateEntity(s.Context(), newEntity("contested", fmt.Sprintf("r%d", i)), core.NamespaceQuotas{})
			return err
		})
		s.wantOneWinner("create", created, core.AlreadyExists)
		e, err := s.store.Entity(s.Context(), "ns", "contested")
		s.wantCode("entity", err, "")
		race(updated, func(int) error {
			_, err := s.store.UpdateEntity(s.Context(), e, core.NamespaceQuotas{})
			return err
		})
		s.wantOneWinner("update", updated, core.Conflict)
		race(deleted, func(int) error { return s.store.DeleteEntity(s.Context(), "ns", "contested") })
		s.wantOneWinner("delete", deleted, core.NotFound)
	}},
}

func (s *fixture) wantOneWinner(what string, results []error, losers core.Code) {
	s.Helper()
	winners := 0
	for _, err := range results {
		if err == nil {
			winners++
		} else {
			s.wantCode(what, err, losers)
		}
	}
	want(s, "winners of "+what, winners, 1)
}

type crowd struct {
	*fixture
	work sync.WaitGroup
	bell chan struct{}
	done chan struct{} // closed when all messages are completed

	mu        sync.Mutex
	expected  int
	numbers   []int64
	completed map[string]int
}

func newCrowd(s *fixture, expected int) *crowd {
	s.main.MaxDeliveryCount = 1000
	c := &crowd{
		fixture: s, expected: expected, completed: make(map[string]int),
		bell: make(chan struct{}, 1), done: make(chan struct{}),
	}
	s.Cleanup(s.main.In(s.store).Watch(core.WakeFunc(func(core.SessionKey) {
		select {
		case c.bell <- struct{}{}:
		default:
		}
	})))
	return c
}

func (c *crowd) send(sender, groups, size int) {
	for g := range groups {
		group := make([]*core.Message, size)
		for i := range group {
			group[i] = text(fmt.Sprintf("%d/%d/%d", sender, g, i))
		}
		a := c.main.In(c.store).Append(c.Context(), [][]*core.Message{group})
		if a[0].Err != nil {
			c.Errorf("append: %v", a[0].Err)
			return
		}
		c.mu.Lock()
		c.numbers = append(c.numbers, a[0].Numbers...)
		c.mu.Unlock()
	}
}

// receive completes messages. It abandons or releases some of them first.
func (c *crowd) receive(receiver int) {
	timeout := time.After(time.Minute)
	for {
		ds, _, err := c.main.In(c.store).Lock(c.Context(), core.LockRequest{Most: core.Most{Messages: 5}})
		if err != nil {
			c.Errorf("lock: %v", err)
			return
		}
		settlements := make([]core.Settlement, len(ds))
		for i, d := range ds {
			outcome := core.Complete
			if d.DeliveryCount == 0 && (int(d.SequenceNumber)+receiver)%7 == 0 {
				outcome = core.Abandon
			}
			settlements[i] = core.Settlement{Token: d.LockToken, Outcome: outcome}
		}
		c.record(ds, settlements, c.main.In(c.store).Settle(c.Context(), settlements))
		if len(ds) > 0 {
			continue
		}
		select {
		case <-c.bell:
		case <-time.After(20 * time.Millisecond): // a notification may have woken another receiver
		case <-c.done:
			return
		case <-timeout:
			c.Errorf("receiver %d timed out: the receivers did not get all messages in time", receiver)
			return
		}
	}
}

func (c *crowd) record(ds []core.Delivery, settlements []core.Settlement, errs []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, err := range errs {
		if err != nil {
			c.Errorf("settle %d: %v", ds[i].SequenceNumber, err)
		}
		if settlements[i].Outcome == core.Complete {
			c.completed[string(ds[i].Body.Bytes)]++
			if c.expected--; c.expected == 0 {
				close(c.done)
			}
		}
	}
}

func (c *crowd) wantAll(n int) {
	c.Helper()
	want(c.fixture, "messages completed", len(c.completed), n)
	for body, times := range c.completed {
		want(c.fixture, "completions of "+body, times, 1)
	}
	slices.Sort(c.numbers)
	for i, got := range c.numbers {
		want(c.fixture, "numbers in order", got, number(int64(i+1)))
	}
}
