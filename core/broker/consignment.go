package broker

import (
	"context"
	"errors"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// consignmentBytes is about how much is sent to a remote at a time.
	consignmentBytes = 8 << 20
	// remotePatience is how long a step waits for a remote in all, and
	// transferPatience where messages for others wait behind it.
	remotePatience   = 2 * time.Minute
	transferPatience = pumpLock / 2
)

// consignment is the messages of a haul that go to one entity of a remote.
type consignment struct {
	remote core.Remote
	name   string // of the remote, folded
	entity string
	ms     []*core.Message
	at     []int // their places in the haul
}

func (c *consignment) berth() berth { return berth{remote: c.name + ":" + c.entity} }

// assign adds a message to the consignment that it belongs to.
func (h *haul) assign(i int, remote, entity string) {
	name, d := core.FoldName(remote), &h.ds[i]
	r := h.l.p.set.b.remotes[name]
	if r == nil {
		h.delay(i, berth{remote: name})
		return
	}
	m := h.exported(d)
	if !m.CountHop() {
		h.lose(i, errTooFar)
		return
	}
	c := h.consignment(r, name, entity)
	if _, blocked := h.l.blocked[c.berth()]; blocked {
		h.delay(i, c.berth())
		return
	}
	c.ms, c.at = append(c.ms, m), append(c.at, i)
}

func (h *haul) consignment(r core.Remote, name, entity string) *consignment {
	for _, c := range h.consignments {
		if c.name == name && c.entity == entity {
			return c
		}
	}
	c := &consignment{remote: r, name: name, entity: entity}
	h.consignments = append(h.consignments, c)
	return c
}

// exported is the message as a remote gets it. Its id is the same each time, so
// that a target which detects duplicates drops repetitions.
func (h *haul) exported(d *core.Delivery) *core.Message {
	m := *d.Message
	m.Transit = nil
	if m.MessageID.IsZero() {
		m.MessageID = core.StringID(h.key(d))
	}
	return &m
}

// delay notes that a message could not be sent yet. Where all of a lane's go to a
// remote, it returns them: the next that anybody locks is the oldest again, and
// what has a key in common with it comes behind it. From a transfer queue others
// may go elsewhere.
func (h *haul) delay(i int, to berth) {
	if h.l.p.remote == "" {
		h.l.keep(&h.ds[i], to)
		return
	}
	h.l.stalled = true
	h.back = append(h.back, i)
}

// ship sends a consignment, and stops where something did not go well: what is
// behind may not overtake. A crash on the way repeats it.
func (h *haul) ship(ctx context.Context, c *consignment) {
	for smooth := true; len(c.ms) > 0 && smooth && ctx.Err() == nil; {
		n := c.load()
		smooth = h.unload(c, c.remote.Send(ctx, c.entity, c.ms[:n]))
		c.ms, c.at = c.ms[n:], c.at[n:]
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range c.at {
		h.delay(i, c.berth())
	}
}

// load is how many messages are sent at a time.
func (c *consignment) load() (n int) {
	for size := 0; n < len(c.ms); n++ {
		if size += c.ms[n].Size(); n > 0 && size > consignmentBytes {
			break
		}
	}
	return n
}

// unload notes what became of the first messages of a consignment; it reports
// whether none has to wait.
func (h *haul) unload(c *consignment, answers []error) (smooth bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	smooth = true
	for i, err := range answers {
		at := c.at[i]
		switch {
		case err == nil:
			h.settle(at, core.Settlement{}, stored{to: c.name + ":" + c.entity})
		case isHopeless(err) && core.CodeOf(err) != core.NotFound:
			h.lose(at, err)
		default:
			smooth = false
			if _, ok := errors.AsType[*core.Away](err); ok {
				h.l.away = true
			}
			h.delay(at, c.berth())
		}
	}
	return smooth
}

// shipAll sends all consignments while it keeps the locks of the haul.
func (h *haul) shipAll(ctx context.Context) {
	patience := remotePatience
	if h.p.Sub == core.Transfer {
		patience = transferPatience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer context.AfterFunc(h.l.p.set.b.gate.hurry(), cancel)()
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		h.renew(ctx, cancel)
	}()
	for _, c := range h.consignments {
		h.ship(ctx, c)
	}
	cancel()
	<-renewed
}

// renew extends the locks of the haul until ctx ends, which it brings about when
// the store has not answered for so long that they may end.
func (h *haul) renew(ctx context.Context, cancel func()) {
	tokens := make([]core.LockToken, len(h.ds))
	for i := range h.ds {
		tokens[i] = h.ds[i].LockToken
	}
	tick := time.NewTicker(pumpLock / 5)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := time.Now()
		call, done := context.WithTimeout(ctx, pumpCall)
		renewals := h.l.p.set.b.store.Renew(call, h.p, tokens)
		done()
		if len(renewals) > 0 && (renewals[0].Err == nil || core.CodeOf(renewals[0].Err) == core.LockLost) {
			h.mu.Lock()
			h.locked = asked
			h.mu.Unlock()
		}
		if h.isLate() {
			cancel()
			return
		}
	}
}

// giveUp returns what a remote did not take.
func (h *haul) giveUp(ctx context.Context) {
	if len(h.back) == 0 {
		return
	}
	ds := make([]core.Delivery, len(h.back))
	for n, i := range h.back {
		ds[n] = h.ds[i]
	}
	h.l.giveBack(ctx, h.p, ds)
}
