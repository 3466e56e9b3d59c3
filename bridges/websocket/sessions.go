package websocket

import (
	"context"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

func (c *conn) renewSession(ctx context.Context, o call) (answer, error) {
	until, err := o.session.Renew(ctx)
	return func(w codec.Writer) { w.Key("lockedUntil").Instant(until.UnixMilli()) }, err
}

func (c *conn) state(ctx context.Context, o call) (answer, error) {
	state, err := o.session.State(ctx)
	return func(w codec.Writer) {
		w.Key("state")
		if state == nil {
			w.Null()
		} else {
			frame.Write(w, state)
		}
	}, err
}

func (c *conn) setState(ctx context.Context, o call) (answer, error) {
	return nil, o.session.SetState(ctx, o.state)
}

// readState reads a session's state, which is binary, a text, or null for none.
func readState(r *codec.Reader) ([]byte, error) {
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

func (c *conn) sessions(ctx context.Context, o call) (answer, error) {
	ids, err := c.bridge.front.ListSessions(ctx, o.id, core.At(o.entity), o.since, o.skip, o.top)
	return func(w codec.Writer) { codec.WriteList(w.Key("sessions"), ids, codec.Writer.Text) }, err
}
