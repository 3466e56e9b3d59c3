package engine

import (
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
)

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
