package delivery

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// MaxSweepWait limits the time between sweeps while receivers of dead letters wait: this gateway
// does not know when messages and locks of other gateways expire.
const MaxSweepWait = 5 * time.Second

// sweep sweeps the main queue when something in it is due, while receivers of its dead letters have
// credit. The store then notifies the dispatcher's workers of new dead letters.
func (d *dispatcher) sweep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-d.quit:
			return
		case <-d.sweepSoon:
		case <-timer.C:
		}
		d.mu.Lock()
		hasCredit := d.credit > 0
		d.mu.Unlock()
		if !hasCredit {
			timer.Stop()
			continue
		}
		timer.Reset(d.sweepOnce())
	}
}

func (d *dispatcher) sweepOnce() time.Duration {
	var first time.Time
	for _, p := range d.e.View().Queues[core.Main] {
		next, err := p.Sweep(d.e.Base)
		if err != nil { // the workers log outages
			continue
		}
		if !next.IsZero() && (first.IsZero() || next.Before(first)) {
			first = next
		}
	}
	now := d.e.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.nextExpiry.After(now) {
		d.nextExpiry = time.Time{}
	}
	if first.IsZero() || !d.nextExpiry.IsZero() && d.nextExpiry.Before(first) {
		first = d.nextExpiry
	}
	if first.IsZero() {
		return MaxSweepWait
	}
	return min(max(first.Sub(now), time.Millisecond), MaxSweepWait)
}

// expectExpiry makes the sweeper run at the given time or earlier. It ignores a zero time.
func (d *dispatcher) expectExpiry(at time.Time) {
	if at.IsZero() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.nextExpiry.IsZero() || at.Before(d.nextExpiry) {
		d.nextExpiry = at
		d.sweepSoon.Set()
	}
}
