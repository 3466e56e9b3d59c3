package memory_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// Sessions are listed a thousand at a time, so that other calls need not wait: all of them, and one that is among
// many that do not count.
func TestLongListsOfSessionsAreWhole(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	e := core.Entity{Namespace: "ns", Name: "q", ID: "q", Partitions: 1, Settings: core.DefaultSettings(core.Queue)}
	if _, err := s.CreateEntity(t.Context(), e, core.NamespaceQuotas{}); err != nil {
		t.Fatal(err)
	}
	p := s.Partition(core.Ref{Entity: e.ID}, core.Policy{LockDuration: time.Minute, MaxDeliveryCount: 10, Sessions: true})
	var want []string
	for i := range 3000 {
		m := &core.Message{SessionID: fmt.Sprintf("s%04d", i), Body: core.Body{Bytes: []byte("x")}}
		want = append(want, m.SessionID)
		if a := p.Append(t.Context(), [][]*core.Message{{m}}); a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
	}
	l, _, _, err := p.AcceptSession(t.Context(), core.SessionRequest{ID: want[2700]})
	if err == nil {
		err = p.SetSessionState(t.Context(), l, []byte("state"))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		since time.Time
		after core.SessionKey
		top   int
		want  []string
	}{
		{time.Time{}, "", 5000, want},
		{time.Time{}, core.KeyOfSession(want[0]), 2001, want[1:2002]},
		{time.Unix(1, 0), "", 10, want[2700:2701]},
	} {
		if got, err := p.ListSessions(t.Context(), c.since, c.after, c.top); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("since %v, %d after %q: got %d sessions, %v, want %d", c.since, c.top, c.after, len(got), err, len(c.want))
		}
	}
}
