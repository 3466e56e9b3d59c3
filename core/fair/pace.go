package fair

import "time"

// A message that has begun may pause for at most Grace, and must arrive at MinRate on average.
// Large messages therefore get the time that they need, and stalled messages take memory no longer
// than Grace.
const (
	Grace   = 20 * time.Second
	MinRate = 16 << 10 // bytes a second
)

// Pace determines by when more bytes of a message must arrive.
type Pace struct{ due time.Time }

// Begin returns the pace of a message that begins at the time now.
func Begin(now time.Time) Pace { return Pace{now.Add(Grace)} }

// Went records that n more bytes had arrived at the time now.
func (p *Pace) Went(n int, now time.Time) {
	p.due = p.due.Add(time.Duration(n) * time.Second / MinRate)
	if latest := now.Add(Grace); p.due.After(latest) {
		p.due = latest
	}
}

// Paused records that the gateway itself did not read until the time now.
func (p *Pace) Paused(now time.Time) { p.due = now.Add(Grace) }

// Due returns when the next bytes must have arrived.
func (p *Pace) Due() time.Time { return p.due }
