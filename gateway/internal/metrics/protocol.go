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
	sent, delivered atomic.Uint64 // number of messages
	asked           [operations]atomic.Uint64
	refused         *prometheus.CounterVec
}

func (m *Metrics) Protocol(name string) intercept.Interceptor {
	labels := prometheus.Labels{"protocol": name}
	p := &protocol{refused: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: prefix, Name: "refusals_total", Help: "Operations that were refused or failed.", ConstLabels: labels,
	}, []string{"operation", "code"})}
	m.registry.MustRegister(&collector{labels, p.show}, p.refused)
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
		p.asked[op].Add(uint64(len(c.Appended)))
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
		p.asked[op].Add(uint64(len(c.Errs)))
		for _, err := range c.Errs {
			p.refuse(op, err)
		}
	case op == intercept.Renew:
		p.asked[op].Add(uint64(len(c.Renewals)))
		for i := range c.Renewals {
			p.refuse(op, c.Renewals[i].Err)
		}
	case op < operations:
		p.asked[op].Add(1)
		p.refuse(op, c.Err)
		if op == intercept.ReceiveDeferred {
			p.delivered.Add(uint64(len(c.Deliveries)))
		}
	}
}

func (p *protocol) refuse(o intercept.Op, err error) {
	if err != nil {
		p.refused.WithLabelValues(nameOf(o), string(core.CodeOf(err))).Inc()
	}
}

func nameOf(o intercept.Op) string { return strings.ReplaceAll(o.String(), "-", "_") }

// show writes the counters. Operations have no series while their count is zero.
func (p *protocol) show(s *scrape) {
	s.counter("sent_messages_total", "Messages that clients sent outside of transactions and the gateway accepted.", float64(p.sent.Load()))
	s.counter("received_messages_total", "Messages that were delivered to clients.", float64(p.delivered.Load()))
	for o := range operations {
		if n := p.asked[o].Load(); n > 0 {
			s.counter("operations_total", "Requests of clients: sends, settlements, renewals and so on.", float64(n), "operation", nameOf(o))
		}
	}
}
