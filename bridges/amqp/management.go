package amqp

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// maxPeekBytes bounds the messages that one peek returns; a single message may be larger.
const maxPeekBytes = 256 << 10

// attachManagement refuses a client without any right on the entity, which must not learn whether
// the entity exists. Each operation checks further rights.
func (c *conn) attachManagement(l *engine.Link, addr core.Address) {
	if err := c.anyRight(core.Address{Entity: addr.Entity, Sub: addr.Sub}.String()); err != nil {
		l.Refuse(c.refusal(l, err, addr))
		return
	}
	if err := checkScope(l, addr); err != nil {
		l.Refuse(c.refusal(l, err, addr))
		return
	}
	entity := core.Address{Entity: addr.Entity, Sub: addr.Sub}
	open(c, l, addr, func(ctx context.Context, id core.Identity) (core.Entity, error) {
		return c.resolve(ctx, id, entity)
	}, func(e core.Entity) bool {
		// There is room for several of the entity's largest messages, or for many small ones.
		size := max(minRequestSize, 4*int64(e.Settings.MaxMessageSizeInKilobytes)<<10)
		c.attachNode(l, core.FoldName(addr.String()), entity, min(size, maxRequestSize))
		return true
	}, func(core.Entity) {})
}

func (c *conn) anyRight(path string) (err error) {
	now := time.Now()
	for _, right := range []core.Right{core.Send, core.Manage, core.Listen} {
		if err = c.Identity.Check(right, path, now); err == nil {
			return nil
		}
	}
	return err
}

// operation is a request to a $management node. It runs in its own goroutine.
type operation struct {
	front   bridges.Front
	ctx     context.Context
	id      core.Identity
	address core.Address
	args    value.Map
	session core.Session     // the client's session that the request concerns, or nil
	named   bool             // the request names a session
	work    core.Transaction // nil outside of a transaction

	maxPurge int

	err error
}

func (o *operation) refuse(c core.Code, format string, args ...any) {
	if o.err == nil {
		o.err = core.Refuse(c, format, args...)
	}
}

var operations = map[string]struct {
	do func(*operation) (response, error)
	// A contentful operation can fail because of its content. The Go SDK takes a status of 400 or
	// 403 for the loss of its connection; to report the failure, it needs a rejection of the
	// request's delivery.
	contentful bool
	// An enlistable operation can be part of a transaction. Others are carried out at once, because
	// clients name the current transaction in every request.
	enlistable bool
	// An ofSession operation gets a session in operation.session.
	ofSession bool
}{
	"com.microsoft:renew-lock":                 {do: renewLocks},
	"com.microsoft:peek-message":               {do: peekMessages},
	"com.microsoft:schedule-message":           {do: scheduleMessages, contentful: true, enlistable: true},
	"com.microsoft:cancel-scheduled-message":   {do: cancelScheduled, enlistable: true},
	"com.microsoft:receive-by-sequence-number": {do: receiveDeferred},
	"com.microsoft:update-disposition":         {do: updateDisposition, contentful: true, enlistable: true},
	"com.microsoft:batch-delete-messages":      {do: deleteMessages},
	"com.microsoft:renew-session-lock":         {do: renewSession, ofSession: true},
	"com.microsoft:get-session-state":          {do: sessionState, ofSession: true},
	"com.microsoft:set-session-state":          {do: setSessionState, contentful: true, enlistable: true, ofSession: true},
	"com.microsoft:get-message-sessions":       {do: listSessions},
	"com.microsoft:add-rule":                   {do: addRule},
	"com.microsoft:remove-rule":                {do: removeRule},
	"com.microsoft:enumerate-rules":            {do: enumerateRules},
}

// carryOut runs the operation that req names. The caller has set the fields of o that do not depend
// on req. After an error, the response means nothing.
func (c *conn) carryOut(ctx context.Context, o *operation, req *request) (response, error) {
	operation := operations[req.operation]
	if operation.do == nil {
		return response{}, core.Refuse(core.NotImplemented, "The management node does not support the operation '%.80s'.", req.operation)
	}
	args, ok := req.body.(value.Map)
	if !ok {
		return response{}, core.Refuse(core.InvalidArgument, "The body of the request is not a map.")
	}
	ctx, cancel := context.WithTimeout(ctx, serverTimeout(req.headers))
	defer cancel()
	o.front, o.ctx, o.args, o.named = c.bridge.front, ctx, args, req.session() != ""
	o.maxPurge = c.bridge.opts.MaxPurge
	if operation.ofSession {
		if o.session, o.err = o.held(); o.err != nil {
			return response{}, o.err
		}
	}
	resp, err := operation.do(o)
	resp.status, resp.text = cmp.Or(resp.status, 200), cmp.Or(resp.text, "OK")
	return resp, err
}

func (c *conn) refused(l *engine.Link, req *request, err error, addr core.Address) response {
	about := []any{"operation", req.operation[:min(len(req.operation), maxLogged)]}
	if id, _ := req.headers.Get(trackingID); id != nil {
		own, _ := text(id)
		about = append(about, "client_tracking", own[:min(len(own), maxLogged)])
	}
	a, rejection := c.answerTo(l, err, addr, about...)
	return response{status: a.status, condition: a.condition, text: a.text, rejection: rejection}
}

func (o *operation) form() form { return form{inSession: o.session != nil} }

func serverTimeout(headers core.Properties) time.Duration {
	for _, key := range []string{"com.microsoft:server-timeout", "server-timeout"} {
		v, _ := headers.Get(key)
		if ms, ok := value.Int(v); ok && ms > 0 {
			return time.Duration(min(ms, maxServerTime.Milliseconds())) * time.Millisecond
		}
	}
	return link.CallTimeout
}

func renewLocks(o *operation) (response, error) {
	tokens := o.tokens()
	if o.err != nil {
		return response{}, o.err
	}
	renewed := make(map[core.LockToken]time.Time, len(tokens))
	expirations := make([]value.Timestamp, len(tokens))
	for i, r := range o.front.Renew(o.ctx, o.id, o.address, tokens) {
		if r.Err != nil {
			return response{}, r.Err
		}
		expirations[i] = value.TimestampOf(r.Until)
		renewed[tokens[i]] = r.Until
	}
	return response{renewed: renewed, body: value.Map{{Key: "expirations", Value: value.ArrayOf(expirations)}}}, nil
}

func peekMessages(o *operation) (response, error) {
	from, count := o.integer("from-sequence-number"), o.integer("message-count")
	if count < 1 {
		o.refuse(core.OutOfRange, "message-count is %d: it must be at least 1.", count)
	}
	omit, _ := o.args.Get("omit-message-body")
	f := o.form()
	f.peeked, f.bodiless = true, omit == true
	state := o.stateToPeek()
	if o.err != nil {
		return response{}, o.err
	}
	ds, err := either(o, func() ([]core.Delivery, error) {
		return o.front.Peek(o.ctx, o.id, o.address, state, from, int(min(count, core.MaxPeek)))
	}, func(s core.Session) ([]core.Delivery, error) {
		return s.Peek(o.ctx, from, int(min(count, core.MaxPeek)))
	})
	if slices.ContainsFunc(ds, func(d core.Delivery) bool { return !d.LockedUntil.IsZero() }) {
		f.inSession = f.inSession || o.inSessions()
	}
	messages, size := value.List{}, 0
	for i := range ds {
		encoded := appendDelivery(nil, &ds[i], f)
		if size += len(encoded); size > maxPeekBytes && i > 0 {
			break
		}
		messages = append(messages, value.Map{{Key: "message", Value: encoded}})
	}
	if len(messages) == 0 {
		return response{status: 204, text: "No messages."}, err
	}
	return response{body: value.Map{{Key: "messages", Value: messages}}}, err
}

// ArgumentPeekState is an argument of peek-message that only Crosstown knows. It selects messages
// by their x-opt-message-state. A peek into a session ignores it.
const ArgumentPeekState = "com.crosstown:message-state"

// stateToPeek returns the state of the messages to peek, or nil for all states.
func (o *operation) stateToPeek() *core.State {
	v, given := o.args.Get(ArgumentPeekState)
	if !given {
		return nil
	}
	n, ok := value.Int(v)
	if !ok || n < 0 || n > int64(core.Scheduled) {
		o.refuse(core.InvalidArgument, "%s is not a state of a message: use 0 for active, 1 for deferred, 2 for scheduled.", ArgumentPeekState)
	}
	return new(core.State(n))
}

func scheduleMessages(o *operation) (response, error) {
	entries, ok := o.args.At("messages").(value.List)
	if !ok || len(entries) == 0 {
		return response{}, core.Refuse(core.InvalidArgument, "The field 'messages' of the request must be a list of at least one map.")
	}
	group := make([]*core.Message, len(entries))
	for i, entry := range entries {
		fields, _ := entry.(value.Map)
		payload, ok := fields.At("message").([]byte)
		if !ok {
			return response{}, core.Refuse(core.InvalidArgument, "The field 'messages[%d].message' of the request is not binary.", i)
		}
		var err error
		if group[i], err = decodeMessage(payload); err != nil {
			return response{}, err
		}
	}
	numbers, err := o.schedule(group)
	return response{body: value.Map{{Key: "sequence-numbers", Value: value.ArrayOf(numbers)}}}, err
}

func (o *operation) schedule(group []*core.Message) ([]int64, error) {
	if o.work != nil {
		return o.work.Schedule(o.ctx, o.id, o.address, group)
	}
	sender, err := o.front.OpenSender(o.ctx, o.id, o.address, nil)
	if err != nil {
		return nil, err
	}
	defer sender.Close()
	stored := sender.Send(o.ctx, [][]*core.Message{group})
	if len(stored) != 1 {
		return nil, core.Internal
	}
	return stored[0].Numbers, stored[0].Err
}

func cancelScheduled(o *operation) (response, error) {
	numbers := o.numbers()
	if o.err != nil {
		return response{}, o.err
	}
	if o.work != nil {
		return response{}, o.work.Cancel(o.ctx, o.id, o.address, numbers)
	}
	return response{}, o.front.Cancel(o.ctx, o.id, o.address, numbers)
}

func receiveDeferred(o *operation) (response, error) {
	numbers := o.numbers()
	if o.err != nil {
		return response{}, o.err
	}
	mode := core.PeekLock
	if v, _ := o.args.Get("receiver-settle-mode"); v != nil {
		if n, ok := value.Int(v); ok && n == int64(wire.ReceiverFirst) {
			mode = core.ReceiveAndDelete
		}
	}
	ds, err := either(o, func() ([]core.Delivery, error) {
		return o.front.ReceiveDeferred(o.ctx, o.id, o.address, numbers, mode)
	}, func(s core.Session) ([]core.Delivery, error) { return s.ReceiveDeferred(o.ctx, numbers, mode) })
	messages := make(value.List, len(ds))
	for i := range ds {
		entry := value.Map{{Key: "message", Value: appendDelivery(nil, &ds[i], o.form())}}
		if mode == core.PeekLock {
			entry = append(entry, value.Entry{Key: "lock-token", Value: value.UUID(ds[i].LockToken)})
		}
		messages[i] = entry
	}
	return response{body: value.Map{{Key: "messages", Value: messages}}}, err
}

// dispositions maps the protocol's words to outcomes. The protocol misspells one of them.
var dispositions = map[string]core.Outcome{
	"completed": core.Complete,
	"abandoned": core.Abandon,
	"suspended": core.DeadLetterOutcome,
	"defered":   core.Defer,
	"deferred":  core.Defer,
}

func updateDisposition(o *operation) (response, error) {
	tokens := o.tokens()
	status, _ := text(o.args.At("disposition-status"))
	outcome, ok := dispositions[status]
	if !ok {
		o.refuse(core.InvalidArgument, "disposition-status is '%.60s': it must be completed, abandoned, defered or suspended.", status)
	}
	properties := o.modified(outcome)
	if o.err != nil {
		return response{}, o.err
	}
	if o.session == nil && !o.sessionless() {
		return response{}, core.SessionLockLost
	}
	var under *core.SessionLock
	if o.session != nil {
		l := o.session.Lock()
		under = &l
	}
	settlements := make([]core.Settlement, len(tokens))
	for i, t := range tokens {
		settlements[i] = core.Settlement{Token: t, Session: under, Outcome: outcome, Properties: properties}
	}
	if o.work != nil {
		return response{}, o.work.Settle(o.ctx, o.id, o.address, settlements)
	}
	return response{settled: tokens}, cmp.Or(o.front.Settle(o.ctx, o.id, o.address, settlements)...)
}

func deleteMessages(o *operation) (response, error) {
	count := o.integer("message-count")
	if count < 1 || count > int64(o.maxPurge) {
		o.refuse(core.OutOfRange, "message-count is %d: it must be between 1 and %d.", count, o.maxPurge)
	}
	before := o.timestamp("enqueued-time-utc")
	if o.err != nil {
		return response{}, o.err
	}
	n, err := either(o, func() (int, error) {
		return o.front.Purge(o.ctx, o.id, o.address, instant(before), int(count))
	}, func(s core.Session) (int, error) { return s.Purge(o.ctx, instant(before), int(count)) })
	if n == 0 {
		return response{status: 204, condition: wire.CondMessageNotFound, text: "No messages."}, err
	}
	return response{body: value.Map{{Key: "message-count", Value: int32(n)}}}, err
}

func (o *operation) modified(outcome core.Outcome) core.Properties {
	var pairs []core.Property
	m, _ := o.args.At("properties-to-modify").(value.Map)
	for _, e := range m {
		if key, ok := text(e.Key); ok {
			pairs = append(pairs, core.Property{Key: key, Value: e.Value})
		}
	}
	if outcome == core.DeadLetterOutcome {
		for arg, key := range map[string]string{
			"deadletter-reason":      core.PropertyDeadLetterReason,
			"deadletter-description": core.PropertyDeadLetterDescription,
		} {
			if why := reasonValue(o.args.At(arg)); why != nil {
				pairs = append(pairs, core.Property{Key: key, Value: why})
			}
		}
	}
	p, err := core.NewProperties(pairs...)
	if err != nil {
		o.refuse(core.InvalidArgument, "properties-to-modify: %v.", err)
	}
	return p
}

func (o *operation) tokens() []core.LockToken {
	return elements(o, "lock-tokens", "UUIDs", func(v any) (core.LockToken, bool) {
		u, ok := v.(value.UUID)
		return core.LockToken(u), ok
	})
}

func (o *operation) numbers() []int64 {
	return elements(o, "sequence-numbers", "whole numbers", value.Int)
}

// elements reads the argument name: an array or, as some clients send it, a list. read converts an
// element, and what names the type of the elements in the refusal.
func elements[T any](o *operation, name, what string, read func(any) (T, bool)) []T {
	return argument(o, name, "an array of "+what, func(v any) ([]T, bool) {
		var values []any
		switch v := v.(type) {
		case value.Array:
			values = v.Values
		case value.List:
			values = v
		}
		out, ok := make([]T, len(values)), len(values) > 0
		for i := 0; i < len(values) && ok; i++ {
			out[i], ok = read(values[i])
		}
		return out, ok
	})
}

func argument[T any](o *operation, name, what string, read func(any) (T, bool)) T {
	v, ok := read(o.args.At(name))
	if !ok {
		o.refuse(core.InvalidArgument, "%s is not %s.", name, what)
	}
	return v
}

func as[T any](v any) (T, bool) {
	t, ok := v.(T)
	return t, ok
}

func (o *operation) integer(name string) int64 { return argument(o, name, "an integer", value.Int) }

func (o *operation) timestamp(name string) value.Timestamp {
	return argument(o, name, "a timestamp", as[value.Timestamp])
}
