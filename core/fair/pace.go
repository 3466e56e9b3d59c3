package fair

import "time"

// A message that has begun may pause for at most Grace, and must arrive at MinRate on average. So a
// large message gets the time that it needs, and a stalled one occupies memory for at most Grace.
const (
	Grace   = 20 * time.Second
	MinRate = 16 << 10 // bytes per second
)

type Pace struct{ due time.Time }

func Begin(now time.Time) Pace { return Pace{now.Add(Grace)} }

func (p *Pace) Went(n int, now time.Time) {
	p.due = p.due.Add(time.Duration(n) * time.Second / MinRate)
	if latest := now.Add(Grace); p.due.After(latest) {
		p.due = latest
	}
}

// Paused records that the gateway has read nothing until now: the client was not too slow.
func (p *Pace) Paused(now time.Time) { p.due = now.Add(Grace) }

func (p *Pace) Due() time.Time { return p.due }
