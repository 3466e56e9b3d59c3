package metrics

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/intercept"
)

// Operations after Commit manage entities. They have no metrics, because they are rare.
const operations = intercept.Commit + 1

// protocol counts the requests of one bridge. A group of sent messages counts as one request, as
// does each settlement and each renewal.
type protocol struct {
	name            string
	sent, delivered atomic.Uint64 // number of messages
	operations      [operations]struct {
		asked   atomic.Uint64
		refused map[core.Code]*atomic.Uint64 // the map itself never changes
	}
}

func (m *Metrics) Protocol(name string) intercept.Interceptor {
	p := &protocol{name: name}
	for i := range p.operations {
		p.operations[i].refused = map[core.Code]*atomic.Uint64{}
		for _, code := range core.Codes() {
			p.operations[i].refused[code] = new(atomic.Uint64)
		}
	}
	m.registry.MustRegister(&collector{prometheus.Labels{"protocol": name}, p.show})
	return p
}

func (p *protocol) Intercept(ctx context.Context, c *intercept.Call) {
	if o := c.Options; o != nil {
		inner := o.Deliver
		o.Deliver = func(ds []core.Delivery) {
			p.delivered.Add(uint64(len(ds)))
			inner(ds)
		}
	}
	c.Next(ctx)
	switch op := c.Op; {
	case c.InTransaction() && op != intercept.Commit: // in a transaction, only the commit counts, and operations that fail before it
		if op == intercept.Schedule {
			op = intercept.Send
		}
		p.refuse(op, c.Err)
	case op == intercept.Send:
		p.operations[op].asked.Add(uint64(len(c.Appended)))
		sent := 0
		for i := range c.Appended {
			if err := c.Appended[i].Err; err != nil {
				p.refuse(op, err)
			} else {
				sent += len(c.Appended[i].Numbers)
			}
		}
		p.sent.Add(uint64(sent))
	case op == intercept.Settle:
		p.operations[op].asked.Add(uint64(len(c.Errs)))
		for _, err := range c.Errs {
			p.refuse(op, err)
		}
	case op == intercept.Renew:
		p.operations[op].asked.Add(uint64(len(c.Renewals)))
		for i := range c.Renewals {
			p.refuse(op, c.Renewals[i].Err)
		}
	case op < operations:
		p.operations[op].asked.Add(1)
		p.refuse(op, c.Err)
		if op == intercept.ReceiveDeferred {
			p.delivered.Add(uint64(len(c.Deliveries)))
		}
	}
}

func (p *protocol) refuse(o intercept.Op, err error) {
	if err == nil {
		return
	}
	if n := p.operations[o].refused[core.CodeOf(err)]; n != nil {
		n.Add(1)
	}
}

// show writes the counters. Operations and refusals have no series while their count is zero.
func (p *protocol) show(s *scrape) {
	s.counter("sent_messages_total", "Messages that clients sent outside of transactions and the gateway accepted.", float64(p.sent.Load()))
	s.counter("received_messages_total", "Messages that were delivered to clients.", float64(p.delivered.Load()))
	for o := range operations {
		counts, name := &p.operations[o], strings.ReplaceAll(o.String(), "-", "_")
		if n := counts.asked.Load(); n > 0 {
			s.counter("operations_total", "Requests of clients: sends, settlements, renewals and so on.", float64(n), "operation", name)
		}
		for code, refused := range counts.refused {
			if n := refused.Load(); n > 0 {
				s.counter("refusals_total", "Operations that were refused or failed.", float64(n), "operation", name, "code", string(code))
			}
		}
	}
}
