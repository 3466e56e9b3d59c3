package forward

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

const (
	forwardBatchSize = 200
	forwardBytes     = 8 << 20
	// forwardLock is how long a step locks messages, and CallTimeout limits each of its calls.
	// CallTimeout is much shorter, because a late call would store a second copy of a message that
	// another forwarder has moved meanwhile, and whose key the destination has forgotten.
	forwardLock = 20 * time.Second
	CallTimeout = 3 * time.Second
	// minHold and MaxHold are the shortest and longest times for which messages are held back when
	// their destination does not accept them. A partition forwarder holds back at most maxHeld
	// messages.
	minHold = 100 * time.Millisecond
	MaxHold = 10 * time.Second
	// minDeadHold and MaxDeadHold are how long dead letters are held back, without locks.
	minDeadHold = time.Second
	MaxDeadHold = time.Minute
	// maxVerdictHold is MaxHold for messages that wait for the verdict of a pipeline.
	maxVerdictHold = time.Second
	maxHeld        = 2000
	maxSweepPause  = 30 * time.Second
)

// partitionForwarder does a forwarder's work in one partition, one step after the other.
type partitionForwarder struct {
	parent *forwarder
	index  int

	view   *entity.View
	source core.Partition // view's partition, with the lock duration of a forwarder

	// Only the step in flight uses these.
	held             []core.Settlement
	blocked          map[destination]struct{}
	manyDestinations bool          // the queue may have messages for destinations that are not blocked
	holdTime         time.Duration // how long messages are held back; 0 while moves succeed
	retryAt          time.Time
	doubtUntil       time.Time // until then, a call that failed may still store held messages
	lease            orderLease
	remoteStalled    bool
	remoteAway       bool
	pausedUntil      time.Time // no message is sent earlier, even if the forwarder is woken

	mu        sync.Mutex
	unwatch   func()
	queued    bool
	woken     bool
	retryHeld bool
	stopped   bool
	idle      bool
	timer     *time.Timer
	due       time.Time // when timer fires, by this machine's clock
}

type destination struct {
	e         Entity
	partition uint16
	remote    string // the destination as REMOTE:ENTITY; "": it is in this namespace
	unread    string // the lower-case name of an entity that could not be read
}

func (pf *partitionForwarder) open(unwatch func()) {
	pf.mu.Lock()
	pf.unwatch = unwatch
	pf.mu.Unlock()
	pf.wake("")
}

// The store calls wake when it has new messages, and so does the timer.
func (pf *partitionForwarder) wake(core.SessionKey) {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	pf.schedule()
}

// retry makes the next step try the held messages, too: their destination may accept them now.
func (pf *partitionForwarder) retry() {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	pf.retryHeld = true
	pf.schedule()
}

func (pf *partitionForwarder) schedule() {
	switch {
	case pf.stopped:
	case pf.queued:
		pf.woken = true
	default:
		pf.queued, pf.idle = true, false
		pf.parent.set.enqueue(pf)
	}
}

func (pf *partitionForwarder) wakeAt(at time.Time) {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	pf.wakeAfter(max(at.Sub(pf.parent.set.Store.Now()), time.Millisecond))
}

// wakeAfter sets the timer, unless it already fires earlier. pf.mu is held.
func (pf *partitionForwarder) wakeAfter(pause time.Duration) {
	due := time.Now().Add(pause)
	if !pf.stopped && (pf.due.IsZero() || due.Before(pf.due)) {
		pf.due = due
		pf.timer.Reset(pause)
	}
}

func (pf *partitionForwarder) elapsed() {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	pf.due = time.Time{}
	pf.schedule()
}

func (pf *partitionForwarder) isIdle() bool {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	return pf.idle && !pf.queued
}

func (pf *partitionForwarder) stop() {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	if pf.stopped {
		return
	}
	pf.stopped = true
	pf.unwatch()
	pf.timer.Stop()
	if !pf.queued {
		pf.queued = true
		pf.parent.set.enqueue(pf)
	}
}

type nextStep struct {
	again bool          // the next step follows at once
	pause time.Duration // if again is false: the time until the next step; 0: until the forwarder is woken
}

func (pf *partitionForwarder) serve(ctx context.Context) {
	pf.parent.set.Barrier.Enter()
	defer pf.parent.set.Barrier.Leave()
	pf.mu.Lock()
	pf.woken = false
	stopped, retryHeld := pf.stopped, pf.retryHeld
	pf.retryHeld = false
	pf.mu.Unlock()
	if stopped {
		pf.releaseHeld(ctx)
		return
	}
	if retryHeld {
		pf.retryAt, pf.pausedUntil = pf.doubtUntil, time.Time{}
	}
	next := pf.step(ctx)

	pf.mu.Lock()
	switch {
	case pf.stopped:
		pf.mu.Unlock()
		pf.releaseHeld(ctx)
		return
	case next.again || pf.woken:
		pf.parent.set.enqueue(pf)
		pf.mu.Unlock()
		return
	}
	pf.queued = false
	if next.pause > 0 {
		pf.wakeAfter(next.pause)
	}
	pf.idle = next.pause == 0
	rest := pf.idle && pf.parent.to == ""
	pf.mu.Unlock()
	if rest {
		pf.parent.set.retireIfIdle(pf.parent)
	}
}

func (pf *partitionForwarder) step(ctx context.Context) nextStep {
	s := pf.parent.set
	if len(pf.held) > 0 && !time.Now().Before(pf.retryAt) {
		pf.releaseHeld(ctx)
	}
	if len(pf.held) >= maxHeld {
		return nextStep{pause: max(time.Until(pf.retryAt), time.Millisecond)}
	}
	if pause := max(time.Until(pf.lease.yieldUntil), time.Until(pf.pausedUntil)); pause > 0 {
		return nextStep{pause: pause}
	}
	e, err := s.Entity(ctx, pf.parent.name)
	if core.CodeOf(err) == core.NotFound {
		s.Changed(pf.parent.name)
		return nextStep{}
	}
	if err != nil {
		return pf.backOff()
	}
	v := e.View()
	if v.ID != pf.parent.key.id || !pf.mayTake(v) {
		return nextStep{}
	}
	var pause time.Duration
	if pf.parent.key.sub == core.DeadLetter {
		pause = pf.sweep(ctx, v)
	}
	if pf.view != v {
		p := v.Queues[pf.parent.key.sub][pf.index]
		p.LockDuration, p.BrokerLocks = forwardLock, true
		pf.view, pf.source = v, p.In(s.Store)
	}
	p := pf.source
	most := core.Most{Messages: forwardBatchSize, Bytes: forwardBytes}
	r := s.remotes[pf.parent.remote]
	if r != nil {
		most.Messages = r.Window()
	}
	if pf.remoteAway || r == nil && pf.holdTime > 0 && len(pf.held) == 0 || !pf.lease.yieldingSince.IsZero() {
		most.Messages = 1 // to find out with one message whether moves succeed again
	}
	pf.remoteStalled, pf.remoteAway = false, false
	locked := time.Now()
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	ds, next, err := p.Lock(call, core.LockRequest{Most: most})
	cancel()
	if err != nil {
		return pf.backOff()
	}
	moved := 0
	if len(ds) > 0 {
		if !pf.mayMove(ctx, p, ds) {
			pf.releaseUntried(ctx, p, ds)
			return nextStep{pause: max(time.Until(pf.lease.yieldUntil), time.Millisecond)}
		}
		if pf.parent.key.sub == core.Main && v.Kind == core.Topic {
			moved = pf.publishDue(ctx, e, p, ds)
		} else {
			moved = pf.forward(ctx, e, p, ds, locked)
		}
		e.Counters().Queues[p.Sub].Moved.Add(int64(moved))
	}
	if len(pf.held) > 0 && r == nil && p.Sub == core.DeadLetter { // release the held messages until the next try, so that clients can receive or remove them
		pf.pausedUntil = pf.retryAt
		pf.releaseHeld(ctx)
		return nextStep{pause: max(time.Until(pf.pausedUntil), time.Millisecond)}
	}
	return pf.planNext(most.Left(ds, next, s.Store.Now), moved > 0, next, pause)
}

// planNext returns what follows a step. full means that the step may have left messages behind.
func (pf *partitionForwarder) planNext(full, moved bool, next time.Time, pause time.Duration) nextStep {
	if pf.remoteStalled {
		if moved {
			pf.holdTime = 0
		}
		pf.lengthenHold()
		pf.pausedUntil = time.Now().Add(pf.holdTime)
		return nextStep{pause: pf.holdTime}
	}
	if len(pf.held) == 0 {
		pf.holdTime = 0
		if full {
			return nextStep{again: true}
		}
	} else {
		if full && len(pf.held) < maxHeld && (moved || pf.manyDestinations) {
			return nextStep{again: true}
		}
		pause = sooner(pause, max(time.Until(pf.retryAt), time.Millisecond))
	}
	if !next.IsZero() {
		pause = sooner(pause, max(next.Sub(pf.parent.set.Store.Now()), time.Millisecond))
	}
	return nextStep{pause: pause}
}

// sooner returns the pause that ends first; 0 stands for a pause that does not end by itself.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func (pf *partitionForwarder) backOff() nextStep {
	pf.lengthenHold()
	return nextStep{pause: pf.holdTime}
}

// mayTake ignores the status of a transfer queue or topic: their messages were accepted earlier.
func (pf *partitionForwarder) mayTake(v *entity.View) bool {
	switch {
	case pf.parent.key.sub == core.Transfer, v.Kind == core.Topic:
		return true
	case forwardTarget(&v.Settings, pf.parent.key.sub) != pf.parent.to:
		return false // the settings have changed, so this forwarder ends soon
	default:
		return v.Settings.Status.CanReceive()
	}
}

func (pf *partitionForwarder) sweep(ctx context.Context, v *entity.View) time.Duration {
	s := pf.parent.set
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	next, err := v.Queues[core.Main][pf.index].Sweep(call)
	if err != nil || next.IsZero() {
		return maxSweepPause
	}
	return min(max(next.Sub(s.Store.Now()), time.Millisecond), maxSweepPause)
}

func (pf *partitionForwarder) holdBack(d *core.Delivery, to destination) {
	if len(pf.held) == 0 {
		pf.lengthenHold()
		pf.retryAt = time.Now().Add(pf.holdTime)
	}
	pf.held = append(pf.held, core.Settlement{Token: d.LockToken, Outcome: core.Release})
	if to != (destination{}) {
		if pf.blocked == nil {
			pf.blocked = map[destination]struct{}{}
		}
		pf.blocked[to] = struct{}{}
		pf.manyDestinations = pf.manyDestinations || pf.parent.key.sub == core.Transfer || to.e != nil && to.e.View().Partitions > 1
	}
}

// holdBackAfter holds d back after a call failed to store it. If the store may still run the call,
// d stays locked until then: otherwise a forwarder could move d meanwhile and make the destination
// forget the key of the move, and the late call would store a second copy.
func (pf *partitionForwarder) holdBackAfter(err error, d *core.Delivery, to destination) {
	pf.holdBack(d, to)
	if core.CodeOf(err).Retriable() && !core.IsNotDone(err) {
		pf.doubtUntil = time.Now().Add(forwardLock / 2)
		pf.retryAt = pf.doubtUntil
	}
}

func (pf *partitionForwarder) lengthenHold() {
	least, most := minHold, MaxHold
	if pf.parent.key.sub == core.DeadLetter {
		least, most = minDeadHold, MaxDeadHold
	}
	pf.holdTime = min(max(2*pf.holdTime, least), most)
}

func (pf *partitionForwarder) releaseUntried(ctx context.Context, p core.Partition, ds []core.Delivery) {
	if len(ds) == 0 {
		return
	}
	settlements := make([]core.Settlement, len(ds))
	for i := range ds {
		settlements[i] = core.Settlement{Token: ds[i].LockToken, Outcome: core.Release}
	}
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	p.Settle(call, settlements) // if this fails, the locks expire
}

func (pf *partitionForwarder) releaseHeld(ctx context.Context) {
	held := pf.held
	pf.held, pf.blocked, pf.manyDestinations = nil, nil, false
	if len(held) == 0 {
		return
	}
	for i := range held {
		pf.lease.highest = min(pf.lease.highest, held[i].Token.Number()-1)
	}
	if !time.Now().Before(pf.doubtUntil) {
		call, cancel := context.WithTimeout(ctx, CallTimeout)
		defer cancel()
		pf.source.Settle(call, held) // if this fails, the locks expire
	}
}
