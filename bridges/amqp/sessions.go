package amqp

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/value"
)

const (
	// sessionFilter is the key of the filter that requests a session. Its value may be described,
	// with this symbol or the number 0x000000137000000c.
	sessionFilter = "com.microsoft:session-filter"
	// sharedSessionFilter and sharedSessionCode describe the filter, with any key, for a session
	// that other receivers may take over. Its value is a list of the session id (null for the next
	// free session) and the token of the session's lock (null to take nothing over).
	sharedSessionFilter        = "com.microsoft:non-exclusive-session-filter:list"
	sharedSessionCode   uint64 = 0x000000137000000e

	// attachTimeout is a link property: how many ms the client waits for the next free session.
	attachTimeout = "com.microsoft:timeout"
	// lockedUntil is a link property: when the session's lock ends, in ticks.
	lockedUntil = "com.microsoft:locked-until-utc"

	defaultSessionWait = time.Minute
	maxSessionWait     = 24 * time.Hour
	sessionWaitMargin  = 250 * time.Millisecond
)

// sessionWanted returns the index of the filter that requests a session, or -1. shared is true if
// other receivers may take the session over.
func sessionWanted(filters value.Map) (at int, shared bool) {
	at = -1
	for i, e := range filters {
		if key, _ := text(e.Key); key == sessionFilter {
			at = i
		}
		if d, ok := e.Value.(value.Described); ok && (d.Descriptor == sharedSessionCode || d.Descriptor == value.Symbol(sharedSessionFilter)) {
			return i, true
		}
	}
	return at, false
}

// accept requests the session that the source's filter at this index names. Once the session is
// locked, accept answers the attach.
func (r *receiverLink) accept(at int, shared bool, options core.ReceiverOptions) {
	c, id := r.conn, r.conn.Identity
	wanted := r.link.Attach().Source.Filter[at].Value
	if d, ok := wanted.(value.Described); ok {
		wanted = d.Value
	}
	o := core.SessionOptions{ReceiverOptions: options}
	err := error(nil)
	switch {
	case shared && c.bridge.opts.ExclusiveSessions: // refused with the text of Service Bus
		err = core.Refuse(core.NotAllowed, "The link '%s' contains invalid filter type. System only support Jms or Apache selector filter type.", r.link.Attach().Name)
	case shared:
		err = readShared(wanted, &o)
	default:
		err = readSession(wanted, &o)
	}
	if err == nil {
		err = c.standMore(fair.SessionReceiver)
	}
	if err != nil {
		r.link.Refuse(c.refusal(r.link, err, r.addr))
		return
	}
	c.sessions++
	r.filter, r.shared = at, shared
	r.cancel = c.Calls.Await(sessionWait(r.link.Attach().Properties), func(ctx context.Context) func() {
		s, err := c.bridge.front.AcceptSession(ctx, id, r.addr, o)
		return func() { r.accepted(s, err) }
	})
}

func readSession(v any, o *core.SessionOptions) (err error) {
	ok := true
	if o.Next = v == nil; !o.Next {
		o.ID, ok = text(v)
	}
	if !ok {
		return core.Refuse(core.InvalidArgument, "The value of the filter %s is not a string.", sessionFilter)
	}
	return nil
}

func readShared(v any, o *core.SessionOptions) error {
	o.Sharing = core.NonExclusive
	list, ok := v.(value.List)
	if !ok || len(list) > 2 {
		return core.Refuse(core.InvalidArgument, "The value of the filter %s is not a list of at most two elements: a session id and a lock token.", sharedSessionFilter)
	}
	fields := [2]any{}
	copy(fields[:], list)
	if fields[1] != nil {
		token, ok := fields[1].(value.UUID)
		if !ok || token == (value.UUID{}) {
			return core.Refuse(core.InvalidArgument, "The lock token of the filter %s must be a UUID that does not consist of zeros only.", sharedSessionFilter)
		}
		o.TakeOver = core.LockToken(token)
	}
	return readSession(fields[0], o)
}

func (r *receiverLink) accepted(s core.Session, err error) {
	c := r.conn
	if err == nil {
		l := s.Lock()
		r.session, r.lock = s, &l
		if r.shared {
			r.sent = make(map[engine.Tag]uint32)
		}
		err = c.Identity.Check(core.Listen, r.addr.String(), time.Now()) // the rights may have ended during the wait
	}
	switch {
	case err != nil:
		r.link.Refuse(c.refusal(r.link, err, r.addr))
	case c.drains != "":
		r.link.Refuse(&wire.Error{Condition: wire.CondDetachForced, Description: c.drains})
	case r.attach(s):
		return
	}
	c.sessions--
	if s != nil {
		s.Close()
	}
}

// sessionWait returns how long to wait for a session: slightly less than the client will wait.
func sessionWait(properties value.Map) time.Duration {
	if ms, ok := value.Int(properties.At(attachTimeout)); ok && ms > 0 {
		wait := time.Duration(min(ms, maxSessionWait.Milliseconds())) * time.Millisecond
		return wait - min(wait/20, sessionWaitMargin)
	}
	return defaultSessionWait
}

// sessionFilters answers with the session's id and, if other receivers may take it over, the token
// of its lock, in the form of the client's filter.
func (r *receiverLink) sessionFilters() value.Map {
	asked := r.link.Attach().Source.Filter[r.filter]
	answer := any(r.session.ID())
	if r.shared {
		answer = value.List{r.session.ID(), value.UUID(r.lock.Token())}
	}
	if d, ok := asked.Value.(value.Described); ok {
		answer = value.Described{Descriptor: d.Descriptor, Value: answer}
	}
	return value.Map{{Key: asked.Key, Value: answer}}
}

// ticks returns a time in .NET's unit: 100 ns since the year 1.
func ticks(t time.Time) int64 {
	const epoch, perMilli = 621_355_968_000_000_000, 10_000
	return t.UnixMilli()*perMilli + epoch
}

// drain stops deliveries because the bridge is stopping, but keeps a session until the connection
// ends, so that the client can settle its deliveries.
func (r *receiverLink) drain() {
	switch {
	case r.session == nil:
		r.stop()
	case r.asked > 0 && r.receiver != nil:
		r.takeBack()
	}
}

// holderOf returns the link whose session in addr the request concerns, or nil. The request names
// the link, or else the session.
func (c *conn) holderOf(addr core.Address, req *request) *receiverLink {
	v, _ := req.headers.Get(associatedLink)
	name, _ := text(v)
	key := req.session()
	if name == "" && key == "" {
		return nil
	}
	var byKey *receiverLink
	for l := range c.eng.Links() {
		r, ok := l.Data.(*receiverLink)
		if !ok || r.session == nil || r.receiver == nil || core.FoldName(r.addr.String()) != core.FoldName(addr.String()) {
			continue
		}
		switch {
		case key != "" && core.KeyOfSession(r.session.ID()) != key:
		case l.Attach().Name == name:
			return r
		case name == "" && (byKey == nil || byKey.lock.TakeOvers < r.lock.TakeOvers): // after a takeover, the last holder counts
			byKey = r
		}
	}
	return byKey
}

func (r *receiverLink) sessionHeld() core.Session {
	if r == nil {
		return nil
	}
	return r.session
}

// answered ends a request that kept the session, and settles the deliveries of tokens, whose locks
// the request ended: in a session that others may take over, clients settle only by requests.
func (r *receiverLink) answered(tokens []core.LockToken) {
	if r == nil {
		return
	}
	defer r.settledOne()
	if r.sent == nil {
		return
	}
	for _, t := range tokens {
		tag := engine.Tag(swapToken(t))
		if id, ok := r.sent[tag]; ok {
			delete(r.sent, tag)
			r.link.Session().Settle(id, wire.Accepted{})
		}
	}
	r.ask()
}

const maxSessionList = 10_000

// held returns the session that the request names, which the client must hold on this connection.
func (o *operation) held() (core.Session, error) {
	switch {
	case o.session != nil:
		return o.session, nil
	case o.named:
		return nil, core.SessionLockLost
	default:
		return nil, core.Refuse(core.InvalidArgument, "The field 'session-id' of the request must be a string.")
	}
}

// sessionless reports whether the request names no session, or its entity has none: clients also
// name the session ids of messages in entities without sessions.
func (o *operation) sessionless() bool {
	if o.session != nil || !o.named {
		return o.session == nil
	}
	return !o.inSessions()
}

// inSessions reports whether sessions lock the entity's messages, or the entity is unknown.
func (o *operation) inSessions() bool {
	e, err := o.front.Resolve(o.ctx, o.id, o.address)
	return err != nil || e.Settings.RequiresSession && o.address.Sub == core.Main
}

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

func renewSession(o *operation) (response, error) {
	until, err := o.session.Renew(o.ctx)
	return response{body: value.Map{{Key: "expiration", Value: value.TimestampOf(until)}}}, err
}

func sessionState(o *operation) (response, error) {
	state, err := o.session.State(o.ctx)
	var v any
	if state != nil {
		v = state
	}
	return response{body: value.Map{{Key: "session-state", Value: v}}}, err
}

func setSessionState(o *operation) (response, error) {
	v, _ := o.args.Get("session-state")
	state, ok := v.([]byte)
	if !ok && v != nil {
		return response{}, core.Refuse(core.InvalidArgument, "The field 'session-state' of the request is neither binary nor null.")
	}
	if len(state) == 0 {
		state = nil // SDKs treat an empty state as no state
	}
	if o.work != nil {
		return response{}, o.work.SetSessionState(o.ctx, o.id, o.address, o.session.Lock(), state)
	}
	return response{}, o.session.SetState(o.ctx, state)
}

// allSessions, the greatest date of .NET, requests all sessions with messages or state.
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
		since = instant(max(stamp, 0)) // the zero time would request all sessions
	}
	ids, err := o.front.ListSessions(o.ctx, o.id, o.address, since, int(skip), int(min(top, maxSessionList)))
	if len(ids) == 0 {
		return response{status: 204, text: "No sessions."}, err
	}
	return response{body: value.Map{
		{Key: "skip", Value: int32(skip) + int32(len(ids))},
		{Key: "sessions-ids", Value: value.ArrayOf(ids)},
	}}, err
}
