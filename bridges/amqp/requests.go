package amqp

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/value"
)

const (
	requestCredit  = 100                                // requests in flight on one link
	maxRequestSize = int64(core.MaxMessageSizeKB << 10) // bytes; requests may contain messages
	minRequestSize = 1 << 20                            // minimum size limit of requests, in bytes
	maxTokenSize   = 64 << 10                           // bytes of a request to $cbs, to which any client may send
	maxReplies     = 1000                               // responses that wait for credit on one link
	maxReplyBytes  = 16 << 20                           // bytes of responses that wait for credit on a connection
	maxServerTime  = 5 * time.Minute                    // how long a client may let a request take
)

// dialect holds the names that a node uses for the application properties of its responses.
type dialect struct{ status, description, condition string }

var (
	tokenDialect      = dialect{"status-code", "status-description", "error-condition"}
	managementDialect = dialect{"statusCode", "statusDescription", "errorCondition"}
)

type request struct {
	id        wire.ID
	replyTo   string
	operation string
	headers   core.Properties // application properties
	body      any
}

type response struct {
	status    int32
	condition value.Symbol
	text      string
	body      value.Map
	tracking  string       // the client's tracking id, which is sent back
	rejection value.Symbol // condition for rejecting the request's delivery; see answerTo
	renewed   map[core.LockToken]time.Time
	settled   []core.LockToken // locks that the request has ended
}

const (
	// trackingID is the header with the id under which the client logs the request.
	trackingID = "com.microsoft:tracking-id"
	// associatedLink is the header with the name of the link that the request concerns.
	associatedLink = "associated-link-name"
)

func (r *request) session() core.SessionKey {
	args, _ := r.body.(value.Map)
	id, ok := text(args.At("session-id"))
	if !ok {
		return ""
	}
	return core.KeyOfSession(id)
}

type requestLink struct {
	end
	node string // lower-case address
	size int64  // largest request in bytes
}

type replyLink struct {
	end
	node   string // lower-case address
	target string // the client's address; the reply-to of requests
	queue  [][]byte
	queued bool // is in conn.waiting
}

func (c *conn) attachNode(l *engine.Link, node string, addr core.Address, size int64) {
	a := l.Attach()
	if a.Role == wire.RoleSender {
		l.Data = &requestLink{end: end{conn: c, link: l, addr: addr}, node: node, size: size}
		l.Accept(engine.Terms{MaxMessageSize: uint64(size), Properties: value.Map{}, Credit: requestCredit})
		return
	}
	r := &replyLink{end: end{conn: c, link: l}, node: node}
	if a.Target != nil {
		r.target = a.Target.Address.V
	}
	l.Data = r
	if l.Accept(engine.Terms{MaxMessageSize: uint64(maxRequestSize), Properties: value.Map{}}) {
		c.nodes = append(c.nodes, r)
		r.flowed() // the client may have begun a drain before the answer
	}
}

// received sends the disposition of a request before its response: otherwise some clients crash.
func (r *requestLink) received(m engine.Message) {
	txn, enlists := m.State.(wire.TransactionalState)
	refuse := func(err error, unanswered bool) {
		rejected := r.conn.rejected(r.link, err, r.addr, "delivery", m.ID)
		if unanswered {
			r.link.Settle(m.ID, rejected)
		}
		r.link.Replenish(1)
		r.refused(m.Payload, rejected.Error)
	}
	req, err := decodeRequest(m.Payload)
	if err != nil {
		if enlists {
			r.conn.spoil(txn, err)
		}
		refuse(err, !m.Settled)
		return
	}
	judged := operations[req.operation].contentful && !m.Settled && !enlists
	switch {
	case m.Settled, judged:
	case enlists:
		r.link.Settle(m.ID, wire.TransactionalState{TxnID: bytes.Clone(txn.TxnID), Outcome: wire.Accepted{}})
	default:
		r.link.Settle(m.ID, wire.Accepted{})
	}
	cost := costOfRequest(&req)
	if err := r.conn.afford(cost); err != nil {
		refuse(err, judged)
		return
	}
	size := int64(len(m.Payload)) + cost
	r.conn.buffered += size
	id, holder := r.conn.Identity, r.conn.holderOf(r.addr, &req)
	if holder != nil { // its session must last, even after a detach, until the request is answered
		holder.settling++
	}
	answered := func(resp response, err error, addr core.Address) {
		if err != nil {
			resp = r.conn.refused(r.link, &req, err, addr)
		}
		r.conn.buffered -= size
		if judged {
			r.link.Settle(m.ID, resp.outcome())
		}
		for token, until := range resp.renewed {
			r.conn.renew(token, until, time.Now())
		}
		holder.answered(resp.settled)
		r.link.Replenish(1)
		r.conn.reply(r, &req, resp)
	}
	o := &operation{id: id, address: r.addr, session: holder.sessionHeld()}
	switch {
	case r.node == cbsNode:
		r.conn.serveToken(&req, answered)
	case enlists && operations[req.operation].enlistable:
		r.enlist(o, &req, txn, size, answered)
	default:
		r.conn.Calls.Begin(func(ctx context.Context) func() {
			resp, err := r.conn.carryOut(ctx, o, &req)
			return func() { answered(resp, err, r.addr) }
		})
	}
}

// costOfRequest returns the memory of a request and the messages in it, without their bytes.
func costOfRequest(r *request) int64 {
	args, _ := r.body.(value.Map)
	messages, _ := args.At("messages").(value.List)
	return int64(1+len(messages)) * fair.Message
}

func (resp *response) outcome() wire.DeliveryState {
	if resp.status != 400 && resp.status != 403 {
		return wire.Accepted{}
	}
	return wire.Rejected{Error: &wire.Error{Condition: resp.rejection, Description: resp.text}}
}

// refused answers a dropped request if head contains the address for the answer.
func (r *requestLink) refused(head []byte, why *wire.Error) {
	s := wire.SplitHead(head)
	p, err := wire.DecodeProperties(s.Properties)
	if err != nil || s.Properties == nil {
		return
	}
	resp := response{status: 400, condition: why.Condition, text: why.Description}
	for _, a := range answers {
		if a.condition == why.Condition {
			resp.status = a.status
		}
	}
	r.conn.reply(r, &request{id: p.MessageID, replyTo: p.ReplyTo, headers: textProperties(s.ApplicationProperties)}, resp)
}

func decodeRequest(payload []byte) (request, error) {
	s, err := wire.SplitMessage(payload, value.Limits{})
	if err != nil {
		return request{}, err
	}
	p, err := wire.DecodeProperties(s.Properties)
	if err != nil {
		return request{}, err
	}
	req := request{id: p.MessageID, replyTo: p.ReplyTo, headers: textProperties(s.ApplicationProperties)}
	operation, _ := req.headers.Get("operation")
	req.operation, _ = text(operation)
	if raw, ok := s.Value(); ok {
		if req.body, _, err = value.Decode(raw, value.Limits{}); err != nil {
			return request{}, err
		}
	}
	return req, nil
}

func (c *conn) reply(r *requestLink, req *request, resp response) {
	to := c.route(r.link.Session(), r.node, req.replyTo)
	if to == nil {
		c.Log.Debug("cannot send a response: the client has no link with this reply-to address", "entity", r.node, "link", req.replyTo)
		return
	}
	if id, _ := req.headers.Get(trackingID); id != nil {
		resp.tracking, _ = text(id)
	}
	d := managementDialect
	if r.node == cbsNode {
		d = tokenDialect
	}
	payload, err := encodeResponse(req.id, d, resp)
	if err != nil {
		c.Log.Error("cannot encode the response to a client's request: the client gets no response", "err", err, "entity", r.node)
		return
	}
	to.push(payload)
}

// route returns the link for the response to a request. In the request's AMQP session, it prefers a
// link whose target is replyTo, then one whose name is replyTo, then the only link to the node.
// Then it looks for replyTo in the whole connection, but not in other connections, because clients
// choose the same names.
func (c *conn) route(s *engine.Session, node, replyTo string) *replyLink {
	var here []*replyLink
	for _, r := range c.nodes {
		if r.node == node && r.link.Session() == s {
			here = append(here, r)
		}
	}
	if r := addressed(here, node, replyTo); r != nil {
		return r
	}
	if len(here) == 1 {
		return here[0]
	}
	return addressed(c.nodes, node, replyTo)
}

func addressed(links []*replyLink, node, replyTo string) *replyLink {
	if replyTo == "" {
		return nil
	}
	for _, r := range links {
		if r.node == node && r.target == replyTo {
			return r
		}
	}
	for _, r := range links {
		if r.node == node && r.link.Attach().Name == replyTo {
			return r
		}
	}
	return nil
}

func encodeResponse(id wire.ID, d dialect, resp response) ([]byte, error) {
	dst := wire.AppendProperties(nil, &wire.MessageProperties{CorrelationID: id})
	headers := value.Map{{Key: d.status, Value: resp.status}, {Key: d.description, Value: resp.text}}
	if resp.condition != "" {
		headers = append(headers, value.Entry{Key: d.condition, Value: resp.condition})
	}
	if resp.tracking != "" {
		headers = append(headers, value.Entry{Key: trackingID, Value: resp.tracking})
	}
	var err error
	dst = value.AppendDescriptor(dst, uint64(wire.DescApplicationProperties))
	if dst, err = value.Append(dst, headers); err != nil {
		return nil, err
	}
	body := resp.body
	if body == nil {
		body = value.Map{}
	}
	return value.Append(value.AppendDescriptor(dst, uint64(wire.DescValue)), body)
}

// detached does nothing: requests in flight are answered on a reply link, or not at all.
func (r *requestLink) detached() {}

func (r *replyLink) detached() {
	for _, payload := range r.queue {
		r.conn.replies -= len(payload)
	}
	r.queue = nil
	r.conn.nodes = slices.DeleteFunc(r.conn.nodes, func(n *replyLink) bool { return n == r })
}

func (r *replyLink) push(payload []byte) {
	r.queue = append(r.queue, payload)
	r.conn.replies += len(payload)
	r.flowed()
	if len(r.queue) > maxReplies || len(r.queue) > 0 && r.conn.replies > maxReplyBytes {
		r.link.Detach(&wire.Error{Condition: wire.CondResourceLimitExceeded, Description: "Too many responses wait for link credit: grant more credit."})
		r.detached()
	}
}

func (r *replyLink) flowed() {
	if !r.queued && r.resume() {
		r.queued = true
		r.conn.waiting = append(r.conn.waiting, r)
	}
}

// resume sends waiting responses. left is true if only the writer delays the rest.
func (r *replyLink) resume() (left bool) {
	for len(r.queue) > 0 && r.link.Ready() && r.conn.eng.Buffered() <= maxBacklog {
		r.link.Send(engine.Tag{}, true, time.Time{}, engine.Payload{Body: r.queue[0]})
		r.conn.replies -= len(r.queue[0])
		r.queue[0] = nil
		r.queue = r.queue[1:]
	}
	if len(r.queue) > 0 && r.link.Credit() > 0 && r.link.Open() {
		return true
	}
	r.queued = false
	if len(r.queue) == 0 {
		r.queue = nil
		if r.link.Draining() {
			r.link.Drained()
		}
	}
	return false
}
