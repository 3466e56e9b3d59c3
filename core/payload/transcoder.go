package payload

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/intercept"
)

// Options say for which entities payloads are read and transcoded: by default for none.
type Options struct {
	// Chain has the serializers for receivers that list accepted content types, on entities without
	// a chain of their own. It may be nil.
	Chain *Chain
	// Entities are the settings of queues and subscriptions, by name.
	Entities map[string]Entity
	Now      func() time.Time
	Logger   *slog.Logger
}

type Entity struct {
	// Chain is the entity's own chain: payloads that it cannot decode become dead letters. If it is
	// nil, Options.Chain is used, and there are no such dead letters.
	Chain *Chain
	// Deliver lists content types, as in Accept, for receivers without a preference.
	Deliver string
}

type Transcoder struct {
	Options
	plans   map[string]plan // of Entities, by folded name
	workers sync.WaitGroup
}

type plan struct {
	chain   *Chain // nil: messages pass unchanged
	accept  Accept
	checked bool // payloads that cannot be decoded become dead letters
}

func New(o Options) *Transcoder {
	t := &Transcoder{Options: o, plans: make(map[string]plan, len(o.Entities))}
	for name, e := range o.Entities {
		t.plans[core.FoldName(name)] = plan{chain: cmp.Or(e.Chain, o.Chain), accept: ParseAccept(e.Deliver), checked: e.Chain != nil}
	}
	return t
}

// Wait waits until the workers of closed receivers have ended.
func (t *Transcoder) Wait() { t.workers.Wait() }

func (t *Transcoder) Intercept(ctx context.Context, c *intercept.Call) {
	switch c.Op {
	case intercept.OpenReceiver, intercept.AcceptSession:
		if p, ok := t.plan(c.Address, c.Options.Accept); ok {
			t.receive(p, c)
		}
		c.Next(ctx)
	case intercept.Peek, intercept.ReceiveDeferred:
		c.Next(ctx)
		p, ok := t.plan(c.Address, "")
		if c.Link != nil { // a session
			var r *receiver
			if r, ok = c.Link.Kept(t).(*receiver); ok {
				p = r.plan
			}
		}
		if ok && c.Err == nil {
			p.rewrite(ctx, c.Deliveries)
		}
	default:
		c.Next(ctx)
	}
}

func (t *Transcoder) plan(a core.Address, accept string) (p plan, ok bool) {
	if t.Chain == nil && len(t.plans) == 0 {
		return p, false
	}
	p, ok = t.plans[core.FoldName(a.Entity)]
	if !ok {
		p.chain = t.Chain
	}
	if asked := ParseAccept(accept); !asked.IsAny() {
		p.accept = asked
	}
	p.checked = p.checked && a.Sub == core.Main && !a.Management
	return p, p.chain != nil && (p.checked || !p.accept.IsAny())
}

// Payloads that cannot be transcoded stay as they are.
func (p *plan) rewrite(ctx context.Context, ds []core.Delivery) {
	if p.accept.IsAny() {
		return
	}
	for i := range ds {
		ds[i].Message, _ = p.chain.Transcode(ctx, ds[i].Message, p.accept, false) // after an error, the message is as it was
	}
}
