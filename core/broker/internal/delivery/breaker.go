package delivery

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Breaker says when deliveries of an entity pause because its receivers fail: after Consecutive
// failures in a row, or after Failures failures among the last Of results.
type Breaker struct {
	Failures, Of, Consecutive int
	Pause                     time.Duration
}

const (
	Closed   = "closed"
	Open     = "open"
	HalfOpen = "half-open" // some messages are delivered, to test the receivers
)

const (
	// If several connections receive, the results of one connection have at most this share of Of,
	// so that one faulty receiver does not open the circuit alone.
	shareOf, shareIn = 8, 20
	// maxProbeDelay limits the delay of a failed probe (see Circuit), as a multiple of Pause. Even
	// if this many messages at the head of a queue always fail, the next message becomes a probe.
	maxProbeDelay = 8
	// While a half-open circuit allows no message, receivers ask again after circuitLook.
	circuitLook = 100 * time.Millisecond
)

type link struct{ peer string }

type lock struct {
	link   *link // link of the receiver that got the message; nil: not delivered yet, or the link has closed
	until  time.Time
	round  int
	gone   bool
	failed bool
}

type result struct {
	peer   string
	failed bool
}

// Circuit is the state of a Breaker at this gateway. A closed circuit only counts results. After
// too many failures it opens for Pause. Then it is half-open: only one message, the probe, may be
// in flight. This limit doubles after each window of results in which not too many were failures. A
// window has as many results as may be in flight, at most Of. The circuit closes when the limit
// reaches both Consecutive and the number of messages that were in flight when it opened. Until
// then, results of messages that were locked before it opened do not count.
type Circuit struct {
	Breaker
	e *Entity

	mu      sync.Mutex
	locks   map[core.LockToken]*lock
	holders map[string]int
	next    time.Time // no lock ends earlier; zero: unknown
	taking  int

	results []result

	open        bool
	until       time.Time
	round       int // incremented when the circuit opens
	limit       int // how many messages may be in flight while half-open
	full        int // the limit at which the circuit closes
	probes      int
	seen, wrong int // results in the current window, and failures among them
}

func newCircuit(e *Entity, b Breaker) *Circuit {
	return &Circuit{Breaker: b, e: e, locks: map[core.LockToken]*lock{}, holders: map[string]int{}}
}

func (c *Circuit) enter() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	return true
}

// If none of n messages may be locked now, again is when to ask again.
func (c *Circuit) take(n int) (allowed int, again time.Time) {
	if n <= 0 || !c.enter() {
		return n, time.Time{}
	}
	defer c.mu.Unlock()
	c.expire()
	if c.open {
		if c.pauses() {
			return 0, c.until
		}
		n = min(n, c.limit-c.taking)
		for _, x := range c.locks {
			if x.round == c.round && !x.gone {
				n--
			}
		}
		if n <= 0 {
			return 0, c.e.Now().Add(circuitLook)
		}
	}
	c.taking += n
	return n, time.Time{}
}

// pauses reports whether deliveries pause. A clock set back prolongs no pause. c.mu is held.
func (c *Circuit) pauses() bool {
	wait := c.until.Sub(c.e.Now())
	return c.open && wait > 0 && wait <= c.Pause
}

// locked records the outcome of a take: allowed is the number that take returned, ds the messages
// that were locked. l may be nil.
func (c *Circuit) locked(allowed int, ds []core.Delivery, l *link) {
	if allowed == 0 || !c.enter() {
		return
	}
	defer c.mu.Unlock()
	c.taking = max(c.taking-allowed, 0) // not below 0: the call may have begun before this circuit was made
	for i := range ds {
		x := &lock{until: ds[i].LockedUntil, round: c.round, failed: ds[i].DeliveryCount > 0}
		if c.pauses() { // the call began before the circuit opened
			x.round--
		}
		if c.next.IsZero() || x.until.Before(c.next) {
			c.next = x.until
		}
		c.locks[ds[i].LockToken] = x
		c.hold(x, l)
	}
}

// c.mu is held.
func (c *Circuit) hold(x *lock, l *link) {
	if x.link = l; l != nil {
		c.holders[l.peer]++
	}
}

func (c *Circuit) deliver(l *link, ds []core.Delivery) {
	if !c.enter() {
		return
	}
	defer c.mu.Unlock()
	for i := range ds {
		if x := c.locks[ds[i].LockToken]; x != nil && x.link == nil {
			c.hold(x, l)
		}
	}
}

// forget removes and returns a lock, or nil. answered: the delivery has a result. c.mu is held.
func (c *Circuit) forget(token core.LockToken, answered bool) *lock {
	x := c.locks[token]
	if x != nil {
		delete(c.locks, token)
		c.leave(x, answered)
	}
	return x
}

// leave records that a message is no longer in flight. answered means that its result is known;
// after a probe without a result, the next probe waits for another Pause. c.mu is held.
func (c *Circuit) leave(x *lock, answered bool) {
	if x.link != nil {
		if c.holders[x.link.peer]--; c.holders[x.link.peer] == 0 {
			delete(c.holders, x.link.peer)
		}
	}
	if c.open && c.limit == 1 && x.round == c.round && !x.gone && !answered {
		c.until = c.e.Now().Add(c.Pause)
	}
	x.link, x.gone = nil, true
}

// end records that a link has closed. Messages of a receiver may still get results; those of a
// session are forgotten. failed says that the session's lock had ended, which counts as one
// failure.
func (c *Circuit) end(l *link, failed bool) {
	if !c.enter() {
		return
	}
	defer c.mu.Unlock()
	sessions := c.e.View().Settings.RequiresSession
	for token, x := range c.locks {
		if x.link != l {
			continue
		}
		c.leave(x, failed)
		if sessions {
			delete(c.locks, token)
		}
		if failed {
			c.note(x, result{l.peer, true})
			failed = false
		}
	}
}

// expire counts ended locks as failures, but not those of messages in a session. c.mu is held.
func (c *Circuit) expire() {
	now := c.e.Now()
	if len(c.locks) == 0 || now.Before(c.next) || c.e.View().Settings.RequiresSession {
		return
	}
	c.next = time.Time{}
	for token, x := range c.locks {
		if l := x.link; !x.until.After(now) {
			c.forget(token, l != nil)
			if l != nil {
				c.note(x, result{l.peer, true})
			}
		} else if c.next.IsZero() || x.until.Before(c.next) {
			c.next = x.until
		}
	}
}

func (c *Circuit) Renewed(tokens []core.LockToken, renewals []core.Renewal) {
	if !c.enter() {
		return
	}
	defer c.mu.Unlock()
	for i, r := range renewals {
		if x := c.locks[tokens[i]]; x != nil && r.Err == nil {
			x.until = r.Until
		}
	}
}

// Settled records the results of settlements. A nil errs means that all have succeeded.
func (c *Circuit) Settled(ctx context.Context, settlements []core.Settlement, errs []error) {
	if len(settlements) == 0 || !c.enter() {
		return
	}
	defer c.mu.Unlock()
	peer := core.PeerOf(ctx)
	for i := range settlements {
		s := &settlements[i]
		failed, answered := s.Failed, s.Failed || s.Outcome != core.Abandon && s.Outcome != core.Release
		if errs != nil && errs[i] != nil {
			if code := core.CodeOf(errs[i]); code != core.LockLost && code != core.SessionLockLost {
				continue // the message is still locked
			}
			x := c.locks[s.Token]
			failed = x != nil && x.link != nil
			answered = failed
		}
		if x := c.forget(s.Token, answered); answered {
			c.note(x, result{peer, failed})
		}
	}
}

// note counts a result. x is the message's lock, or nil if it is unknown. c.mu is held.
func (c *Circuit) note(x *lock, r result) {
	if c.open && (x == nil && c.pauses() || x != nil && x.round != c.round) {
		return
	}
	others := len(c.holders) > min(c.holders[r.peer], 1)
	own := 0
	for _, o := range c.results {
		if o.peer == r.peer {
			own++
		} else {
			others = true
		}
	}
	if others && own >= max(c.Of*shareOf/shareIn, 1) {
		i := slices.IndexFunc(c.results, func(o result) bool { return o.peer == r.peer })
		c.results = slices.Delete(c.results, i, i+1)
	} else if len(c.results) == c.Of {
		c.results = slices.Delete(c.results, 0, 1)
	}
	c.results = append(c.results, r)
	failures, run, mixed := 0, 0, false // run: failures in a row; mixed: from several connections
	for _, o := range c.results {
		if o.failed {
			failures, run, mixed = failures+1, run+1, mixed || o.peer != r.peer
		} else {
			run, mixed = 0, false
		}
	}
	if failures >= c.Failures || run >= c.consecutive() && (mixed || !others) || c.open && c.limit == 1 && r.failed {
		c.trip(failures)
	} else if c.open {
		c.widen(r.failed)
	}
}

// c.mu is held.
func (c *Circuit) trip(failures int) {
	if !c.open {
		c.open, c.full, c.probes = true, max(len(c.locks), c.consecutive()), 0
		c.e.admission.opened.Add(1)
		c.e.Log.Warn("the circuit breaker has opened: deliveries pause", "entity", c.e.View().Name, "failures", failures, "of", len(c.results), "pause", c.Pause)
	} else if c.limit == 1 {
		c.probes++
	}
	c.until, c.limit = c.e.Now().Add(c.Pause), 1
	c.round++
	c.results, c.seen, c.wrong = c.results[:0], 0, 0
}

// widen counts a result of the half-open circuit, and doubles the limit after a good window.
func (c *Circuit) widen(failed bool) {
	c.until = time.Time{}
	c.seen++
	if failed {
		c.wrong++
	}
	if c.seen < min(c.limit, c.Of) {
		return
	}
	if c.wrong*c.Of < c.Failures*c.seen {
		c.limit *= 2
	}
	c.seen, c.wrong = 0, 0
	if c.limit >= c.full {
		c.open, c.results = false, c.results[:0]
		c.logClosed()
	}
}

func (c *Circuit) logClosed() {
	c.e.Log.Info("the circuit breaker has closed: deliveries continue", "entity", c.e.View().Name)
}

// consecutive returns how many failures in a row open the circuit: Breaker.Consecutive, but if
// possible fewer than dead-letter a message. c.mu is held.
func (c *Circuit) consecutive() int {
	v := c.e.View()
	deliveries := v.Settings.MaxDeliveryCount
	if c.Consecutive < deliveries {
		return c.Consecutive
	}
	if !c.e.admission.warned.Swap(true) {
		text := "the circuit breaker opens after fewer failures than configured, because more failures would dead-letter a message"
		if deliveries == 1 {
			text = "the circuit breaker cannot prevent dead letters, because the entity dead-letters a message after its first failure"
		}
		c.e.Log.Warn(text, "entity", v.Name, "consecutive", c.Consecutive, "MaxDeliveryCount", deliveries)
	}
	return max(deliveries-1, 1)
}

// Soften changes the result of a failed delivery unless the circuit is closed. It releases a
// message that had failed before, so that its delivery count does not rise. It delays a probe, so
// that the next probe is another message.
func (c *Circuit) Soften(s *core.Settlement) {
	if !c.enter() {
		return
	}
	defer c.mu.Unlock()
	if !c.open {
		return
	}
	x, delay := c.locks[s.Token], c.Pause
	probe := c.limit == 1 && (x == nil || x.round == c.round)
	if probe {
		delay *= time.Duration(min(c.probes+1, maxProbeDelay))
	} else if c.e.View().Settings.RequiresSession { // a delay would pause the whole session
		delay = 0
	}
	if x == nil || x.failed {
		s.Outcome, s.Properties, s.Backoff = core.Release, core.Properties{}, core.Backoff{First: delay}
	} else if probe && s.Outcome == core.Abandon && s.Backoff.After(0) < delay {
		s.Backoff = core.Backoff{First: delay}
	}
}

// State returns "" without a breaker.
func (c *Circuit) State() string {
	if !c.enter() {
		return ""
	}
	defer c.mu.Unlock()
	c.expire()
	switch {
	case !c.open:
		return Closed
	case c.pauses():
		return Open
	}
	return HalfOpen
}
