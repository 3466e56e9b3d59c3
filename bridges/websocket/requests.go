package websocket

import (
	"fmt"

	"github.com/crosstown-mq/crosstown/internal/codec"
)

// mayBegin reports whether the connection begins further requests; else it has enough to do.
func (c *conn) mayBegin() bool {
	return !c.proving && len(c.underWay) < maxRequests && c.held <= c.bridge.opts.MaxUnderWay && len(c.out)+c.writing <= 2*maxWaiting
}

// begin carries out a request, or starts to.
func (c *conn) begin(q *request) {
	if c.said {
		return
	}
	if _, twice := c.underWay[q.id]; twice {
		c.close(closeNoID, fmt.Sprintf("The request %d is under way already.", q.id))
		return
	}
	if c.underWay == nil {
		c.underWay = make(map[int64]struct{})
	}
	c.underWay[q.id] = struct{}{}
	c.held += q.bytes
	switch {
	case len(c.identity) == 0 && (q.op == nil || q.op.name != "auth"):
		c.close(closeNotSignedIn, "The first frame must be auth.")
	case q.wrong != nil:
		c.refuse(q, q.wrong)
	default:
		q.op.run(c, q)
	}
}

// answer tells that a request was carried out, with what more there is to say.
func (c *conn) answer(q *request, more func(w codec.Writer)) {
	c.finish(q)
	c.tell("ok", func(w codec.Writer) {
		w.Key("id").Int(q.id)
		if more != nil {
			more(w)
		}
	})
}

// refuse tells why a request was not carried out.
func (c *conn) refuse(q *request, err error) {
	c.finish(q)
	c.tell("error", func(w codec.Writer) {
		w.Key("id").Int(q.id)
		c.writeError(w, err, q.entity, q.about()...)
	})
}

// about is what the log says of a request: its own id, what it asks for, and the
// number of its feed.
func (q *request) about() []any {
	about := []any{"request", q.id}
	if q.op != nil {
		about = append(about, "operation", q.op.name)
	}
	if q.has("feed") {
		about = append(about, "link", q.feed)
	}
	return about
}

// conclude answers or refuses.
func (c *conn) conclude(q *request, err error, more func(w codec.Writer)) {
	if err != nil {
		c.refuse(q, err)
		return
	}
	c.answer(q, more)
}

func (c *conn) finish(q *request) {
	delete(c.underWay, q.id)
	c.held -= q.bytes
	c.memory.Add(-int64(q.bytes))
}
