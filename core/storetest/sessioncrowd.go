package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

var sessionCrowdStories = []story{
	{"many senders and holders of sessions: every session in order, held by one at a time", withSessions(func(s *fixture) {
		const senders, each, holders = 3, 60, 4
		s.main.MaxDeliveryCount = 1000
		c := &sessionCrowd{fixture: s, expected: senders * each, held: make(map[string]bool), got: make(map[string]int)}
		for sender := range senders {
			c.work.Go(func() { c.send(sender, each) })
		}
		for range holders {
			c.work.Go(c.hold)
		}
		c.work.Wait()
		for session, got := range c.got {
			want(s, "messages of session "+session, got, each/crowdSessions)
		}
		s.wantStats("left", s.main, core.Stats{})
	})},
}

// Each sender sends numbers, in order, to sessions that no other sender uses.
type sessionCrowd struct {
	*fixture
	work sync.WaitGroup

	mu       sync.Mutex
	expected int
	held     map[string]bool
	got      map[string]int // number of completed messages by session
}

const crowdSessions = 5 // per sender

func (c *sessionCrowd) send(sender, each int) {
	for i := range each {
		session := fmt.Sprintf("%d/%d", sender, i%crowdSessions)
		a := c.main.In(c.store).Append(c.Context(), [][]*core.Message{{text(fmt.Sprint(i/crowdSessions), in(session))}})
		if a[0].Err != nil {
			c.Errorf("append: %v", a[0].Err)
		}
	}
}

func (c *sessionCrowd) hold() {
	timeout := time.After(time.Minute)
	for !c.done() {
		l, ok, _, err := c.main.In(c.store).AcceptSession(c.Context(), core.SessionRequest{Next: true})
		switch {
		case err != nil:
			c.Errorf("accept: %v", err)
			return
		case ok:
			c.receive(l)
			continue
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-timeout:
			c.Error("the receivers did not get all messages in time")
			return
		}
	}
}

func (c *sessionCrowd) receive(l core.SessionLock) {
	c.holds(l.ID, true)
	for range 3 {
		ds, _, err := c.main.In(c.store).Lock(c.Context(), core.LockRequest{Most: core.Most{Messages: 2}, Session: &l})
		if err != nil {
			c.Errorf("lock messages of a session: %v", err)
			return
		}
		if !c.completeAll(ds) {
			break
		}
	}
	c.holds(l.ID, false)
	if err := c.main.In(c.store).ReleaseSession(c.Context(), l); err != nil {
		c.Errorf("release: %v", err)
	}
}

// completeAll completes ds in order, and returns true. At some first deliveries it abandons the
// message instead and returns false; the session's release then makes the rest of ds available.
func (c *sessionCrowd) completeAll(ds []core.Delivery) bool {
	for _, d := range ds {
		_, n := core.SplitSequenceNumber(d.SequenceNumber)
		outcome := core.Complete
		if d.DeliveryCount == 0 && n%5 == 0 {
			outcome = core.Abandon
		} else {
			c.completed(d)
		}
		if err := c.main.In(c.store).Settle(c.Context(), []core.Settlement{{Token: d.LockToken, Outcome: outcome}})[0]; err != nil {
			c.Errorf("settle: %v", err)
		}
		if outcome == core.Abandon {
			return false
		}
	}
	return true
}

// Only one receiver may lock a session.
func (c *sessionCrowd) holds(session string, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[session] == held {
		c.Errorf("session %s was accepted twice, or released twice", session)
	}
	c.held[session] = held
}

func (c *sessionCrowd) completed(d core.Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wanted := fmt.Sprint(c.got[d.SessionID]); string(d.Body.Bytes) != wanted {
		c.Errorf("session %s: got message %s, want %s", d.SessionID, d.Body.Bytes, wanted)
	}
	c.got[d.SessionID]++
	c.expected--
}

func (c *sessionCrowd) done() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expected <= 0
}
