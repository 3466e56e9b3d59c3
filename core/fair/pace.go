package fair

import "time"

// A message that has begun may pause for at most Grace, and must arrive at MinRate on average. So
// large messages get the time that they need, and stalled ones hold memory no longer than Grace.
const (
	Grace   = 20 * time.Second
	MinRate = 16 << 10 // bytes a second
)

// Pace says by when more of a message that has begun must come.
type Pace struct{ due time.Time }

// Begin is the pace of a message that begins at now.
func Begin(now time.Time) Pace { return Pace{now.Add(Grace)} }

// Went notes that n more bytes had come at now.
func (p *Pace) Went(n int, now time.Time) {
	p.due = p.due.Add(time.Duration(n) * time.Second / MinRate)
	if latest := now.Add(Grace); p.due.After(latest) {
		p.due = latest
	}
}

// Paused notes that the gateway itself did not read until now.
func (p *Pace) Paused(now time.Time) { p.due = now.Add(Grace) }

// Due is when the next bytes must have come.
func (p *Pace) Due() time.Time { return p.due }
