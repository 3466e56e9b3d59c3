package amqp

import (
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

const (
	// sessionFilter is the key of the filter that asks for a session. Its value may be described, by this symbol or the
	// number 0x000000137000000c.
	sessionFilter = "com.microsoft:session-filter"

	// attachTimeout is a link property: for how many ms the client waits for a next session.
	attachTimeout = "com.microsoft:timeout"
	// lockedUntil is a link property: the end of the session's lock in ticks.
	lockedUntil = "com.microsoft:locked-until-utc"

	defaultSessionWait = time.Minute
	maxSessionWait     = 24 * time.Hour
	sessionWaitMargin  = 250 * time.Millisecond
)

// accept has the broker accept the session that the client wants, or the next one if it names none. The answer to the
// attach waits for that.
func (r *receiverLink) accept(wanted any, options core.ReceiverOptions) {
	o := core.SessionOptions{ReceiverOptions: options}
	if d, ok := wanted.(value.Described); ok {
		wanted = d.Value
	}
	if o.ID, o.Next = "", wanted == nil; !o.Next {
		var ok bool
		if o.ID, ok = text(wanted); !ok {
			r.link.Refuse(r.conn.refusal(r.link, core.Refuse(core.InvalidArgument, "The value of the filter %s is no string.", sessionFilter), r.addr))
			return
		}
	}
	c, id := r.conn, r.conn.identity
	r.cancel = c.wait(sessionWait(r.link.Attach().Properties), func(ctx context.Context) func() {
		s, err := c.bridge.broker.AcceptSession(ctx, id, r.address, o)
		return func() { r.accepted(s, err) }
	})
}

// accepted answers the attach. What the client may have no longer, or not now, is given back.
func (r *receiverLink) accepted(s core.Session, err error) {
	c := r.conn
	if err == nil {
		r.session = s
		err = c.identity.Check(core.Listen, r.address, time.Now()) // the grant may have ended meanwhile
	}
	switch {
	case err != nil:
		r.link.Refuse(c.refusal(r.link, err, r.addr))
	case c.drains:
		r.link.Refuse(&wire.Error{Condition: wire.CondDetachForced, Description: stoppingText})
	case r.attach(s):
		return
	}
	if s != nil {
		s.Close()
	}
}

// sessionWait is for how long to wait for a session: a little less than the client does, so that it hears of it.
func sessionWait(properties value.Map) time.Duration {
	v, _ := properties.Get(attachTimeout)
	if ms, ok := value.Int(v); ok && ms > 0 {
		wait := time.Duration(min(ms, maxSessionWait.Milliseconds())) * time.Millisecond
		return wait - min(wait/20, sessionWaitMargin)
	}
	return defaultSessionWait
}

// sessionSource is the client's source with the id of the accepted session in the filter, in the form in which the
// client has asked: clients read no other.
func (r *receiverLink) sessionSource() *wire.Source {
	source := *r.link.Attach().Source
	source.Filter = slices.Clone(source.Filter)
	for i, e := range source.Filter {
		if key, _ := text(e.Key); key != sessionFilter {
			continue
		}
		if d, ok := e.Value.(value.Described); ok {
			source.Filter[i].Value = value.Described{Descriptor: d.Descriptor, Value: r.session.ID()}
		} else {
			source.Filter[i].Value = r.session.ID()
		}
	}
	return &source
}

// sessionProperties are what clients read in the answer to the attach of a session.
func sessionProperties(s core.Session) value.Map {
	return value.Map{
		{Key: value.Symbol(lockedUntil), Value: ticks(s.LockedUntil())},
		{Key: value.Symbol(trackingID), Value: newUUID().String()},
	}
}

// ticks counts the 100 ns since the year 1, as .NET does.
func ticks(t time.Time) int64 {
	const epoch, perMilli = 621_355_968_000_000_000, 10_000
	return t.UnixMilli()*perMilli + epoch
}

// lapses is until when the client may settle a delivery. Those of a session live as long as the link.
func (r *receiverLink) lapses(d *core.Delivery) time.Time {
	if r.session != nil {
		return time.Time{}
	}
	return d.LockedUntil
}

// doubt finds out whether a settlement failed because the session is lost, or only the lock of that message. In the
// first case the link is detached: the Go SDK gives up its connection, with all other links, when it reads of a lost
// session in an outcome.
func (r *receiverLink) doubt(item pileItem, err error) {
	r.doubts = append(r.doubts, item)
	if len(r.doubts) > 1 {
		return
	}
	r.conn.async(func(ctx context.Context) func() {
		_, lost := r.session.State(ctx)
		return func() {
			doubts := r.doubts
			r.doubts = nil
			if core.CodeOf(lost) == core.SessionLockLost {
				r.close(lost)
				return
			}
			for _, item := range doubts {
				r.link.Session().Settle(item.id, wire.Rejected{Error: r.conn.refusal(r.link, err, r.addr, "delivery", item.id)})
			}
			r.ask()
		}
	})
}

// drain takes no further deliveries because the bridge is stopping. A session stays until the connection ends, so that
// what is under way can be settled.
func (r *receiverLink) drain() {
	switch {
	case r.session == nil:
		r.stop()
	case r.asked > 0 && r.receiver != nil:
		r.takeBack()
	}
}

// sessionOf finds the session of addr that a request is about, among those that this connection holds: by the name of
// its link, or where none is named by its id. It is nil where there is none.
func (c *conn) sessionOf(addr core.Address, req *request) core.Session {
	v, _ := req.headers.Get(associatedLink)
	name, _ := text(v)
	id := req.session()
	if name == "" && id == "" {
		return nil
	}
	var byID core.Session
	for l := range c.eng.Links() {
		r, ok := l.Data.(*receiverLink)
		if !ok || r.session == nil || r.receiver == nil || core.FoldName(r.address) != core.FoldName(addr.String()) {
			continue
		}
		switch {
		case id != "" && r.session.ID() != id:
		case l.Attach().Name == name:
			return r.session
		case name == "":
			byID = r.session
		}
	}
	return byID
}
