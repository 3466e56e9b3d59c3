package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/faults"
	"github.com/crosstown-mq/crosstown/core/intercept"
)

// stored is a broker that stores nothing and says that it has, and delivers at once.
type stored struct{ core.Broker }

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

// before is a broker whose calls meet rules.
func before(r *faults.Rules) core.Broker {
	return intercept.New(&intercept.Space{Broker: stored{}, Chain: []intercept.Interceptor{r}})
}

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

// BenchmarkOperations is what an operation costs: in a namespace that allows no faults; in one that allows them, without rules; and with a rule about another entity.
func BenchmarkOperations(b *testing.B) {
	quiet, busy := faults.New(&book{}, time.Now), faults.New(&book{}, time.Now)
	for _, op := range []faults.Operation{faults.Send, faults.Settle, faults.Deliver} {
		rule := faults.Rule{Operation: op, Entity: "other"}
		if op == faults.Deliver {
			rule.Effect = faults.Drop
		}
		if _, err := busy.Add(b.Context(), rule); err != nil {
			b.Fatal(err)
		}
	}
	for _, of := range []struct {
		name   string
		broker core.Broker
	}{{"off", intercept.New(&intercept.Space{Broker: stored{}})}, {"allowed", before(quiet)}, {"rules", before(busy)}} {
		ctx := context.Background()
		sender, _ := of.broker.OpenSender(ctx, nil, orders, nil)
		rx, _ := of.broker.OpenReceiver(ctx, nil, orders, core.ReceiverOptions{Deliver: func([]core.Delivery) {}})
		groups, settlements := [][]*core.Message{{{}}}, []core.Settlement{{Outcome: core.Complete}}
		for name, op := range map[string]func(){
			"send":    func() { sender.Send(ctx, groups) },
			"settle":  func() { of.broker.Settle(ctx, nil, orders, settlements) },
			"deliver": func() { rx.AddCredit(1, core.AnyMessage) },
		} {
			b.Run(name+"/"+of.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					op()
				}
			})
		}
	}
}
