package broker

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// pumpBatch is how many messages a step moves.
	pumpBatch = 200
	// pumpLock is how long a step's messages are locked, and pumpCall how long one
	// of its calls may take: a move that is stored so late that its source is
	// unlocked, moved again and its key forgotten would be a second one.
	pumpLock = 20 * time.Second
	pumpCall = 3 * time.Second
	// firstHold and lastHold bound how long messages are held that their
	// destination does not take, and maxHeld how many.
	firstHold = 100 * time.Millisecond
	lastHold  = 10 * time.Second
	// verdictHold is the longest where it is a verdict that is missing.
	verdictHold = time.Second
	maxHeld     = 2000
	// sweepSeldom is how often a queue whose dead letters are forwarded is swept
	// while nothing is known to be due there.
	sweepSeldom = 30 * time.Second
)

// lane is a pump's work on one partition: steps, one at a time.
type lane struct {
	p     *pump
	index int

	// Of the step under way.
	held    []core.Settlement  // messages that could not be moved yet
	blocked map[berth]struct{} // where those are to go
	spread  bool               // others may go elsewhere
	hold    time.Duration      // how long they are held; 0 when all goes well
	until   time.Time          // when they are tried again
	turns   turns
	stalled bool      // a remote did not take all
	away    bool      // it could not be asked
	asleep  time.Time // until when none is to be asked, whatever rings

	mu      sync.Mutex
	unwatch func()
	queued  bool // a step is to come, or under way
	rung    bool // since the step under way began
	hurried bool // what is held is to be tried again
	stopped bool
	idle    bool // the last step found nothing, and nothing is due
	timer   *time.Timer
	due     time.Time // when the timer rings, by this machine's clock
}

// berth is a partition that messages are moved to, or an entity of a remote.
type berth struct {
	e         *entry
	partition uint16
	remote    string // REMOTE:ENTITY
}

// open begins the work of the lane.
func (l *lane) open(unwatch func()) {
	l.mu.Lock()
	l.unwatch = unwatch
	l.mu.Unlock()
	l.ring("")
}

// ring says that there may be messages: the store's doorbell, or the timer.
func (l *lane) ring(core.SessionKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call()
}

// hurry is ring when more may go well than before.
func (l *lane) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hurried = true
	l.call()
}

// call has a step follow. l.mu is held.
func (l *lane) call() {
	switch {
	case l.stopped:
	case l.queued:
		l.rung = true
	default:
		l.queued, l.idle = true, false
		l.p.set.enqueue(l)
	}
}

// ringAt has the lane rung at an instant of the store's clock.
func (l *lane) ringAt(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.after(max(at.Sub(l.p.set.b.store.Now()), time.Millisecond))
}

// after rings after a pause, if that is sooner than what is set. l.mu is held.
func (l *lane) after(pause time.Duration) {
	due := time.Now().Add(pause)
	switch {
	case l.stopped || !l.due.IsZero() && !due.Before(l.due):
	case l.timer == nil:
		l.due = due
		l.timer = time.AfterFunc(pause, l.elapsed)
	default:
		l.due = due
		l.timer.Reset(pause)
	}
}

func (l *lane) elapsed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = time.Time{}
	l.call()
}

func (l *lane) isIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle && !l.queued
}

// stop ends the lane; a last step gives back what is held.
func (l *lane) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	l.stopped = true
	l.unwatch()
	if l.timer != nil {
		l.timer.Stop()
	}
	if !l.queued {
		l.queued = true
		l.p.set.enqueue(l)
	}
}

// plan is what a step found to follow.
type plan struct {
	again bool          // there is more to do now
	pause time.Duration // else when to look again; 0: when it rings
}

// serve takes a step and sees to the next.
func (l *lane) serve(ctx context.Context) {
	l.p.set.b.gate.enter()
	defer l.p.set.b.gate.leave()
	l.mu.Lock()
	l.rung = false
	stopped, hurried := l.stopped, l.hurried
	l.hurried = false
	l.mu.Unlock()
	if stopped {
		l.release(ctx)
		return
	}
	if hurried {
		l.until, l.asleep = time.Time{}, time.Time{}
	}
	next := l.step(ctx)

	l.mu.Lock()
	switch {
	case l.stopped:
		l.mu.Unlock()
		l.release(ctx)
		return
	case next.again || l.rung:
		l.p.set.enqueue(l)
		l.mu.Unlock()
		return
	}
	l.queued = false
	if next.pause > 0 {
		l.after(next.pause)
	}
	l.idle = next.pause == 0
	rest := l.idle && l.p.passing
	l.mu.Unlock()
	if rest {
		l.p.set.rest(l.p)
	}
}

// step locks a batch of messages and moves them.
func (l *lane) step(ctx context.Context) plan {
	b := l.p.set.b
	if len(l.held) > 0 && !time.Now().Before(l.until) {
		l.release(ctx)
	}
	if len(l.held) >= maxHeld {
		return plan{pause: max(time.Until(l.until), time.Millisecond)}
	}
	if pause := max(time.Until(l.turns.until), time.Until(l.asleep)); pause > 0 {
		return plan{pause: pause}
	}
	e, err := b.entity(ctx, l.p.name)
	if core.CodeOf(err) == core.NotFound {
		b.pumps.changed(l.p.name)
		return plan{}
	}
	if err != nil {
		return l.wait()
	}
	v := e.current.Load()
	if v.ID != l.p.key.id || !l.wanted(v) {
		return plan{}
	}
	var pause time.Duration
	if l.p.key.sub == core.DeadLetter {
		pause = l.sweep(ctx, v)
	}
	p := v.partitions[l.p.key.sub][l.index]
	p.LockDuration = pumpLock
	asked := pumpBatch
	r := b.remotes[l.p.remote]
	if r != nil {
		asked = r.Window()
	}
	if l.away || r == nil && l.hold > 0 && len(l.held) == 0 || !l.turns.since.IsZero() {
		asked = 1 // is it worth the effort?
	}
	l.stalled, l.away = false, false
	locked := time.Now()
	call, cancel := context.WithTimeout(ctx, pumpCall)
	ds, next, err := b.store.Lock(call, p, asked)
	cancel()
	if err != nil {
		return l.wait()
	}
	moved := 0
	if len(ds) > 0 {
		if !l.mayMove(ctx, p, ds) {
			l.giveBack(ctx, p, ds)
			return plan{pause: max(time.Until(l.turns.until), time.Millisecond)}
		}
		if l.p.key.sub == core.Main && v.Kind == core.Topic {
			moved = l.publish(ctx, e, p, ds)
		} else {
			moved = l.forward(ctx, e, p, ds, locked)
		}
		e.traffic.outlets[p.Sub].moved.Add(int64(moved))
	}
	return l.plan(len(ds) == asked, moved > 0, next, pause)
}

// plan is what follows a step that found as many messages as it asked for or
// not, and got one moved or not.
func (l *lane) plan(full, moved bool, next time.Time, pause time.Duration) plan {
	if l.stalled {
		if moved {
			l.hold = 0
		}
		l.lengthen()
		l.asleep = time.Now().Add(l.hold)
		return plan{pause: l.hold}
	}
	if len(l.held) == 0 {
		l.hold = 0
		if full {
			return plan{again: true}
		}
	} else {
		if full && len(l.held) < maxHeld && (moved || l.spread) {
			return plan{again: true}
		}
		pause = sooner(pause, max(time.Until(l.until), time.Millisecond))
	}
	if !next.IsZero() {
		pause = sooner(pause, max(next.Sub(l.p.set.b.store.Now()), time.Millisecond))
	}
	return plan{pause: pause}
}

// sooner is the shorter of two pauses, 0 being none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// wait is the plan when the store does not answer.
func (l *lane) wait() plan {
	l.lengthen()
	return plan{pause: l.hold}
}

// wanted reports whether messages may be taken from the source. Disabled
// entities keep theirs; what is scheduled, or on its way, was accepted before.
func (l *lane) wanted(v *view) bool {
	switch {
	case l.p.key.sub == core.Transfer, v.Kind == core.Topic:
		return true
	case target(&v.Settings, l.p.key.sub) != l.p.to:
		return false // its pump is about to be told
	default:
		return v.Settings.Status.CanReceive()
	}
}

// sweep makes dead letters of what is due in the queue that they come from, and
// returns when to do so again.
func (l *lane) sweep(ctx context.Context, v *view) time.Duration {
	b := l.p.set.b
	call, cancel := context.WithTimeout(ctx, pumpCall)
	defer cancel()
	next, err := b.store.Sweep(call, v.partitions[core.Main][l.index])
	if err != nil || next.IsZero() {
		return sweepSeldom
	}
	return min(max(next.Sub(b.store.Now()), time.Millisecond), sweepSeldom)
}

// keep holds a message until its destination may take it.
func (l *lane) keep(d *core.Delivery, to berth) {
	if len(l.held) == 0 {
		l.lengthen()
		l.until = time.Now().Add(l.hold)
	}
	l.held = append(l.held, core.Settlement{Token: d.LockToken, Outcome: core.Release})
	if to != (berth{}) {
		if l.blocked == nil {
			l.blocked = map[berth]struct{}{}
		}
		l.blocked[to] = struct{}{}
		l.spread = l.spread || l.p.key.sub == core.Transfer || to.e != nil && len(to.e.shunned) > 1
	}
}

// lengthen doubles the pause that follows a failure.
func (l *lane) lengthen() { l.hold = min(max(2*l.hold, firstHold), lastHold) }

// giveBack releases messages that were not tried.
func (l *lane) giveBack(ctx context.Context, p core.Partition, ds []core.Delivery) {
	settlements := make([]core.Settlement, len(ds))
	for i := range ds {
		settlements[i] = core.Settlement{Token: ds[i].LockToken, Outcome: core.Release}
	}
	call, cancel := context.WithTimeout(ctx, pumpCall)
	defer cancel()
	l.p.set.b.store.Settle(call, p, settlements) // else the locks expire
}

// release gives back what is held.
func (l *lane) release(ctx context.Context) {
	held := l.held
	l.held, l.blocked, l.spread = nil, nil, false
	if len(held) == 0 {
		return
	}
	if e := l.p.set.b.cached(l.p.name); e != nil && e.current.Load().ID == l.p.key.id {
		call, cancel := context.WithTimeout(ctx, pumpCall)
		defer cancel()
		l.p.set.b.store.Settle(call, e.current.Load().partitions[l.p.key.sub][l.index], held) // else the locks expire
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
