package amqp

import (
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
)

func TestLinksSayWhatTheClientAccepts(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	p := dialPeer(t, serve(t, b, &fakeAuthority{}, Options{}))
	p.open()
	for i, c := range []struct {
		properties value.Map
		want       string
	}{
		{nil, ""},
		{value.Map{{Key: value.Symbol("com.crosstown:accept"), Value: "application/json"}}, "application/json"},
		{value.Map{{Key: value.Symbol("com.crosstown:accept"), Value: value.Symbol("text/*")}}, "text/*"},
	} {
		p.send(0, &wire.Attach{
			Name: c.want, Handle: uint32(i), Role: wire.RoleReceiver,
			Source: &wire.Source{Address: value.Some("q1")}, Properties: c.properties,
		})
		await[*wire.Attach](p)
		b.mu.Lock()
		receivers := b.queues["q1"].receivers
		got := receivers[len(receivers)-1].o.Accept
		b.mu.Unlock()
		if got != c.want {
			t.Errorf("%v: got %q, want %q", c.properties, got, c.want)
		}
	}
	p.send(0, &wire.Attach{
		Name: "wrong", Handle: 9, Role: wire.RoleReceiver, Source: &wire.Source{Address: value.Some("q1")},
		Properties: value.Map{{Key: value.Symbol("com.crosstown:accept"), Value: int32(1)}},
	})
	await[*wire.Attach](p)
	if d := await[*wire.Detach](p); d.Error == nil || d.Error.Condition != wire.CondInvalidField && !strings.Contains(d.Error.Description, "is not a string") {
		t.Errorf("a number: got %+v", d)
	}
}
