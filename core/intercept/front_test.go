package intercept_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/intercept"
)

// journal notes what happens, in order.
type journal struct{ lines []string }

func (j *journal) note(words ...string) { j.lines = append(j.lines, strings.Join(words, " ")) }

func (j *journal) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(j.lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(j.lines, "\n"), strings.Join(want, "\n"))
	}
	j.lines = nil
}

// noting is an interceptor, with a stage, that notes what passes it.
type noting struct {
	*journal
	name   string
	refuse error // of every call, after the broker has done it
	link   *intercept.Link
}

func (n *noting) Intercept(ctx context.Context, c *intercept.Call) {
	n.note(n.name, c.Op.String())
	if o := c.Options; o != nil {
		inner := o.Deliver
		o.Deliver = func(ds []core.Delivery) { n.note(n.name, "deliver"); inner(ds) }
		n.link = c.Link
		c.Link.Add(n)
	}
	c.Next(ctx)
	n.note(n.name, "answered")
	if n.refuse != nil {
		c.Fail(n.refuse)
	}
}

func (n *noting) Drained(then func()) { n.note(n.name, "drained"); then() }
func (n *noting) Close()              { n.note(n.name, "close") }

// noted is a broker that notes what reaches it.
type noted struct {
	stored
	*journal
	credit  int
	deliver func([]core.Delivery)
	drained func(int)
}

func (b *noted) OpenReceiver(_ context.Context, _ core.Identity, _ core.Address, o core.ReceiverOptions) (core.Receiver, error) {
	b.note("broker open")
	b.deliver = o.Deliver
	return b, nil
}

func (b *noted) AddCredit(n int, _ int64) { b.credit += n }
func (b *noted) Drain(drained func(int))  { b.drained = drained }
func (b *noted) Close()                   { b.note("broker close") }
func (b *noted) Begin() core.Transaction  { return committed{} }

type committed struct{ core.Transaction }

func (committed) Cancel(context.Context, core.Identity, core.Address, []int64) error { return nil }
func (committed) Commit(context.Context) error                                       { return core.Busy }

// fronted is a broker behind the interceptors "front" of a front and "space" of a space.
func fronted() (f *intercept.Front, b *noted, outer, inner *noting, j *journal) {
	j = &journal{}
	b = &noted{journal: j}
	outer, inner = &noting{journal: j, name: "front"}, &noting{journal: j, name: "space"}
	return intercept.New(&intercept.Space{Broker: b, Chain: []intercept.Interceptor{inner}}, outer), b, outer, inner, j
}

func TestAReceiverPassesItsStagesFromBackToFront(t *testing.T) {
	f, b, _, inner, j := fronted()
	r, err := f.OpenReceiver(t.Context(), nil, core.At("q"), core.ReceiverOptions{Deliver: func([]core.Delivery) { j.note("bridge") }})
	if err != nil {
		t.Fatal(err)
	}
	j.want(t, "front open-receiver", "space open-receiver", "broker open", "space answered", "front answered")
	b.deliver(deliveries[:])
	j.want(t, "space deliver", "front deliver", "bridge")
	inner.link.Refund(1, 0)
	r.Drain(func(unspent int) { j.note("unspent", strings.Repeat("I", unspent)) })
	inner.link.Refund(2, 0) // too late for the broker
	b.drained(3)
	if b.credit != 1 {
		t.Errorf("the broker got a credit of %d", b.credit)
	}
	j.want(t, "space drained", "front drained", "unspent IIIII")
	r.Close()
	j.want(t, "broker close", "space close", "front close")
}

func TestARefusedReceiverIsClosed(t *testing.T) {
	f, _, outer, _, j := fronted()
	outer.refuse = core.Busy
	if _, err := f.OpenReceiver(t.Context(), nil, core.At("q"), core.ReceiverOptions{}); !errors.Is(err, core.Busy) {
		t.Errorf("got %v", err)
	}
	j.want(t, "front open-receiver", "space open-receiver", "broker open", "space answered", "front answered", "broker close", "space close", "front close")
}

// rooms are spaces by namespace.
type rooms map[string]*intercept.Space

func (r rooms) Space(_ context.Context, id core.Identity) (*intercept.Space, error) {
	if s := r[id.NamespaceID()]; s != nil {
		return s, nil
	}
	return nil, core.NotFound
}

func TestASpaceThatIsGoneRefusesBehindTheFront(t *testing.T) {
	j := &journal{}
	f := intercept.New(rooms{}, &noting{journal: j, name: "front"})
	two := make([]core.Settlement, 2)
	for name, err := range map[string]error{
		"settle": errors.Join(f.Settle(t.Context(), nil, core.At("q"), two)[1:]...),
		"renew":  f.Renew(t.Context(), nil, core.At("q"), make([]core.LockToken, 2))[1].Err,
		"cancel": f.Cancel(t.Context(), nil, core.At("q"), nil),
		"delete": f.DeleteEntity(t.Context(), nil, "q"),
		"send":   f.Begin().Send(t.Context(), nil, core.At("q"), core.Address{}, nil),
	} {
		if !errors.Is(err, core.NotFound) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if len(j.lines) != 10 {
		t.Errorf("the front saw %q", j.lines)
	}
}

func TestATransactionIsOfOneSpace(t *testing.T) {
	_, b, _, inner, j := fronted()
	space := &intercept.Space{Broker: b, Chain: []intercept.Interceptor{inner}}
	f := intercept.New(rooms{"a": space, "b": space})
	in := func(id string) core.Identity { return core.Identity{{NamespaceID: id}} }
	x := f.Begin()
	if err := x.Commit(t.Context()); err != nil {
		t.Errorf("nothing: got %v", err)
	}
	j.want(t)
	if err := x.Cancel(t.Context(), in("a"), core.At("q"), nil); err != nil {
		t.Error(err)
	}
	if err := x.Cancel(t.Context(), in("b"), core.At("q"), nil); core.CodeOf(err) != core.NotAllowed {
		t.Errorf("another space: got %v", err)
	}
	if err := x.Commit(t.Context()); !errors.Is(err, core.Busy) {
		t.Errorf("commit: got %v", err)
	}
	j.want(t, "space cancel", "space answered", "space commit", "space answered")
}
