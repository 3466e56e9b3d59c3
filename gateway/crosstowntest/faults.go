package crosstowntest

import (
	"github.com/crosstown-mq/crosstown/core/faults"
)

// Fault makes operations of clients fail. The zero value refuses the next message that a client
// sends, with core.Busy. Package core/faults describes its fields.
type Fault = faults.Rule

// Inject makes operations of this namespace's clients fail. To each operation, the first matching
// fault in the order of injection applies.
func (b *Bus) Inject(f Fault) {
	b.tb.Helper()
	if _, err := b.faults().Add(b.tb.Context(), f); err != nil {
		b.tb.Fatalf("crosstowntest: cannot add a fault rule: %v", err)
	}
}

// ExpectFaultsMet fails the test if a fault did not happen as often as its fields demand.
func (b *Bus) ExpectFaultsMet() {
	b.tb.Helper()
	for _, s := range b.faults().List() {
		if s.Met < s.Times && s.Effect != faults.Throttle {
			b.tb.Errorf("the fault rule '%s' (%s, %s) took effect %d times, want %d", s.Name, s.Operation, s.Effect, s.Met, s.Times)
		}
	}
}

func (b *Bus) faults() *faults.Rules {
	rules, _ := b.gateway.faults.Load(b.identity.NamespaceID())
	return rules.(*faults.Rules)
}
