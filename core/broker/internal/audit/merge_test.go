package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Who delivers and who settles may be two gateways, whose clocks differ.
func TestADeliveryComesBeforeWhatEndedIt(t *testing.T) {
	t.Parallel()
	tick := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	fact := func(k core.EventKind, ms int) core.Event { return core.Event{Kind: k, Time: tick(ms), Number: 1} }
	note := func(ms int) core.Event {
		return core.Event{Kind: core.EventDelivered, Time: tick(ms), Number: 1, Note: core.Note{Gateway: "g"}}
	}
	for name, c := range map[string]struct {
		events []core.Event
		want   string
	}{
		"one instant": {
			[]core.Event{fact(core.EventAccepted, 0), fact(core.EventAbandoned, 0), fact(core.EventDeferred, 0), fact(core.EventCompleted, 0), note(0), note(0), note(0)},
			"accepted delivered abandoned delivered deferred delivered completed",
		},
		"ahead":  {[]core.Event{fact(core.EventAccepted, 0), fact(core.EventCompleted, 2), note(40)}, "accepted delivered completed"},
		"behind": {[]core.Event{fact(core.EventAccepted, 0), note(-40)}, "accepted delivered"},
		"still locked": {
			[]core.Event{fact(core.EventAccepted, 0), fact(core.EventLockExpired, 5000), note(0), note(9000)},
			"accepted delivered lock-expired delivered",
		},
	} {
		var got []string
		for _, e := range Merge([][]core.Event{c.events}) {
			got = append(got, string(e.Kind))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
