package forward

import (
	"fmt"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// place is an entity that a route may lead to.
type place struct {
	Entity
	v *entity.View
}

func (p place) Key() string        { return core.FoldName(p.v.Name) }
func (p place) View() *entity.View { return p.v }

// site is a remote.
type site struct{ core.Remote }

// TestRoutes tells, for messages of a partition in their order, where each goes. A line is a message: its
// number, its fields, and the step that is planned. What is held back blocks its destination.
func TestRoutes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sub   core.SubQueue
		to    string
		waits bool
		lines string
	}{
		"by the settings": {core.Main, "Wide", false, `
			1                 wide/0 hops=1 key=7//0/0/1
			2 session=a       wide/3 hops=1 key=7//0/0/2
			3 session=a       wide/3 hops=1 key=7//0/0/3
			4 hops=3          wide/1 hops=4 key=7//0/0/4
			5 hops=4          rejected quota_exceeded`},
		"dead letters name their source": {core.DeadLetter, "wide", false, `
			1                 wide/1 hops=1 key=7//0/1/1 source=Source`},
		"where each message says": {core.Transfer, "", false, `
			1 to=wide         wide/0 hops=1 key=7//0/2/1
			2 to=Source       source/0 hops=0 key=7//0/2/2 unlimited
			3 to=nowhere      rejected not_found
			4 to=topic/Subscriptions/s  rejected invalid_argument
			5                 rejected not_found
			6 to=closed       rejected entity_disabled
			7 to=away         held away
			8 to=far:orders   far:orders id=7//0/2/8
			9 to=gone:orders  held gone
			10 to=away        held away`},
		"a destination that is waited for": {core.Transfer, "", true, `
			1 to=closed       held closed/0
			2 to=wide         wide/0 hops=1 key=7//0/2/2
			3 to=closed       held closed/0`},
		"a destination with sessions": {core.Main, "sessions", false, `
			1                 rejected not_allowed
			2 session=a       sessions/0 hops=1 key=7//0/0/2`},
		"a remote": {core.Main, "far:Orders", false, `
			1                 far:Orders id=7//0/0/1
			2 id=own          far:Orders id=own`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blocked := map[destination]bool{}
			r := route{
				p: core.Partition{Ref: core.Ref{Entity: "7", Sub: c.sub}}, key: "source", name: "Source", to: c.to, waits: c.waits,
				remotes: newRemotes(map[string]core.Remote{"Far": site{}}),
				resolve: knownPlaces(t), blocked: func(to destination) bool { return blocked[to] },
			}
			for line := range strings.Lines(strings.TrimSpace(c.lines)) {
				words := strings.Fields(line)
				d, rest := delivery(words)
				st := r.next(d)
				if st.held {
					blocked[st.to] = true
				}
				if got, want := st.text(), strings.Join(rest, " "); got != want {
					t.Errorf("message %s: got %q, want %q", words[0], got, want)
				}
			}
		})
	}
}

// delivery reads a message from the beginning of a line, and returns the rest.
func delivery(words []string) (d *core.Delivery, rest []string) {
	d = &core.Delivery{Message: &core.Message{}}
	_, _ = fmt.Sscan(words[0], &d.SequenceNumber)
	d.EnqueuedSequenceNumber = d.SequenceNumber
	transit := core.Transit{}
	at := 1
fields:
	for ; at < len(words); at++ {
		name, text, _ := strings.Cut(words[at], "=")
		switch name {
		case "session":
			d.SessionID = text
		case "id":
			d.MessageID = core.StringID(text)
		case "hops":
			_, _ = fmt.Sscan(text, &transit.Hops)
		case "to":
			transit.Destination = text
		default:
			break fields
		}
	}
	if transit != (core.Transit{}) {
		d.Transit = &transit
	}
	return d, words[at:]
}

// text is the step as the lines of TestRoutes have it.
func (st step) text() string {
	switch {
	case st.rejected != nil:
		return "rejected " + string(core.CodeOf(st.rejected))
	case st.held && st.to.e != nil:
		return fmt.Sprintf("held %s/%d", st.to.e.Key(), st.to.partition)
	case st.held:
		return "held " + st.to.remote + st.to.unread
	case st.to.remote != "":
		return fmt.Sprintf("%s id=%s", st.to.remote, st.message.MessageID)
	}
	x := st.message.Transit
	text := fmt.Sprintf("%s/%d hops=%d key=%s", st.to.e.Key(), st.to.partition, x.Hops, x.Key)
	if x.DeadLetterSource != "" {
		text += " source=" + x.DeadLetterSource
	}
	if st.v.Queues[core.Main][0].MaxBytes == 0 {
		text += " unlimited"
	}
	return text
}

// knownPlaces finds the entities of TestRoutes: "away" cannot be read the first time.
func knownPlaces(t *testing.T) func(name string) resolved {
	t.Helper()
	namespace := entity.Namespace{Store: memory.New(memory.Options{})}
	known := map[string]place{}
	for _, name := range []string{"wide", "source", "closed", "sessions", "away"} {
		s := core.DefaultSettings(core.Queue)
		s.MaxMessageSizeInKilobytes = 1
		e := core.Entity{Kind: core.Queue, Name: name, ID: name, Partitions: 1, Settings: s}
		switch name {
		case "wide":
			e.Partitions = 4
		case "closed":
			e.Settings.Status = core.StatusSendDisabled
		case "sessions":
			e.Settings.RequiresSession = true
		}
		known[name] = place{v: namespace.View(e)}
	}
	asked := map[string]bool{}
	return func(name string) resolved {
		name = core.FoldName(name)
		first := !asked[name]
		asked[name] = true
		switch p, ok := known[name]; {
		case name == "away" && first:
			return resolved{err: core.Busy}
		case ok:
			return resolved{e: p, v: p.v}
		case name == "topic/subscriptions/s":
			return resolved{err: core.InvalidArgument}
		default:
			return resolved{err: core.NotFound}
		}
	}
}
