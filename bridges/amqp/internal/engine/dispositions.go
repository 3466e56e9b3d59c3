package engine

import (
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
)

// run is a range of deliveries with the same outcome, which one disposition will tell the peer.
type run struct {
	active      bool
	settled     bool
	role        wire.Role
	first, last uint32
	state       wire.DeliveryState
}

// Settle answers Handler.Disposed: it settles the delivery with the given outcome, and tells the
// peer. It does nothing if the peer has settled the delivery or detached the link since.
func (s *Session) Settle(id uint32, state wire.DeliveryState) {
	d, ok := s.unsettled[id]
	if !ok {
		return
	}
	delete(s.unsettled, id)
	d.link.forget()
	s.say(wire.RoleSender, id, true, state)
}

// Reopen lets the peer replace an outcome that the handler has not answered.
func (s *Session) Reopen(id uint32) {
	if d, ok := s.unsettled[id]; ok {
		d.disposed = false
		s.unsettled[id] = d
	}
}

// Acknowledge answers Handler.Disposed without settling the delivery, so the peer may give it
// another outcome. It does nothing if the peer has settled the delivery or detached the link since.
func (s *Session) Acknowledge(id uint32, state wire.DeliveryState) {
	if _, ok := s.unsettled[id]; ok {
		s.Reopen(id)
		s.say(wire.RoleSender, id, false, state)
	}
}

// say adds an outcome to s.run, a disposition. If the outcome does not fit, say sends s.run first.
func (s *Session) say(role wire.Role, id uint32, settled bool, state wire.DeliveryState) {
	if s.ended || s.conn.state != stateOpened {
		return
	}
	r := &s.run
	if r.active && r.role == role && r.settled == settled && r.last+1 == id && alike(r.state, state) {
		r.last = id
		return
	}
	s.sayDispositions()
	*r = run{active: true, settled: settled, role: role, first: id, last: id, state: state}
	s.touch()
}

func alike(a, b wire.DeliveryState) bool {
	switch a := a.(type) {
	case wire.Accepted, wire.Released, wire.Rejected:
		return a == b
	case wire.Modified:
		b, ok := b.(wire.Modified)
		return ok && a.DeliveryFailed == b.DeliveryFailed && a.UndeliverableHere == b.UndeliverableHere &&
			a.MessageAnnotations == nil && b.MessageAnnotations == nil
	}
	return false
}

func (s *Session) sayDispositions() {
	if !s.run.active {
		return
	}
	d := &s.conn.dispose
	*d = wire.Disposition{Role: s.run.role, First: s.run.first, Settled: s.run.settled, State: s.run.state}
	if s.run.last != s.run.first {
		d.Last = value.Some(s.run.last)
	}
	s.run = run{}
	s.conn.emit(s.channel, d)
}

// disposition carries out a disposition, AMQP 1.0 §2.7.6. Its range may have any length, so the
// number of unsettled deliveries bounds the work.
func (s *Session) disposition(d *wire.Disposition) {
	if d.Role == wire.RoleSender {
		return // our side settles each message when it sends the outcome
	}
	last := d.Last.Or(d.First)
	if int32(last-d.First) < 0 {
		s.End(fault(wire.CondInvalidField, "the disposition's last delivery precedes its first"))
		return
	}
	if state, ok := d.State.(wire.TransactionalState); ok && !s.owes(d.First, last) {
		s.conn.handler.Missed(state)
	}
	s.disposeLapsed(d, last)
	if int(last-d.First) > len(s.unsettled) {
		s.disposeSparse(d, last)
		return
	}
	for id := d.First; ; id++ {
		s.disposed(id, d)
		if id == last {
			return
		}
	}
}

func (s *Session) owes(first, last uint32) bool {
	if int(last-first) >= len(s.unsettled) {
		return false
	}
	for id := first; ; id++ {
		if _, ok := s.unsettled[id]; !ok {
			return false
		}
		if id == last {
			return true
		}
	}
}

// disposeSparse carries out a disposition whose range exceeds the number of unsettled deliveries.
func (s *Session) disposeSparse(d *wire.Disposition, last uint32) {
	var ids []uint32
	for id := range s.unsettled {
		if id-d.First <= last-d.First {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, serial)
	for _, id := range ids {
		s.disposed(id, d)
	}
}

func (s *Session) disposed(id uint32, d *wire.Disposition) {
	u, ok := s.unsettled[id]
	if !ok {
		return
	}
	switch {
	case d.Settled:
		delete(s.unsettled, id)
		u.link.forget()
		if u.disposed {
			return
		}
	case u.disposed || !final(d.State):
		return
	default:
		u.disposed = true
		s.unsettled[id] = u
	}
	s.conn.handler.Disposed(u.link, Disposal{ID: id, Tag: u.tag, State: d.State, Settled: d.Settled})
}

// final reports whether the state is an outcome (§3.4), and not only Received.
func final(state wire.DeliveryState) bool {
	if state == nil {
		return false
	}
	_, received := state.(wire.Received)
	return !received
}

type span struct {
	link        *Link
	first, last uint32
}

// maxSpans bounds the ranges that a session remembers. Older ranges count as settled by the peer.
const maxSpans = 4096

// Lapse removes the deliveries without an outcome whose time to be settled has ended. extended gets
// the time that Send got for a delivery, and returns the time that applies now. n is the number of
// removed deliveries; next is when to call Lapse again, or zero. If the peer sends an outcome for a
// removed delivery, the answer is the error of Handler.Lapsed.
func (c *Conn) Lapse(now time.Time, extended func(tag Tag, until time.Time) time.Time) (n int, next time.Time) {
	for _, s := range c.sessions {
		var ids []uint32
		for id, d := range s.unsettled {
			if d.until == 0 || d.disposed {
				continue
			}
			switch until := extended(d.tag, time.UnixMilli(d.until)); {
			case !now.Before(until):
				ids = append(ids, id)
			case next.IsZero() || until.Before(next):
				next = until
			}
		}
		slices.SortFunc(ids, serial)
		for _, id := range ids {
			s.lapse(id)
		}
		n += len(ids)
	}
	return n, next
}

// serial compares two serial numbers, AMQP 1.0 §2.8.10.
func serial(a, b uint32) int { return int(int32(a - b)) }

// lapse removes a delivery, but remembers its id.
func (s *Session) lapse(id uint32) {
	l := s.unsettled[id].link
	delete(s.unsettled, id)
	l.forget()
	if n := len(s.lapsed); n > 0 && s.lapsed[n-1].link == l && s.lapsed[n-1].last+1 == id {
		s.lapsed[n-1].last = id
		return
	}
	if len(s.lapsed) >= maxSpans {
		s.lapsed = slices.Delete(s.lapsed, 0, maxSpans/2)
	}
	s.lapsed = append(s.lapsed, span{l, id, id})
}

// disposeLapsed answers a disposition for the deliveries in its range that Lapse has removed.
func (s *Session) disposeLapsed(d *wire.Disposition, last uint32) {
	if len(s.lapsed) == 0 || !d.Settled && !final(d.State) {
		return
	}
	var left []span
	for _, p := range s.lapsed {
		from, to := p.first, p.last
		if serial(from, d.First) < 0 {
			from = d.First
		}
		if serial(to, last) > 0 {
			to = last
		}
		if serial(from, to) > 0 {
			left = append(left, p)
			continue
		}
		if from != p.first {
			left = append(left, span{p.link, p.first, from - 1})
		}
		if to != p.last {
			left = append(left, span{p.link, to + 1, p.last})
		}
		if !d.Settled {
			s.sayDispositions()
			s.run = run{
				active: true, role: wire.RoleSender, first: from, last: to, settled: true,
				state: wire.Rejected{Error: s.conn.handler.Lapsed(p.link)},
			}
			s.sayDispositions()
		}
	}
	s.lapsed = left
}
