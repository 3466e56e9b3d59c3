package crosstowntest

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Now returns the namespace's time.
func (b *Bus) Now() time.Time {
	b.tb.Helper()
	clock, now, err := b.gateway.directory.Clock(b.tb.Context(), b.identity.Namespace())
	if err != nil {
		b.tb.Fatalf("crosstowntest: cannot read the namespace's time: %v", err)
	}
	return clock.At(now)
}

// Freeze stops the namespace's time until Resume. Unless Advance or SetTime moves it, no lock ends,
// and no message expires or becomes due.
func (b *Bus) Freeze() {
	b.tb.Helper()
	b.move("freeze", func(c core.VirtualClock, now time.Time) (core.VirtualClock, error) { return c.Freeze(now), nil })
}

// Resume makes frozen time continue from its present value.
func (b *Bus) Resume() {
	b.tb.Helper()
	b.move("resume", func(c core.VirtualClock, now time.Time) (core.VirtualClock, error) { return c.Resume(now), nil })
}

// Advance moves the namespace's time forward, frozen or not. When it returns, everything that
// became due has happened: locks have ended, messages have expired or become active and were
// forwarded, and idle entities are deleted. Receivers get messages shortly after that. Tokens and
// time-outs of calls follow this machine's time.
func (b *Bus) Advance(d time.Duration) {
	b.tb.Helper()
	b.move("advance", func(c core.VirtualClock, now time.Time) (core.VirtualClock, error) { return c.Advance(now, d) })
}

// SetTime sets the namespace's time, frozen or not, and carries out everything that is then due.
func (b *Bus) SetTime(t time.Time) {
	b.tb.Helper()
	b.move("set", func(c core.VirtualClock, now time.Time) (core.VirtualClock, error) { return c.Set(now, t) })
}

func (b *Bus) move(what string, move func(c core.VirtualClock, now time.Time) (core.VirtualClock, error)) {
	b.tb.Helper()
	if err := b.gateway.directory.MoveClock(b.tb.Context(), b.identity.Namespace(), move); err != nil {
		b.tb.Fatalf("crosstowntest: cannot %s the namespace's time: %v", what, err)
	}
}
