package amqp

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// maxSessionList is how many ids one request may list.
const maxSessionList = 10_000

// held is the session that the request is about, which the client must hold on this connection.
func (o *operation) held() (core.Session, error) {
	switch {
	case o.session != nil:
		return o.session, nil
	case o.named:
		return nil, core.SessionLockLost
	default:
		return nil, core.Refuse(core.InvalidArgument, "session-id is not a string.")
	}
}

// sessionless reports whether the request is about no session: it names none, or its entity has none. Clients also name
// the session of a message that an entity without sessions has given them.
func (o *operation) sessionless() bool {
	if o.session != nil || !o.named {
		return o.session == nil
	}
	return !o.inSessions()
}

// inSessions reports whether the entity's messages are locked in sessions. One that cannot be asked for seems to have some.
func (o *operation) inSessions() bool {
	e, err := o.front.Resolve(o.ctx, o.id, o.address)
	return err != nil || e.Settings.RequiresSession && o.address.Sub == core.Main
}

// either carries out a request in the session that it is about, or else in the entity.
func either[T any](o *operation, entity func() (T, error), session func(core.Session) (T, error)) (none T, err error) {
	if o.sessionless() {
		return entity()
	}
	s, err := o.held()
	if err != nil {
		return none, err
	}
	return session(s)
}

func (o *operation) peek(from int64, most int) ([]core.Delivery, error) {
	return either(o, func() ([]core.Delivery, error) {
		return o.front.Peek(o.ctx, o.id, o.address, from, most)
	}, func(s core.Session) ([]core.Delivery, error) { return s.Peek(o.ctx, from, most) })
}

func (o *operation) receiveDeferred(numbers []int64, mode core.ReceiveMode) ([]core.Delivery, error) {
	return either(o, func() ([]core.Delivery, error) {
		return o.front.ReceiveDeferred(o.ctx, o.id, o.address, numbers, mode)
	}, func(s core.Session) ([]core.Delivery, error) { return s.ReceiveDeferred(o.ctx, numbers, mode) })
}

func (o *operation) purge(before time.Time, most int) (int, error) {
	return either(o, func() (int, error) {
		return o.front.Purge(o.ctx, o.id, o.address, before, most)
	}, func(s core.Session) (int, error) { return s.Purge(o.ctx, before, most) })
}

func renewSession(o *operation) (response, error) {
	s, err := o.held()
	if err != nil {
		return response{}, err
	}
	until, err := s.Renew(o.ctx)
	if err != nil {
		return response{}, err
	}
	return response{status: 200, body: value.Map{{Key: "expiration", Value: value.TimestampOf(until)}}}, nil
}

// sessionState answers null where nothing is set.
func sessionState(o *operation) (response, error) {
	s, err := o.held()
	if err != nil {
		return response{}, err
	}
	state, err := s.State(o.ctx)
	if err != nil {
		return response{}, err
	}
	var v any
	if state != nil {
		v = state
	}
	return response{status: 200, body: value.Map{{Key: "session-state", Value: v}}}, nil
}

func setSessionState(o *operation) (response, error) {
	s, err := o.held()
	if err != nil {
		return response{}, err
	}
	v, _ := o.args.Get("session-state")
	state, ok := v.([]byte)
	if !ok && v != nil {
		return response{}, core.Refuse(core.InvalidArgument, "session-state is neither binary nor null.")
	}
	if len(state) == 0 {
		state = nil // an empty state is none to the SDKs
	}
	if o.work != nil {
		return response{status: 200}, o.work.SetSessionState(o.ctx, o.id, o.address, s.Lock(), state)
	}
	return response{status: 200}, s.SetState(o.ctx, state)
}

// allSessions is the last-updated-time of a client that asks for all sessions that have messages or state: the greatest
// date of .NET. Anything else is a time.
const allSessions value.Timestamp = 253402300800000

func listSessions(o *operation) (response, error) {
	skip, top := o.integer("skip"), o.integer("top")
	if skip < 0 || skip > 1<<31-1 || top < 1 {
		o.refuse(core.OutOfRange, "skip is %d and top is %d: they must be at least 0 and 1.", skip, top)
	}
	stamp := o.timestamp("last-updated-time")
	if o.err != nil {
		return response{}, o.err
	}
	since := time.Time{}
	if stamp != allSessions {
		since = instant(max(stamp, 0)) // the zero time would ask for all
	}
	ids, err := o.front.ListSessions(o.ctx, o.id, o.address, since, int(skip), int(min(top, maxSessionList)))
	if err != nil {
		return response{}, err
	}
	if len(ids) == 0 {
		return response{status: 204, text: "No sessions."}, nil
	}
	return response{status: 200, body: value.Map{
		{Key: "skip", Value: int32(skip) + int32(len(ids))},
		{Key: "sessions-ids", Value: value.ArrayOf(ids)},
	}}, nil
}
