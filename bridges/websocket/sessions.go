package websocket

import (
	"context"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

func (c *conn) onSession(q *request, work func(ctx context.Context, s core.Session) (func(codec.Writer), error)) {
	f, err := c.feedOf(q)
	if err != nil {
		c.refuse(q, err)
		return
	}
	f.callSession(q, work)
}

func (c *conn) renewSession(q *request) {
	c.onSession(q, func(ctx context.Context, s core.Session) (func(codec.Writer), error) {
		until, err := s.Renew(ctx)
		return func(w codec.Writer) {
			w.Key("lockedUntil").Instant(until.UnixMilli())
		}, err
	})
}

func (c *conn) state(q *request) {
	c.onSession(q, func(ctx context.Context, s core.Session) (func(codec.Writer), error) {
		state, err := s.State(ctx)
		return func(w codec.Writer) {
			w.Key("state")
			if state == nil {
				w.Null()
			} else {
				frame.Write(w, state)
			}
		}, err
	})
}

func (c *conn) setState(q *request) {
	c.onSession(q, func(ctx context.Context, s core.Session) (func(codec.Writer), error) {
		return nil, s.SetState(ctx, q.state)
	})
}

// readState reads a session's state, which is binary, a text, or null for none.
func readState(r codec.Reader) ([]byte, error) {
	v, err := frame.Read(r)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return v, nil
	case string:
		return append([]byte{}, v...), nil
	}
	return nil, frame.Wrong("must be binary, a string or null")
}

func (c *conn) sessions(q *request) {
	fetch(c, q, func(ctx context.Context, id core.Identity) ([]string, error) {
		return c.bridge.front.ListSessions(ctx, id, core.At(q.entity), q.since, q.skip, q.top)
	}, func(w codec.Writer, ids []string) { codec.WriteList(w.Key("sessions"), ids, codec.Writer.Text) })
}
