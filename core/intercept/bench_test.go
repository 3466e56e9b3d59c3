package intercept_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/intercept"
)

// stored is a broker that stores nothing and says that it has, and delivers at once.
type stored struct {
	core.Broker
	core.Admin
}

func (stored) OpenSender(context.Context, core.Identity, core.Address, func(error)) (core.Sender, error) {
	return stored{}, nil
}

func (stored) OpenReceiver(_ context.Context, _ core.Identity, _ core.Address, o core.ReceiverOptions) (core.Receiver, error) {
	return receiver{o.Deliver}, nil
}

func (stored) Send(_ context.Context, groups [][]*core.Message) []core.Appended {
	return answers[:len(groups)]
}

func (stored) Settle(context.Context, core.Identity, core.Address, []core.Settlement) []error {
	return errs[:]
}

func (stored) MaxMessageSize() int64 { return 1 << 20 }
func (stored) Close()                {}

type receiver struct{ deliver func([]core.Delivery) }

func (r receiver) AddCredit(int, int64) { r.deliver(deliveries[:]) }
func (r receiver) Drain(func(int))      {}
func (r receiver) Close()               {}

var (
	orders     = core.Address{Entity: "orders"}
	answers    [1]core.Appended
	errs       [1]error
	deliveries = [1]core.Delivery{{Message: &core.Message{}}}
)

// idle is an interceptor that watches receivers and does nothing else.
type idle struct{}

func (idle) Intercept(ctx context.Context, c *intercept.Call) {
	if o := c.Options; o != nil {
		inner := o.Deliver
		o.Deliver = func(ds []core.Delivery) { inner(ds) }
	}
	c.Next(ctx)
}

// operations are those that clients do often.
func operations(tb testing.TB, b core.Broker) map[string]func() {
	ctx := context.Background()
	sender, err := b.OpenSender(ctx, nil, orders, nil)
	if err != nil {
		tb.Fatal(err)
	}
	rx, err := b.OpenReceiver(ctx, nil, orders, core.ReceiverOptions{Deliver: func([]core.Delivery) {}})
	if err != nil {
		tb.Fatal(err)
	}
	groups, settlements := [][]*core.Message{{{}}}, []core.Settlement{{Outcome: core.Complete}}
	return map[string]func(){
		"send":    func() { sender.Send(ctx, groups) },
		"settle":  func() { b.Settle(ctx, nil, orders, settlements) },
		"deliver": func() { rx.AddCredit(1, core.AnyMessage) },
	}
}

// BenchmarkOperations is what an operation costs that passes a front with so many idle interceptors.
func BenchmarkOperations(b *testing.B) {
	for name, op := range operations(b, stored{}) {
		b.Run(name+"/without", func(b *testing.B) { measure(b, op) })
	}
	for _, n := range []int{0, 2, 5} {
		for name, op := range operations(b, intercept.New(&intercept.Space{Broker: stored{}}, slices.Repeat([]intercept.Interceptor{idle{}}, n)...)) {
			b.Run(fmt.Sprintf("%s/interceptors=%d", name, n), func(b *testing.B) { measure(b, op) })
		}
	}
}

func measure(b *testing.B, op func()) {
	b.ReportAllocs()
	for b.Loop() {
		op()
	}
}

func TestIdleInterceptorsAllocateNothing(t *testing.T) {
	for name, op := range operations(t, intercept.New(&intercept.Space{Broker: stored{}}, slices.Repeat([]intercept.Interceptor{idle{}}, 5)...)) {
		if n := testing.AllocsPerRun(1000, op); n > 0 {
			t.Errorf("%s: got %v allocations", name, n)
		}
	}
}
